"""The command lines of the authors' README and scripts, as they stand there: each flag works, or is
noted. Only what a machine has is put in: paths, sizes and, in the place of its GPUs, the CPU."""

import json
import re
import shlex

import pytest
from helpers import command, official
from helpers.finetuning import make_vocabulary
from helpers.paths import RELEASED
from helpers.pretraining import make_text

from xlnet.engine import loop
from xlnet.finetuning.evaluate import Evaluator

pytestmark = pytest.mark.slow

# data_utils.py, train.py (ours is train_gpu.py for both) and the fine-tuning commands; run_race.py
# is a task of run_classifier.py.
DATA = """
python data_utils.py --bsz_per_host=32 --num_core_per_host=16 --seq_len=512 --reuse_len=256
    --input_glob=*.txt --save_dir=${SAVE_DIR} --num_passes=20 --bi_data=True
    --sp_path=spiece.model --mask_alpha=6 --mask_beta=1 --num_predict=85"""
PRETRAIN = """
python train.py --record_info_dir=$DATA/tfrecords --train_batch_size=2048 --seq_len=512
    --reuse_len=256 --mem_len=384 --perm_size=256 --n_layer=24 --d_model=1024 --d_embed=1024
    --n_head=16 --d_head=64 --d_inner=4096 --untie_r=True --mask_alpha=6 --mask_beta=1
    --num_predict=85"""
TPU = (
    PRETRAIN
    + """ --use_tpu=False --tpu=name --tpu_zone=zone --gcp_project=project --master=grpc
    --num_hosts=1 --track_mean=True --num_passes=1 --iterations=500 --summary_type=last
    --uncased=False --clamp_len=-1 --ff_activation=gelu --max_save=3 --dropout=0.1 --dropatt=0.1"""
)
STS_B = """
python run_classifier.py --do_train=True --do_eval=False --task_name=sts-b
    --data_dir=${GLUE_DIR}/STS-B --output_dir=proc_data/sts-b --model_dir=exp/sts-b --uncased=False
    --spiece_model_file=${LARGE_DIR}/spiece.model --model_config_path=${LARGE_DIR}/xlnet_config.json
    --init_checkpoint=${LARGE_DIR}/xlnet_model.ckpt --max_seq_length=128 --train_batch_size=8
    --num_hosts=1 --num_core_per_host=4 --learning_rate=5e-5 --train_steps=1200 --warmup_steps=120
    --save_steps=600 --is_regression=True"""
IMDB = """
python run_classifier.py --use_tpu=True --tpu=${TPU_NAME} --do_train=True --do_eval=True
    --eval_all_ckpt=True --task_name=imdb --data_dir=${IMDB_DIR}
    --output_dir=${GS_ROOT}/proc_data/imdb --model_dir=${GS_ROOT}/exp/imdb --uncased=False
    --spiece_model_file=${LARGE_DIR}/spiece.model
    --model_config_path=${LARGE_DIR}/xlnet_config.json
    --init_checkpoint=${LARGE_DIR}/xlnet_model.ckpt --max_seq_length=512 --train_batch_size=32
    --eval_batch_size=8 --num_hosts=1 --num_core_per_host=8 --learning_rate=2e-5 --train_steps=4000
    --warmup_steps=500 --save_steps=500 --iterations=500"""
RACE = """
python run_race.py --use_tpu=True --tpu=${TPU_NAME} --num_hosts=4 --num_core_per_host=8
    --model_config_path=${LARGE_DIR}/xlnet_config.json --spiece_model_file=${LARGE_DIR}/spiece.model
    --output_dir=${GS_ROOT}/proc_data/race --init_checkpoint=${LARGE_DIR}/xlnet_model.ckpt
    --model_dir=${GS_ROOT}/experiment/race --data_dir=${RACE_DIR} --max_seq_length=512
    --max_qa_length=128 --uncased=False --do_train=True --train_batch_size=32 --do_eval=True
    --eval_batch_size=32 --train_steps=12000 --save_steps=1000 --iterations=1000
    --warmup_steps=1000 --learning_rate=2e-5 --weight_decay=0 --adam_epsilon=1e-6"""
SQUAD_RECORDS = """
python run_squad.py --use_tpu=False --do_prepro=True --spiece_model_file=${LARGE_DIR}/spiece.model
    --train_file=${SQUAD_DIR}/train-v2.0.json --output_dir=${GS_PROC_DATA_DIR} --uncased=False
    --max_seq_length=512 --num_proc=8 --proc_id=0"""
# That for GPUs has no other flags, and use_tpu=False.
SQUAD = """
python run_squad.py --use_tpu=True --tpu=${TPU_NAME} --num_hosts=1 --num_core_per_host=8
    --model_config_path=${LARGE_DIR}/xlnet_config.json --spiece_model_file=${LARGE_DIR}/spiece.model
    --output_dir=${GS_PROC_DATA_DIR} --init_checkpoint=${LARGE_DIR}/xlnet_model.ckpt
    --model_dir=${GS_MODEL_DIR} --train_file=${SQUAD_DIR}/train-v2.0.json
    --predict_file=${SQUAD_DIR}/dev-v2.0.json --uncased=False --max_seq_length=512 --do_train=True
    --train_batch_size=48 --do_predict=True --predict_batch_size=32 --learning_rate=3e-5
    --adam_epsilon=1e-6 --iterations=1000 --save_steps=1000 --train_steps=8000
    --warmup_steps=1000"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory with texts, a vocabulary, a small model of the released layout, and data."""
    folder = tmp_path_factory.mktemp("reference")
    make_text(folder / "text.txt", seed=0, sentences=400)
    official.make("sts-b", folder / "sts-b")
    (folder / "large").mkdir()
    for path in RELEASED.iterdir():
        (folder / "large" / path.name).write_bytes(path.read_bytes())
    make_vocabulary(folder / "large" / "spiece.model", 37)
    official.make("imdb", folder / "imdb")
    official.make("race", folder / "race")
    for split in ("train", "dev"):
        paragraphs = []
        for i in range(80):
            question = {"id": f"{split}{i}", "question": "solkat?", "answers": []}
            question["is_impossible"] = i % 2 == 1
            if i % 2 == 0:
                question["answers"].append({"text": "telok", "answer_start": 6})
            paragraphs.append({"context": f"Kamat telok {i}.", "qas": [question]})
        squad = {"version": "v2.0", "data": [{"title": "a", "paragraphs": paragraphs}]}
        (folder / (split + "-v2.0.json")).write_text(json.dumps(squad))
    return folder


