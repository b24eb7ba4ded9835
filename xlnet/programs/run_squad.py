"""Fine-tunes an XLNet to answer questions on texts. `python run_squad.py --help`."""

from xlnet import cli
from xlnet.programs import fine_tuning
from xlnet.settings.devices import DeviceSettings
from xlnet.settings.finetuning import SpanSettings
from xlnet.settings.network import NetworkSettings
from xlnet.settings.training import OptimizationSettings

ABOUT = """fine-tunes an XLNet to find the answer to a question in a text, or that there is none.

Files are SQuAD's JSON, Hugging Face's flat form of it, or tables with a question in each row:
train_file and predict_file, or those of a known task in data_dir. Records are kept in output_dir
and regenerated when text or settings change. A run found in model_dir is continued. Training is
evaluated once an epoch, and the best checkpoint kept as model_dir/best. To use a model its
directory is enough: --model_dir=M --do_predict --predict_file=FILE.
"""

NO_LONGER_NEEDED = {
    **fine_tuning.NO_LONGER_NEEDED, **fine_tuning.GONE,
    "shuffle_buffer": "the training questions are shuffled whole",
    "num_proc": "all cores share the work",
    "proc_id": "see num_proc",
    "summary_type": "answers are found from each token, not from a summary",
    "init_global_vars": "it has no effect",
    "target_eval_key": "metric names what chooses the best checkpoint",
}

_OF_TABLES = ("context_column", "question_column", "answer_column", "answer_start_column",
              "id_column")


def main(settings: SpanSettings, network: NetworkSettings,
         optimization: OptimizationSettings, device: DeviceSettings) -> None:
    if settings.do_prepro:
        from xlnet.finetuning import program
        program.prepare(settings, check_task)
    if settings.does_run:
        fine_tuning.run(settings, network, optimization, device, check_task)


def check_task(name: str) -> None:
    """Raises UserError for flags that contradict what is known of a task."""
    from xlnet.tasks.types import known
    if known.plain(name) == known.CUSTOM:
        return
    fine_tuning.refuse_columns(known.find_task(name).name, _OF_TABLES)


FIRST = ("train_file", "predict_file", *fine_tuning.FIRST)
EXAMPLES = (
    "--config=configs/finetune/squad2-base.json --data_dir=SQuAD --model_dir=model "
    "--init_checkpoint=xlnet/xlnet_model.ckpt --do_train --do_eval",
    "--model_dir=model --do_predict --predict_file=questions.csv --predict_output=-",
)


def run() -> None:
    cli.run(main, SpanSettings, NetworkSettings, OptimizationSettings, DeviceSettings,
            no_longer_needed=NO_LONGER_NEEDED, about=ABOUT, first=FIRST, examples=EXAMPLES)
