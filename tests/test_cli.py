"""Command lines: what is shown where, and how a program ends."""

import logging
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest
from helpers import command, command_lines
from helpers.paths import ROOT

import xlnet
from xlnet import cli
from xlnet.errors import UserError
from xlnet.settings.fields import setting_type

PROGRAM = """
import dataclasses, logging, time
from xlnet import cli
from xlnet.settings.fields import setting

@dataclasses.dataclass(frozen=True)
class Settings:
    \"\"\"program.py: a program.\"\"\"
    seconds: float = setting(0.0, "seconds to run")

def main(settings):
    log = logging.getLogger("xlnet.some.module")
    log.debug("not shown")
    log.info("%d shown", 1)
    log.warning("note: shown too")
    logging.getLogger("other").info("not shown")
    time.sleep(settings.seconds)
    for number in range(3 * (not settings.seconds)):
        print("a line " * 2000)

cli.run(main, Settings, about="waits")
"""


@pytest.fixture
def program(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    return [sys.executable, str(tmp_path / "program.py")]


def start(command, **options):
    # Where the tests run in the background of a shell, Ctrl-C is ignored, and would be here too.
    options.setdefault("preexec_fn", lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ, PYTHONPATH=str(ROOT)),
        **options,
    )


@pytest.mark.slow
def test_the_log_is_bare_text_notes_on_stderr(program):
    stdout, stderr = start(program).communicate()
    assert stdout.split("\n")[0] == "1 shown" and len(stdout.splitlines()) == 4
    assert stderr == "note: shown too\n"


@pytest.mark.slow
def test_what_files_hold_does_not_act_on_the_terminal(tmp_path):
    """Nor does half a character, which no stream takes, end a program."""
    path = tmp_path / "program.py"
    text = "a\\x1b[2J\\ud800é\\n b"
    path.write_text(
        PROGRAM.replace('"%d shown", 1', f'"%s", "{text}"')
        .replace("    time.sleep", f"    raise Error('{text}')\n    time.sleep")
        .replace("import cli", "import cli\nfrom xlnet.errors import UserError as Error")
    )
    done = start([sys.executable, str(path)])
    stdout, stderr = done.communicate()
    assert done.returncode == 1 and stdout == "a\\x1b[2J\\ud800é\n b\n"
    assert stderr.splitlines()[-1] == "program.py: a\\x1b[2J\\ud800é\\n b"


@pytest.mark.slow
def test_what_the_output_cannot_encode_is_shown_by_its_codes(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.replace('"a line " * 2000', '"\\u4e2d"'))
    done = start(["env", "PYTHONIOENCODING=ascii", sys.executable, str(path)])
    assert done.communicate()[0].endswith("\n\\u4e2d\n") and not done.returncode


@pytest.mark.slow
def test_ctrl_c_ends_with_one_line(program):
    process = start(program + ["--seconds=60"])
    assert process.stdout.readline() == "1 shown\n"  # flushed at once
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.communicate()[1] == "note: shown too\nprogram.py: stopped\n"
    assert process.returncode == 130


@pytest.mark.slow
def test_sigterm_ends_the_first_process_of_a_container(program):
    """To which the kernel gives only signals that it handles: `docker stop` would wait for 10 s."""
    namespace = ["unshare", "--map-root-user", "--pid", "--fork", "--kill-child"]
    if not shutil.which("unshare") or subprocess.run([*namespace, "true"]).returncode:
        pytest.skip("processes may not be numbered anew here (unshare --pid)")
    process = start([*namespace, *program, "--seconds=60"])
    assert process.stdout.readline() == "1 shown\n"
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    os.kill(int(children), signal.SIGTERM)
    assert process.wait(5) == 128 + signal.SIGTERM


@pytest.mark.slow
def test_several_programs_in_a_process(tmp_path):
    """As in the cells of a notebook: after an end of any kind, and each with its own flags."""
    path = tmp_path / "twice.py"
    path.write_text("""import sys
from xlnet.__main__ import main
for words in (["predict", "--model_dir=model", "--input=missing.csv"], ["predict", "--helpfull"],
              ["predict", "--model_dir=model", "--inptu=x"], ["predict", "--input=missing.csv"],
              ["fill", "--help"], ["data", "verify", "--input=records"]):
    sys.argv = ["xlnet", *words]
    try:
        main()
    except SystemExit as e:
        print(e.code, file=sys.stderr)
""")
    done = start([sys.executable, str(path)], cwd=tmp_path)
    lines = done.communicate()[1].splitlines()
    assert [line for line in lines if line.isdecimal()] == ["1", "2", "2", "1"], lines
    assert len(lines) == 8 and "twice" not in "".join(lines)
    assert "--model_dir is required" in lines[4]  # not that of the call before


