"""Fine-tunes an XLNet to find the answer to a question in a text, or that there is none.

Files are SQuAD's JSON, Hugging Face's flat form of it, or tables with a question in each row:
train_file and predict_file, or those of a known task in data_dir. Records are kept in output_dir
and regenerated when text or settings change. A run found in model_dir is resumed. Training
evaluates once an epoch and keeps the best checkpoint as model_dir/best. To use a model its
directory is enough: --model_dir=M --do_predict --predict_file=FILE.
"""

from xlnet.commands import fine_tuning
from xlnet.settings.finetuning import SpanSettings

UNUSED = (
    "num_proc",
    "proc_id",
    "summary_type",
    "init_global_vars",
    "target_eval_key",
)


def run() -> None:
    fine_tuning.run(
        SpanSettings,
        __doc__,
        (
            "--config=squad2-base --data_dir=SQuAD --model_dir=model "
            "--init_checkpoint=xlnet/xlnet_model.ckpt --do_train --do_eval",
            "--model_dir=model --do_predict --predict_file=questions.csv --output=-",
        ),
        UNUSED,
    )
