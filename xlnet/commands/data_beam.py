"""Makes the records of xlnet data make, byte for byte, with Apache Beam.

It needs Apache Beam, here and on the workers: pip install 'apache-beam[dask]>=2.50'. Input and
output must be wherever all workers reach them (gs://, s3://, hdfs://, a shared folder); the
SentencePiece model is a file that every worker has. Run the same command again to resume a pipeline
that failed.
"""

import dataclasses
import logging
import shlex

from xlnet.commands import cli
from xlnet.commands.data_make import fit_to_preset
from xlnet.settings.data import CorpusSettings
from xlnet.settings.fields import HelpGroup, setting
from xlnet.support.errors import UserError


@dataclasses.dataclass(frozen=True)
class BeamSettings:
    """xlnet data beam: where the pipeline runs."""

    beam_options: str = setting(
        "",
        "options of Beam and its runner, in one string: '--runner=DataflowRunner --project=...'",
        help_group=HelpGroup.DEVICES,
    )


def main(settings: CorpusSettings, runner: BeamSettings) -> None:
    try:
        from apache_beam.options.pipeline_options import PipelineOptions
    except ImportError:
        raise UserError(
            "Apache Beam is not installed; pip install 'apache-beam[dask]>=2.50'"
        ) from None
    from xlnet.corpus import beam

    # Beam's own options are one string, as in a shell.
    try:
        options = shlex.split(runner.beam_options)
    except ValueError as e:
        raise UserError(f"beam_options: {runner.beam_options}: {e}") from None
    silenced = ["apache_beam.runners.common"]
    if "DaskRunner" in runner.beam_options:
        try:
            import distributed
        except ImportError:
            raise UserError(
                "Dask is not installed; pip install 'apache-beam[dask]>=2.50'"
            ) from None
        silenced += [distributed.__name__, distributed.client.__name__]
        if "partition" not in runner.beam_options:
            options.append(
                "--dask_partition_size=1"
            )  # Dask's 128 would keep workers idle
    for name in silenced:  # tracebacks of what is tried again, or is raised again below
        logging.getLogger(name).setLevel(logging.CRITICAL)
    made = beam.run(fit_to_preset(settings), PipelineOptions(options))
    print(
        "{}: {}".format(
            "records" if made else "nothing to do: these records were made before",
            settings.save_dir,
        )
    )


def run() -> None:
    cli.run(
        main,
        CorpusSettings,
        BeamSettings,
        about=__doc__,
        examples=(
            "--input_glob='gs://mine/text/*.gz' --save_dir=gs://mine/records "
            "--sp_path=spiece.model --num_streams=4096 --beam_options='--runner=DataflowRunner "
            "--project=mine --region=europe-west4'",
            "--input_glob='/shared/text/*.gz' --save_dir=/shared/records --sp_path=spiece.model "
            "--beam_options='--runner=apache_beam.runners.dask.dask_runner.DaskRunner "
            "--dask_client_address=tcp://scheduler:8786'",
        ),
    )
