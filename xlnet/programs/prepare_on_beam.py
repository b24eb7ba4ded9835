"""Makes the records of xlnet data make, byte for byte, with Apache Beam.

It needs Apache Beam: pip install '.[beam]', here and on the workers. Input and output may be
wherever Beam's file systems reach (gs://, s3://, hdfs://, a shared folder); the SentencePiece model
is a file that every worker has.
"""

import dataclasses
import shlex

from xlnet import cli, files
from xlnet.errors import UserError
from xlnet.programs.data_utils import fit_to_preset
from xlnet.settings.data import CorpusSettings
from xlnet.settings.fields import Need, setting


@dataclasses.dataclass(frozen=True)
class BeamSettings:
    """xlnet data beam: where the pipeline runs."""
    beam_options: str = setting("", "options of Beam and its runner, in one string: "
                                "'--runner=DataflowRunner --project=...'", need=Need.DEVICES)


def main(settings: CorpusSettings, runner: BeamSettings) -> None:
    try:
        from apache_beam.options.pipeline_options import PipelineOptions
    except ImportError:
        raise UserError("Apache Beam is not installed; pip install '.[beam]'") from None
    from xlnet.text import beam
    settings = fit_to_preset(settings)
    if files.is_remote(settings.save_dir):
        print("note: xlnet pretrain reads records from a disk: copy %s to one when it is complete"
              % settings.save_dir, flush=True)
    made = beam.run(settings, PipelineOptions(shlex.split(runner.beam_options)))
    print("%s: %s" % ("records" if made else "nothing to do: these records were made before",
                      settings.save_dir))


# What --help shows; --helpfull shows all.
FIRST = ("input_glob", "sp_path", "save_dir", "beam_options", "text_format", "seq_len", "reuse_len",
         "num_streams", "split", "num_passes")


def run() -> None:
    cli.run(main, CorpusSettings, BeamSettings, about=__doc__, first=FIRST, examples=(
        "--input_glob='gs://mine/text/*.gz' --save_dir=gs://mine/records "
        "--sp_path=spiece.model --num_streams=4096 --beam_options='--runner=DataflowRunner "
        "--project=mine --region=europe-west4'",))