@pytest.mark.slow
@pytest.mark.parametrize("closed", (">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"))
def test_a_program_started_without_streams(program, tmp_path, closed):
    """Its output goes nowhere, not into a file that takes the number of a missing stream."""
    text = (tmp_path / "program.py").read_text()
    (tmp_path / "program.py").write_text(
        text.replace(
            "    time.sleep",
            "    kept = open('kept', 'w')\n    kept.write('x')\n    kept.flush()\n"
            "    import os; [os.write(number, b'y') for number in (1, 2)]\n    time.sleep",
        )
    )
    done = start(["bash", "-c", "{} {}".format(" ".join(program), closed)], cwd=tmp_path)
    stdout, stderr = done.communicate()
    assert done.returncode == 0 and "Traceback" not in stdout + stderr, stderr
    assert (tmp_path / "kept").read_text() == "x"
    if "2>" in closed:
        assert "note" not in stdout


@pytest.mark.slow
def test_a_full_standard_output_is_named(program):
    process = start(["bash", "-c", " ".join(program) + " > /dev/full"])
    assert process.communicate()[1].splitlines() == [
        "program.py: standard output: no space left on the disk; free some and start again, or "
        "give a directory elsewhere"
    ]
    assert process.returncode == 1


def test_a_name_that_is_not_utf8_is_refused():
    line = command.refused("train_gpu.py", "--record_info_dir=r", "--model_dir=m\udcff")
    assert (
        line == "train_gpu.py: model_dir: m\\udcff has a byte that is not UTF-8; give the "
        "file or directory another name"
    )
    with pytest.raises(UserError, match="^path: m\udcff has a byte that is not UTF-8"):
        xlnet.load("m\udcff")


@pytest.mark.slow
def test_ctrl_c_twice_is_one_line(program, tmp_path):
    """The second one comes while the first one ends the program."""
    text = (tmp_path / "program.py").read_text()
    (tmp_path / "program.py").write_text(
        text.replace(
            "    time.sleep(settings.seconds)",
            "    try:\n        time.sleep(settings.seconds)\n"
            "    finally:\n        print('ending', flush=True)\n        time.sleep(60)",
        )
    )
    process = start(program + ["--seconds=60"])
    assert process.stdout.readline() == "1 shown\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "ending\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate()[1] == "note: shown too\nprogram.py: stopped\n"
    assert process.returncode == 130


@pytest.mark.parametrize("flags", [[], ["--help"]])
@pytest.mark.slow
def test_a_closed_output_ends_without_a_traceback(program, flags):
    process = start(program + flags)
    process.stdout.close()
    stderr = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 141 and "rror" not in stderr and "Traceback" not in stderr


def test_handlers_go_with_the_program(capsys):
    from xlnet import cli

    log = logging.getLogger("xlnet")
    before = list(log.handlers), log.level, log.propagate
    with cli._showing_log():
        logging.getLogger("xlnet.engine").info("step %d", 3)
    assert capsys.readouterr().out == "step 3\n"
    assert (log.handlers, log.level, log.propagate) == before


def test_errors_are_value_errors():
    with pytest.raises(ValueError, match="d_model"):
        from xlnet import XLNetConfig

        XLNetConfig(n_layer=3)
    assert issubclass(UserError, ValueError)


@pytest.mark.parametrize(
    "program, flag, meant",
    [
        ("run_classifier.py", "num_train_epochs", "epochs"),
        ("train_gpu.py", "lr", "learning_rate"),
        ("run_squad.py", "fp16", "precision=fp16"),
        ("run_tagger.py", "max_length", "max_seq_length"),
        ("train_gpu.py", "validation_file", "eval_record_info_dir"),
        ("xlnet fill", "checkpoint", "called --model_dir"),
        ("xlnet pretrain", "input", "called --record_info_dir"),
        ("xlnet predict", "eval_batch_size", "called --batch_size"),
        ("xlnet data make", "input_file", "called --input "),
        ("xlnet export", "save_dir", "--output "),
        ("run_squad.py", "output_file", "called --output "),
        ("run_classifier.py", "lerning_rate", "learning_rate"),
    ],
)
def test_a_name_of_another_library_leads_to_ours(program, flag, meant):
    done = command.run(program, f"--{flag}=1")
    assert done.returncode == 2 and meant in done.stderr.split(flag, 1)[1]