def run(place, monkeypatch, line, **machine):
    """Runs a command line in `place`; `machine`: what is put in."""
    monkeypatch.chdir(place)
    _, program, *words = shlex.split(line)
    ours = {"train.py": "train_gpu.py", "run_race.py": "run_classifier.py"}
    flags = dict(word[2:].split("=", 1) for word in words)
    return command.succeed(ours.get(program, program), **{**flags, **machine})


def noted(done):
    """The flags that were accepted and have no effect."""
    listed = re.search(r"^note: not used: (.*)$", done.stderr, re.M)
    return set(listed[1].replace("--", "").split(", ")) if listed else set()


SMALL = dict(seq_len=32, reuse_len=16, num_predict=5)


@pytest.fixture(scope="module")
def records(place):
    machine = dict(SMALL, sp_path="large/spiece.model", save_dir="data")
    machine.update(bsz_per_host=4, num_passes=2)
    with pytest.MonkeyPatch.context() as patched:
        done = run(place, patched, DATA, **machine)
    unused = {"num_core_per_host", "num_predict", "mask_alpha", "mask_beta"}
    assert noted(done) == unused


TINY = dict(
    SMALL,
    n_layer=2,
    d_model=8,
    d_embed=8,
    n_head=2,
    d_head=4,
    d_inner=16,
    mem_len=8,
    perm_size=16,
    train_batch_size=4,
    train_steps=2,
    device="cpu",
    record_info_dir="data/tfrecords",
)


def test_pretraining(place, records, monkeypatch):
    """No model_dir and no activation is given, and the records are looked for in tfrecords/."""
    done = run(place, monkeypatch, PRETRAIN, **TINY)
    assert noted(done) == {"d_embed"}
    assert "note: record_info_dir: the records are in data\n" in done.stdout
    assert f"note: model_dir is not given: {place}/model\n" in done.stdout
    config = json.loads((place / "model" / "xlnet_config.json").read_text())
    assert config["ff_activation"] == "relu" and config["untie_r"] is True
    assert (place / "model" / "model.ckpt-2.index").exists()


@pytest.fixture
def prepared(monkeypatch):
    """In the place of training: all before it is done."""
    monkeypatch.setattr(loop, "fit", lambda run, *_: None)


def test_pretraining_on_a_tpu(place, records, monkeypatch, prepared):
    done = run(place, monkeypatch, TPU, **dict(TINY, model_dir="tpu"))
    unused = "d_embed tpu_zone gcp_project master track_mean num_passes iterations"
    assert noted(done) == {*unused.split(), "summary_type"}


FINETUNE = dict(
    spiece_model_file="large/spiece.model",
    device="cpu",
    model_config_path="large/xlnet_config.json",
    init_checkpoint="large/xlnet_model.ckpt",
    train_batch_size=8,
    warmup_steps=1,
)


@pytest.mark.parametrize(
    "task, line, unused",
    (
        ("sts-b", STS_B, {"num_hosts"}),
        ("imdb", IMDB, {"eval_all_ckpt", "iterations", "num_hosts", "tpu", "use_tpu"}),
        ("race", RACE, {"iterations", "max_qa_length", "num_hosts", "tpu", "use_tpu"}),
    ),
)
def test_finetuning(place, monkeypatch, prepared, task, line, unused):
    """On a TPU's command line: it runs on what there is, and says so."""
    monkeypatch.setattr(Evaluator, "evaluate", lambda self: print("evaluated"))
    monkeypatch.setattr(Evaluator, "log_verdict", lambda self, *seen: None)
    machine = dict(FINETUNE, task_name=task, data_dir=task, max_seq_length=16)
    machine.update(model_dir="finetuned", train_steps=8)
    done = run(place, monkeypatch, line, **machine)
    assert noted(done) == unused
    assert ("evaluated" in done.stdout) == (line is not STS_B)


def test_questions(place, monkeypatch):
    """A training, which makes its records, and its predictions."""
    data = dict(train_file="train-v2.0.json", output_dir="squad")
    vocabulary = FINETUNE["spiece_model_file"]
    done = run(place, monkeypatch, SQUAD_RECORDS, **data, spiece_model_file=vocabulary)
    assert noted(done) == {"num_proc", "proc_id", "use_tpu"}
    assert "do_prepro alone does nothing: a training makes its records" in done.stdout
    machine = dict(FINETUNE, predict_file="dev-v2.0.json", model_dir="answers")
    machine.update(use_tpu=False, num_core_per_host=2, train_steps=2)
    done = run(place, monkeypatch, SQUAD, **machine, **data)
    assert "as 2 replicas" in done.stdout
    unused = {"iterations", "predict_batch_size", "num_hosts", "tpu", "use_tpu"}
    assert noted(done) == unused
    assert re.search("^task +custom: 80 examples", done.stdout, re.M)
    path = place / "answers" / "results" / "predictions_custom_dev-v2.0.json"
    assert set(json.loads(path.read_text())) == {f"dev{i}" for i in range(80)}
