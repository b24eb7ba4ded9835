"""Fine-tunes an XLNet to find entities: a tag for each word of a sentence.

For a known task data_dir holds its files; for --task_name=custom it holds train, dev and test as
CoNLL-style columns (a word a line, a blank line between sentences) or as .jsonl, .json or .parquet
(tokens and their tags, or a text and its entities as [start, end, label] in characters), or is one
such file. Tags are BIO2 unless --scheme says another one. Files to predict may also be raw text, a
sentence a line (--input_format=text). Records are kept in output_dir and regenerated
when text or settings change. A run found in model_dir is resumed. Training evaluates once an epoch
and keeps the best checkpoint as model_dir/best. To use a model its directory is enough:
--model_dir=M --do_predict --predict_file=FILE.
"""

from xlnet.commands import fine_tuning
from xlnet.settings.finetuning import TaggerSettings


def run() -> None:
    fine_tuning.run(
        TaggerSettings,
        __doc__,
        (
            "--config=conll2003-base --data_dir=CoNLL2003 --model_dir=model "
            "--init_checkpoint=xlnet/xlnet_model.ckpt --do_train --do_eval",
            "--model_dir=model --do_predict --predict_file=new.jsonl --output=-",
        ),
    )
