"""The shape of the code: rooms import from rooms below, flags stop at the door."""

import ast
import graphlib
import os
import re
import subprocess
import sys

import pytest
from helpers.paths import ROOT

from xlnet.commands.main import COMMANDS

# The rooms of the library, from the ground up: each imports from those before it.
FLOORS = """
support settings corpus model engine tasks runs pretraining finetuning
inference plots convert server commands
""".split()
# The documented names, from all floors.
FACES = {"xlnet.__init__", "xlnet.__main__", "xlnet.api"}
ENTRY_POINTS = """
data_utils.py train_gpu.py run_classifier.py run_tagger.py run_squad.py
""".split()
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts): path
    for path in sorted((ROOT / "xlnet").rglob("*.py"))
}


def imported(path):
    """Names of the library's modules that a file imports, wherever in it; also those for type
    checkers alone, relative ones, and those of `import_module` with a name."""
    package = path.relative_to(ROOT).parts[:-1]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else ()
            module = ".".join((*above, node.module) if node.module else above)
            if module in MODULES:
                yield module
            elif module.split(".")[0] == "xlnet":
                yield from (f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            yield from (name for name in names if name.startswith("xlnet."))
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
            "import_module"
        ):
            name = getattr(node.args[0], "value", "")
            if str(name).startswith("xlnet."):
                yield name


def room(module):
    return module.split(".")[1]


def test_a_module_imports_from_its_room_and_those_below():
    wrong = []
    for module, path in MODULES.items():
        if module in FACES:
            continue
        floor = FLOORS.index(room(module))
        for other in imported(path):
            is_module = other in MODULES and other not in FACES
            if not is_module or FLOORS.index(room(other)) > floor:
                wrong.append(f"{module} imports {other}")
    assert not wrong


def test_modules_do_not_import_each_other_in_a_circle():
    graph = {module: set(imported(path)) for module, path in MODULES.items()}
    order = list(graphlib.TopologicalSorter(graph).static_order())
    assert order.index("xlnet.support.errors") < order.index("xlnet.finetuning.run")


def test_pretraining_loads_nothing_of_tasks():
    """A stranger on the way from train_gpu.py to the loss meets what it needs alone."""
    found, waiting = set(), {"xlnet.commands.pretrain"}
    while waiting:
        found.add(module := waiting.pop())
        waiting |= set(imported(MODULES[module])) & set(MODULES) - found
    assert "xlnet.engine.loop" in found
    assert not {room(module) for module in found} & {"tasks", "finetuning", "server"}
    assert len(found) <= 55  # with those that are loaded only where they are needed


def test_only_the_command_line_touches_flags():
    for path in MODULES.values():
        if path.parent.name != "commands":
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"\bFLAGS\.|(from|import) absl", text), path
            assert "xlnet.commands.cli" not in imported(path), path


def test_no_test_imports_from_another_test():
    """What two of them need is in tests/helpers/; conftest.py holds fixtures alone."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            for name in names:
                last = name.split(".")[-1]
                assert not last.startswith("test_") and last != "conftest", (path, name)


TASKS = [module for module in MODULES if module.startswith("xlnet.tasks.")]
# A task as data, then its parts; each imports from those before it. Lazy imports count.
PARTS_OF_TASKS = """
fields files encoding metrics contract rooms known results __init__
""".split()
ROOMS = ("questions", "ranking", "tagging")  # of the hard types


def test_the_parts_of_tasks_import_in_one_direction():
    def rank_of(module):
        part = module.split(".")[2]
        return PARTS_OF_TASKS.index("rooms" if part in ROOMS else part)

    for module in TASKS:
        for other in imported(MODULES[module]):
            if other.startswith("xlnet.tasks."):
                assert rank_of(other) <= rank_of(module), f"{module} imports {other}"


WITHOUT_TENSORFLOW = """
import importlib, sys
for module in %r:
    importlib.import_module(module)
import numpy as np
from xlnet.tasks.files import parsing
from xlnet.tasks import known, results
task = known.find_task("cola")
rows = parsing.read_parts(task, ".", "dev", need_labels=True)["dev"]
truth = task.gold(rows)
values = np.array([[.2, .8], [.7, .3]])
assert task.evaluate(values, truth, 0.5) == {"matthews": 1.0, "accuracy": 1.0}
how = dict(step=1, threshold=.5, is_official=False, output=None)
results.write_predictions("out", task, "dev", rows, values, **how)
assert "tensorflow" not in sys.modules
"""


def test_tasks_do_without_tensorflow(tmp_path):
    """Files are read, metrics computed and predictions written without it; the methods of output
    layers import it."""
    (tmp_path / "dev.tsv").write_text("gj04\t1\t\tHe ran.\ngj04\t0\t*\tIt it.\n")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TENSORFLOW % TASKS],
        cwd=tmp_path,
        env=dict(os.environ, PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (path,) = (tmp_path / "out").iterdir()
    assert path.name == "predictions_cola_dev.tsv"


WITHOUT_HEAVY_PACKAGES = """
import runpy, sys
import xlnet
from xlnet.commands.main import main
xlnet.load
for program in sys.argv[1:]:
    sys.argv = [*program.split(), "--help"]
    try:
        main() if program[:6] == "xlnet " else runpy.run_path(program, run_name="__main__")
    except SystemExit as e:
        assert not e.code
assert not {"tensorflow", "matplotlib", "sklearn", "scipy", "numpy"} & set(sys.modules)
"""


def test_help_and_import_are_quick():
    """Neither TensorFlow nor any other heavy package is imported: that takes seconds."""
    programs = [*ENTRY_POINTS, *("xlnet " + name for name in COMMANDS)]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_HEAVY_PACKAGES, *programs],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert all(f"{program}: " in done.stdout for program in programs)


def test_the_documented_api_is_there():
    import xlnet

    names = "XLNetConfig RunConfig create_run_config XLNetModel UserError load"
    assert {*xlnet.__all__} == {*names.split(), "preprocess_text", "encode_ids"}
    assert issubclass(xlnet.UserError, ValueError)
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev0)?", xlnet.__version__)
    for name in xlnet.__all__:
        assert getattr(xlnet, name)
    with pytest.raises(AttributeError, match="no attribute 'Transformer'"):
        xlnet.Transformer
