"""Pretraining data: records of text, by processes or with Apache Beam; merged, verified. A sample
of text to try everything on."""

import logging
import os
import shlex
import zipfile
from typing import TYPE_CHECKING

from xlnet.commands import cli, pretrain
from xlnet.settings.data import CorpusSettings
from xlnet.settings.fields import HelpGroup, Settings, required, setting
from xlnet.support import files
from xlnet.support.errors import wrong

if TYPE_CHECKING:
    from xlnet.corpus import preparation

_SAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sample.zip")


class BeamSettings(Settings, help_group=HelpGroup.DEVICES):
    """xlnet data beam: where the pipeline runs."""

    beam_options: str = setting(
        "",
        "options of Beam and its runner, in one string: '--runner=DataflowRunner --project=...'",
    )


class RecordsSettings(Settings):
    """xlnet data merge, verify: which records."""

    input: str = required(
        "directory of records; to merge them, the one that was --save_dir of all tasks",
    )


class SampleSettings(Settings):
    """xlnet sample: where to."""

    output: str = required("directory for the sample")


@cli.program(
    CorpusSettings,
    unused=cli.UNUSED,
    preset_table="pretrain",
    elsewhere=pretrain.GROUPS,
)
def make(settings: CorpusSettings) -> None:
    """Makes pretraining records from text.

    Input is text, a sentence a line, a blank line between documents; <eop> may end a line that ends
    a paragraph. JSON lines are .jsonl files, or those of --input_format=jsonl; .parquet is Parquet.

    Output is one TFRecord file for each text stream, manifest.json and the SentencePiece model, all
    that xlnet pretrain needs: --record_info_dir is this program's --save_dir. Run the same command
    again to resume a run that was killed. --config=PRESET gives the lengths and the number of
    streams that a preset of xlnet pretrain trains on.

    Examples:
      xlnet data make --input_glob='text/*.txt' --sp_path=spiece.model --save_dir=records
      xlnet data make --input_glob=text --split=heldout --sp_path=spiece.model --save_dir=heldout
      xlnet data make --config=base_8gpus --input_glob=text --sp_path=spiece.model \\
          --save_dir=records
    """
    from xlnet.corpus import preparation

    print_summary(preparation.make_records(settings))


def print_summary(summary: "preparation.Summary") -> None:
    """Prints counts of the records that `make`, `beam` or `merge` has made, and their directory."""
    made = summary.manifest  # counts, besides the settings
    print(
        f"documents {made.documents}, sentences {made.sentences}, tokens {made.tokens} "
        f"({100 * made.unknown / made.tokens:.3f} % unknown)"
    )
    if not summary.is_new:
        print("nothing to do: these records were made before")
    for reason, count in made.skipped.items():  # numbers of documents
        print(f"left out, {reason}: {count}")
    print(
        f"streams {made.num_streams} x {made.windows_per_stream} sequences of {made.seq_len} "
        f"tokens ({made.num_passes} passes), {made.dropped} tokens dropped in each pass and "
        "direction"
    )
    print(f"records: {summary.directory}")


@cli.program(
    CorpusSettings, BeamSettings, preset_table="pretrain", elsewhere=pretrain.GROUPS
)
def beam(settings: CorpusSettings, beam_settings: BeamSettings) -> None:
    """Makes the records of xlnet data make, byte for byte, with Apache Beam.

    It needs Apache Beam, here and on the workers: pip install 'apache-beam[dask]>=2.50'. Input and
    output must be wherever all workers reach them (gs://, s3://, hdfs://, a shared folder); the
    SentencePiece model is a file that every worker has. Run the same command again to resume a
    pipeline that failed.

    Examples:
      xlnet data beam --input_glob='gs://mine/text/*.gz' --save_dir=gs://mine/records \\
          --sp_path=spiece.model --num_streams=4096 \\
          --beam_options='--runner=DataflowRunner --project=mine --region=europe-west4'
    """
    try:
        from apache_beam.options.pipeline_options import PipelineOptions

        from xlnet.corpus import beam as pipeline
    except ImportError:
        remedy = "pip install 'apache-beam[dask]>=2.50'"
        raise wrong("Apache Beam", "none", "an installed one", remedy) from None
    # Beam's own options are one string, which is split as a shell would.
    try:
        options = shlex.split(beam_settings.beam_options)
    except ValueError as e:
        found = f"{beam_settings.beam_options} ({e})"
        raise wrong("beam_options", found, "options as in a shell") from None
    # These loggers show a traceback for each attempt that fails. Beam repeats the attempt, or the
    # call below raises its error.
    for name in ("apache_beam.runners.common", "distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    print_summary(pipeline.make_records(settings, PipelineOptions(options)))


@cli.program(RecordsSettings)
def merge(settings: RecordsSettings) -> None:
    """Merges the records of several machines, each of xlnet data make --task=K --num_task=N.

    Examples:
      xlnet data merge --input=shared/records
    """
    from xlnet.corpus import preparation

    print_summary(preparation.merge(settings.input))


@cli.program(RecordsSettings)
def verify(settings: RecordsSettings) -> None:
    """Compares pretraining records with the checksums of their manifest.

    Examples:
      xlnet data verify --input=records
    """
    from xlnet.corpus.manifest import Manifest

    Manifest.read(settings.input, "input").verify(settings.input)
    print(f"records in {settings.input} agree with their checksums")


@cli.program(SampleSettings)
def sample(settings: SampleSettings) -> None:
    """Writes a sample to try everything on: text to pretrain on, and a classification set.

    Both are the documentation of Python 3.11.7, which `sample.zip` next to this file contains with
    its licence, so that all computers have the same text. pretrain/: the language reference and the
    docstrings of the standard library, 5 % of the documents in heldout.txt. classify/: docstrings
    with their package as the label; few to train on, so that pretraining matters, and many to
    evaluate on.

    Examples:
      xlnet sample --output=text
    """
    with zipfile.ZipFile(_SAMPLE) as archive:
        for name in archive.namelist():
            path = os.path.join(settings.output, name)
            files.write_text(path, archive.read(name).decode("utf-8"))
            print(f"written: {path}")
