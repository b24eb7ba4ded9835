"""Command lines: what is shown where, and how a program ends."""

import os
import signal
import subprocess
import sys
import time

import pytest
from helpers import command
from helpers.paths import ROOT

PROGRAM = """
import dataclasses, logging, time
from xlnet.commands import cli
from xlnet.settings import fields

class Settings(fields.Settings):
    \"\"\"program.py: a program.\"\"\"
    seconds: float = fields.setting(0.0, "seconds to run")

def main(settings):
    log = logging.getLogger("xlnet.some.module")
    log.debug("not shown")
    log.info("%d shown", 1)
    log.warning("note: shown too")
    logging.getLogger("other").info("not shown")
    time.sleep(settings.seconds)
    for number in range(3 * (not settings.seconds)):
        print("a line " * 2000)

with cli.command(Settings, about="waits") as line:
    main(*line.settings)
"""


@pytest.fixture
def program(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    return [sys.executable, str(tmp_path / "program.py")]


def start(command, **options):
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ, PYTHONPATH=str(ROOT)),
        # Where the tests run in the background of a shell, Ctrl-C is ignored, and would be here.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        **options,
    )


@pytest.mark.slow
def test_what_files_hold_does_not_act_on_the_terminal(tmp_path):
    """Nor does half a character, which no stream takes, end a program."""
    path = tmp_path / "program.py"
    text = "a\\x1b[2J\\ud800é\\n b"
    path.write_text(
        PROGRAM.replace('"%d shown", 1', f'"%s", "{text}"')
        .replace("    time.sleep", f"    raise UserError('{text}')\n    time.sleep")
        .replace("import cli", "import cli\nfrom xlnet.support.errors import UserError")
    )
    done = start([sys.executable, str(path)])
    stdout, stderr = done.communicate()
    assert done.returncode == 1 and stdout == "a\\x1b[2J\\ud800é\n b\n"
    assert stderr.splitlines()[-1] == "program.py: a\\x1b[2J\\ud800é\\n b"


@pytest.mark.slow
def test_ctrl_c_ends_with_one_line(program):
    process = start(program + ["--seconds=60"])
    assert process.stdout.readline() == "1 shown\n"  # flushed at once
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.communicate()[1] == "note: shown too\nprogram.py: stopped\n"
    assert process.returncode == 130


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
    found = [line for line in lines if line.isdecimal()]
    assert found == ["1", "0", "2", "2", "0", "1"], lines
    assert len(lines) == 10 and "twice" not in "".join(lines)
    assert "--model_dir is required" in lines[5]  # not that of the call before


def test_a_name_that_is_not_utf8_is_refused():
    line = command.refused("train_gpu.py", "--record_info_dir=r\udcff", "--model_dir=m")
    found = "train_gpu.py: record_info_dir: found no such directory: r\\udcff, "
    assert line == found + "expected one that exists"


@pytest.mark.parametrize("flags", [[], ["--help"]])
@pytest.mark.slow
def test_a_closed_output_ends_without_a_traceback(program, flags):
    process = start(program + flags)
    process.stdout.close()
    stderr = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 141 and "rror" not in stderr and "Traceback" not in stderr


@pytest.mark.parametrize(
    "flag, said",
    [
        ("--lerning_rate=1", "Did you mean: learning_rate"),
        ("--do_train=yes", "Non-boolean argument to boolean flag"),
        ("--train_steps=1e3", "invalid literal for int"),
        ("--train_steps=0", "0 is not a positive integer"),
        ("--summary_type=least", "should be one of <last|first|mean|attn>"),
        ("stray", "unexpected argument 'stray'; flags are written --name=value"),
        ("--label_separator=;", "Unknown command line flag"),
        ("--epochs=1", "flag --model_dir is required"),
    ],
)
def test_a_wrong_flag_is_one_line_with_status_2(flag, said):
    assert said in command.refused("run_classifier.py", flag, status=2)


def test_flags_of_the_original_without_effect_are_accepted(tmp_path):
    flags = ["--notrack_mean", "--iterations", "4", "--do_predict", "--task_name=cola"]
    done = command.run("run_classifier.py", *flags, model_dir=tmp_path)
    assert "note: not used: --iterations, --track_mean\n" in done.stderr
    assert done.returncode == 1


def test_a_wrong_value_of_a_flag_has_the_status_of_flags():
    """With that of bad input a job would start again."""
    flags = dict(record_info_dir="x", model_dir="y", dropout=2)
    line = command.refused("train_gpu.py", status=2, **flags)
    assert "dropout: found 2.0, expected at least 0 and less than 1" in line


def test_home_is_expanded_in_a_path(monkeypatch, tmp_path):
    """No shell does it after a flag's =."""
    monkeypatch.setenv("HOME", str(tmp_path))
    in_config = dict(record_info_dir="x", config="~/none.json")
    (tmp_path / "config.json").write_text('{"record_info_dir": "~/none"}')
    of_config = dict(config=tmp_path / "config.json")
    for flag in (dict(record_info_dir="~/none"), in_config, of_config):
        assert f"{tmp_path}/none" in command.refused("train_gpu.py", **flag)