@pytest.mark.parametrize(
    "flag, expected",
    [
        ("do_train=yes", "True or False"),
        ("train_steps=1e3", "an integer"),
        ("learning_rate=fast", "a number"),
    ],
)
def test_a_value_that_is_not_of_the_flags_type_is_refused(flag, expected):
    done = command.run("run_classifier.py", "--" + flag)
    assert done.returncode == 2
    assert done.stderr == f"run_classifier.py: flag --{flag}: expected {expected}\n"


def test_a_value_of_a_flag_without_effect_may_follow_a_space(tmp_path):
    done = command.run(
        "run_classifier.py",
        "--iterations",
        "4",
        "--predict_ckpt",
        "model",
        task_name="cola",
        model_dir=tmp_path,
        do_predict=True,
    )
    assert done.returncode == 1 and "note: --predict_ckpt is not used" in done.stderr


@pytest.mark.parametrize("flag", ["--use_tpu", "--nouse_tpu", "--use_tpu=True"])
def test_a_switch_without_effect_is_noted_in_each_of_its_forms(flag, tmp_path):
    done = command.run(
        "data_utils.py",
        flag,
        *(
            "--{}={}".format(name, tmp_path / "none")
            for name in ("input_glob", "sp_path", "save_dir")
        ),
    )
    assert done.returncode == 1 and "note: --use_tpu is not used" in done.stderr


def test_each_habit_leads_to_a_flag_that_exists():
    names = {
        name
        for file in command_lines.all_files()
        for program in file.programs
        for name in program.settings
    }
    for habit, meant in cli.FLAG_SYNONYMS.items():
        assert {name.split("=")[0] for name in meant.split()} & names, habit


@pytest.mark.parametrize(
    "program, flag, name",
    [
        ("train_gpu.py", "--max_len=5", "seq_len"),
        ("data_utils.py", "--input_format=jsonl", "text_format"),
        ("data_utils.py", "--spiece_model_file=x", "sp_path"),
        ("run_classifier.py", "--text_format=jsonl", "input_format"),
        ("xlnet tag", "--sp_path=x", "spiece_model_file"),
    ],
)
def test_a_habit_leads_to_a_flag_that_has_an_effect(program, flag, name):
    done = command.run(program, flag)
    assert done.returncode == 2 and f"it is called --{name} here" in done.stderr


# Settings of text that are no paths: a new one belongs here, or its name ends as those of paths.
NO_PATHS = """
allowed_hosts answer_column answer_start_column beam_options blank books choice_columns
class_weights cls_scope context_column delimiter document_separator encoding eval_split
factorization_order heads host id_column json_field keep_where
label label_column label_separator label_thresholds language languages layers metric name names
objective order pieces predict_split query_id_column question_column reference seeds sentence
sentence_column signatures
steps_shown stop tag_column targets task_name tasks text text_a_column text_b text_b_column tpu_name
variants ways word_column
""".split()


def test_home_is_expanded_in_every_path(monkeypatch, tmp_path):
    texts = {
        name
        for file in command_lines.all_files()
        for program in file.programs
        for name, field in program.settings.items()
        if setting_type(field) is str and not field.metadata["choices"]
    }
    assert {name for name in texts if not cli._PATHS.fullmatch(name)} <= set(NO_PATHS)
    assert not any(map(cli._PATHS.fullmatch, NO_PATHS))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "text.txt").write_text("no text")
    for given in ("~", "~/none.txt", "$HOME/none.txt", "${HOME}/text.txt,~/none.txt"):
        done = command.run(
            "data_utils.py", sp_path="~/sp.model", save_dir="~/out", input_glob=given
        )
        assert done.returncode == 1 and f"{tmp_path}/sp.model" in done.stderr
    done = command.run("train_gpu.py", config="~/c.json", record_info_dir="x")
    assert f"{tmp_path}/c.json" in done.stderr


def test_a_working_directory_that_was_removed_is_named(program, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    done = start(program, preexec_fn=lambda: (os.chdir(gone), os.rmdir(gone)))
    assert done.communicate()[1].startswith("program.py: the working directory of this terminal")
    assert done.returncode == 1
