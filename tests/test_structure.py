"""The shape of the code: rooms import from rooms below, flags stop at the door."""

import ast
import graphlib
import re
import resource
import subprocess
import sys

import pytest
from helpers.paths import ROOT

# Each room of the library, and the rooms that its modules may import from beside itself.
ROOMS = {
    "": set(),
    "network": {""},
    "records": {""},
    "batches": {"", "records"},
    "text": {"", "records"},
    "engine": {"", "network"},
    "pretraining": {"", "network", "records", "batches", "engine"},
    "finetuning": {"", "network", "records", "batches", "engine"},
    "views": {"", "network", "records", "batches"},
}
ENTRY_POINTS = ("data_utils.py", "train_gpu.py", "run_classifier.py")
MODULES = {".".join(path.relative_to(ROOT).with_suffix("").parts): path
           for path in sorted((ROOT / "xlnet").rglob("*.py")) if path.name != "__init__.py"}


def imported(path):
    """Names of the library's modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "xlnet":
            if node.module in MODULES:
                yield node.module
            else:
                yield from ("%s.%s" % (node.module, alias.name) for alias in node.names)


def room(module):
    return module.split(".")[1] if module.count(".") == 2 else ""


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_from_its_room_and_those_below(module):
    allowed = ROOMS[room(module)] | {room(module)}
    if module == "xlnet.api":           # the documented face of the network
        allowed = allowed | {"network"}
    for other in imported(MODULES[module]):
        assert other in MODULES and room(other) in allowed, "%s imports %s" % (module, other)
        assert other != "xlnet.api"


def test_modules_do_not_import_each_other_in_a_circle():
    graph = {module: set(imported(path)) for module, path in MODULES.items()}
    order = list(graphlib.TopologicalSorter(graph).static_order())
    assert order.index("xlnet.errors") < order.index("xlnet.finetuning.run")


def test_only_the_command_line_touches_flags():
    for path in MODULES.values():
        if path.stem != "cli":
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"\bFLAGS\.|absl|import cli\b", text), path


def test_no_test_imports_from_another_test():
    """What two of them need is in tests/helpers/; conftest.py holds fixtures alone."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else (
                [alias.name for alias in node.names] if isinstance(node, ast.Import) else [])
            for name in names:
                last = name.split(".")[-1]
                assert not last.startswith("test_") and last != "conftest", "%s imports %s" % (
                    path.relative_to(ROOT), name)


def test_no_line_is_longer_than_100_columns():
    paths = [ROOT / name for name in ENTRY_POINTS] + [
        path for folder in ("xlnet", "tests", "scripts", "benchmarks")
        for path in sorted((ROOT / folder).rglob("*.py"))]
    found = ["%s:%d" % (path.relative_to(ROOT), number) for path in paths
             for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1)
             if len(line) > 100]
    assert not found


@pytest.mark.parametrize("program", ENTRY_POINTS)
def test_help_is_quick(program):
    """Neither TensorFlow nor any other heavy package is imported to print help. It takes 0.2 s of a
    processor; TensorFlow alone would take 5, so that 1.5 finds it on slow machines too."""
    code = ("import runpy, sys; sys.argv = ['%s', '--help']\n"
            "try: runpy.run_path('%s', run_name='__main__')\n"
            "except SystemExit as e: assert not e.code\n"
            "assert not {'tensorflow', 'sklearn', 'scipy'} & set(sys.modules)"
            % (program, ROOT / program))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1.5
    assert "--help" not in done.stderr and program in done.stdout


def test_the_documented_api_is_there():
    import xlnet
    assert set(xlnet.__all__) == {"XLNetConfig", "RunConfig", "create_run_config", "XLNetModel",
                                  "UserError"}
    assert issubclass(xlnet.UserError, ValueError)
    assert re.fullmatch(r"\d+\.\d+\.\d+", xlnet.__version__)
    for name in xlnet.__all__:
        assert getattr(xlnet, name)
    with pytest.raises(AttributeError, match="no attribute 'Transformer'"):
        xlnet.Transformer
