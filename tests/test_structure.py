"""The shape of the code: layers import downwards, flags stop at the door."""

import ast
import re
import subprocess
import sys

import pytest
from conftest import ROOT

LAYERS = (
    {"errors", "noise", "sentences"}, {"files", "text_forms", "kernels", "example_bytes"},
    {"config", "tokenization", "reading", "windows"},
    {"records", "permutation", "distribution", "attention"},
    {"modeling", "legacy_records", "hosts"},
    {"features", "api"},
    {"corpus", "record_writer", "heads", "input_pipeline", "tasks", "optimization", "checkpoint",
     "ranking", "tables"},
    {"memory", "mixout", "objectives", "reports", "task_files", "metrics"},
    {"training", "inspection", "preparation", "merging", "own_data", "predictions", "selection",
     "answering"},
    {"saving", "pretraining_model", "classifier_model"},
    {"pretraining", "finetuning", "pictures", "beam"}, {"trials"},
)
LEVEL = {module: level for level, modules in enumerate(LAYERS) for module in modules}
LEVEL.update({"cli": len(LAYERS), "__init__": len(LAYERS)})
ENTRY_POINTS = ("data_utils.py", "train_gpu.py", "run_classifier.py")
MODULES = sorted((ROOT / "xlnet").glob("*.py"))


def imported(path):
    """Names of the xlnet modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "xlnet":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("xlnet."):
            yield node.module.split(".")[1]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_modules_import_from_layers_below(path):
    assert path.stem in LEVEL, "a new module: give it a layer here"
    for name in imported(path):
        assert LEVEL[name] < LEVEL[path.stem], "%s imports %s" % (path.stem, name)


def test_only_the_command_line_touches_flags():
    for path in MODULES:
        if path.stem != "cli":
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"\bFLAGS\.|absl|import cli\b", text), path


def test_no_line_is_longer_than_100_columns():
    paths = [ROOT / name for name in ENTRY_POINTS] + [
        path for folder in ("xlnet", "tests", "scripts", "benchmarks")
        for path in sorted((ROOT / folder).glob("*.py"))]
    found = ["%s:%d" % (path.relative_to(ROOT), number) for path in paths
             for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1)
             if len(line) > 100]
    assert not found


@pytest.mark.parametrize("program", ENTRY_POINTS)
def test_help_is_quick(program):
    """Neither TensorFlow nor any other heavy package is imported to print help."""
    code = ("import runpy, sys; sys.argv = ['%s', '--help']\n"
            "try: runpy.run_path('%s', run_name='__main__')\n"
            "except SystemExit as e: assert not e.code\n"
            "assert not {'tensorflow', 'sklearn', 'scipy'} & set(sys.modules)"
            % (program, ROOT / program))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "--help" not in done.stderr and program in done.stdout


def test_the_documented_api_is_there():
    import xlnet
    assert set(xlnet.__all__) == {"XLNetConfig", "RunConfig", "create_run_config", "XLNetModel"}
    for name in xlnet.__all__:
        assert getattr(xlnet, name)
    with pytest.raises(AttributeError, match="no attribute 'Transformer'"):
        xlnet.Transformer
