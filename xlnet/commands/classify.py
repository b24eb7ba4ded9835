"""Fine-tunes an XLNet to classify or score texts and pairs of texts.

For a known task data_dir holds the official files; for --task_name=custom it holds train, dev and
test as .tsv, .csv or .jsonl, whose columns the *_column flags name, or is one such file. Records
are kept in output_dir and regenerated when text or settings change. A run found in model_dir is
resumed. Training evaluates once an epoch and keeps the best checkpoint as model_dir/best. To use a
model its directory is enough: --model_dir=M --do_predict --predict_file=FILE.
"""

from xlnet.commands import fine_tuning
from xlnet.settings.finetuning import ClassifierSettings

UNUSED = (
    "num_passes",
    "max_qa_length",
    "high_only",
    "middle_only",
    "predict_ckpt",
)


def run() -> None:
    fine_tuning.run(
        ClassifierSettings,
        __doc__,
        (
            "--config=sst-2-base --data_dir=glue/SST-2 --model_dir=model "
            "--init_checkpoint=xlnet/xlnet_model.ckpt --do_train --do_eval",
            "--task_name=custom --data_dir=news.csv --text_a_column=title,text "
            "--label_column=topic --init_checkpoint=pretrained --model_dir=model --do_train "
            "--epochs=3",
            "--model_dir=model --do_predict --predict_file=new.csv --output=-",
        ),
        UNUSED,
    )
