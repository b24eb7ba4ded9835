"""The package: built as pip builds it, installed into an empty environment, used from elsewhere."""

import ast
import email
import json
import os
import pathlib
import re
import shutil
import site
import subprocess
import sys
import tarfile
from importlib import metadata

import pytest
from helpers import command
from helpers.paths import ROOT
from packaging.requirements import Requirement

from xlnet.settings.fields import presets_of, read_settings
from xlnet.support.errors import UserError

pytestmark = pytest.mark.slow

BUILD = "from setuptools import build_meta; print(build_meta.build_%s(%r))"
NOT_BUILT = shutil.ignore_patterns(
    *".git .site .venv* __pycache__ *.egg-info build dist site sample_run".split(),
    *(".hypothesis", ".coverage*"),
)


def build(folder, form, target):
    """Builds as pip does, without an environment of its own for it."""
    done = subprocess.run(
        [sys.executable, "-c", BUILD % (form, str(target))],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "would be ignored" not in done.stderr, done.stderr
    return target / done.stdout.split()[-1]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with the source distribution, and the wheel that it makes."""
    if int(metadata.version("setuptools").split(".")[0]) < 77:
        pytest.skip("building needs setuptools 77 or later, of requirements-dev.txt")
    folder = tmp_path_factory.mktemp("built")
    shutil.copytree(ROOT, folder / "copy", ignore=NOT_BUILT)
    sources = build(folder / "copy", "sdist", folder)
    with tarfile.open(sources) as archive:
        archive.extractall(folder)
    wheel = build(folder / sources.name[: -len(".tar.gz")], "wheel", folder)
    assert wheel.is_file()
    return folder


class Environment:
    """A virtual environment with nothing but the wheel, which sees this Python's packages."""

    def __init__(self, folder, wheel):
        make = [sys.executable, "-m", "venv", "--without-pip", folder]
        subprocess.run(make, check=True)
        self.bin = folder / "bin"
        self.site = next(folder.glob("lib/python*/site-packages"))
        subprocess.run(
            [sys.executable, "-m", "pip", "--python", self.bin / "python", "install"]
            + ["--no-deps", "--no-index", "--no-compile", "--quiet"]
            + ["--disable-pip-version-check", wheel],
            check=True,
        )
        (self.site / "dependencies.pth").write_text("\n".join(site.getsitepackages()))

    def succeed(self, command, *arguments, cwd):
        """What a command prints, which must end with status 0."""
        clean = dict(os.environ)
        clean.pop("PYTHONPATH", None)
        program, *words = command.split()
        words = [self.bin / program, *words, *arguments]
        done = subprocess.run(words, cwd=cwd, env=clean, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    folder = tmp_path_factory.mktemp("environment")
    return Environment(folder, next(built.glob("*.whl")))


NOT_IN_SOURCES = re.compile(
    r"\.site/|\.devcontainer/.*\.lock$|\.git(-blame-ignore-revs)?$|.*(\.egg-info|cache)/"
)


def files_of(folder):
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix() for path in found}


def test_the_sources_are_whole(built):
    """All files of the repository but the site's links and what is git's own."""
    (sources,) = (path for path in built.glob("xlnet*") if path.is_dir())
    there = files_of(sources)
    missing = files_of(built / "copy") - there
    assert not [name for name in missing if not NOT_IN_SOURCES.match(name)]
    assert "tests/golden/squad_features.json.gz" in there and "THIRD_PARTY.md" in there


def test_what_is_installed(installed):
    is_ours = lambda name: "cache" not in name and not name.startswith("configs/")
    there = files_of(installed.site / "xlnet")
    assert set(filter(is_ours, there)) == set(filter(is_ours, files_of(ROOT / "xlnet")))
    folders = {path.name for path in installed.site.iterdir()}
    assert [each for each in folders if not each.endswith((".dist-info", ".pth"))] == [
        "xlnet"
    ]
    for path in (ROOT / "configs").rglob("*.json"):
        copy = installed.site / "xlnet/configs" / path.relative_to(ROOT / "configs")
        assert copy.read_bytes() == path.read_bytes()


def test_extras(installed):
    path = next(installed.site.glob("xlnet_tf-*.dist-info/METADATA"))
    described = email.message_from_string(path.read_text(encoding="utf-8"))
    extras = {"gpu", "serve", "parquet", "tensorboard", "beam", "test"}
    assert set(described.get_all("Provides-Extra")) == extras
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    found, expected = (
        {each.name: each.specifier for each in map(Requirement, of) if not each.marker}
        for of in (described.get_all("Requires-Dist"), lines)
    )
    assert found == expected


# Modules of packages whose names differ from those of their modules.
DISTRIBUTIONS = {
    "absl": "absl-py",
    "distributed": "apache-beam",  # Dask comes with the extra of Apache Beam
    "google.protobuf": "protobuf",
    "sklearn": "scikit-learn",
}


@pytest.mark.skipif(
    sys.version_info < (3, 10), reason="Python 3.9 lists no standard modules"
)
def test_each_package_that_is_imported_is_required():
    """By this project itself, not only by a package that happens to need it, too."""
    required = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    required += project.partition("[project.scripts]")[0]
    imported = set()
    for path in (ROOT / "xlnet").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported.update(each.name for each in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add(node.module)
    count = 0
    for module in sorted(imported):
        parts = module.split(".")
        top = ".".join(parts[:2]) if parts[0] == "google" else parts[0]
        if top == "xlnet" or top in sys.stdlib_module_names:
            continue
        count += 1
        name = DISTRIBUTIONS.get(top, top).replace("_", "-")
        assert re.search(rf'(^|["\s]){name}[\[<>=]', required, re.MULTILINE), module
    assert count > 20


LISTS = [("2.15", f"3.{minor}") for minor in (9, 10, 11)]
LISTS += [("2.21", f"3.{minor}") for minor in (10, 11, 12, 13)]


def locked(name, tensorflow, version):
    """What a list of packages has for a Python on Linux: name to version."""
    path = ROOT / "scripts" / "locked" / f"{name}-{tensorflow}.txt"
    text = path.read_text(encoding="utf-8")
    wanted = []
    for line in text.replace("\\\n", "").splitlines():
        if line[:1] not in ("#", ""):
            requirement, *hashes = line.split(" --hash=")
            assert hashes and all(each.startswith("sha256:") for each in hashes)
            wanted.append(Requirement(requirement))
    where = {
        "python_version": version,
        "python_full_version": version + ".9",
        "sys_platform": "linux",
        "platform_machine": "x86_64",
        "extra": "",
    }
    found = [each for each in wanted if not each.marker or each.marker.evaluate(where)]
    assert len({each.name for each in found}) == len(found)
    return {each.name: str(each.specifier).lstrip("=") for each in found}, where


@pytest.mark.parametrize("tensorflow, version", LISTS)
@pytest.mark.parametrize(
    "name, inputs",
    (
        ("programs", ("requirements.txt", "scripts/locked/programs.in")),
        ("dev", ("requirements.txt", "requirements-dev.txt")),
    ),
)
def test_locked_packages_are_those_that_are_required(name, inputs, tensorflow, version):
    found, where = locked(name, tensorflow, version)
    assert found["tensorflow"].startswith(tensorflow)
    for path in inputs:
        for line in (ROOT / path).read_text(encoding="utf-8").splitlines():
            line = line.split("#")[0].strip()
            if line and not line.startswith("-r"):
                required = Requirement(line)
                if not required.marker or required.marker.evaluate(where):
                    assert required.specifier.contains(found[required.name]), line


@pytest.mark.parametrize(
    "words, status, said",
    (
        ("--help", 0, "data make"),
        ("data", 2, "found 'data', expected a subcommand: data"),
        ("--version", 0, "xlnet "),
        ("exprot", 2, "found 'exprot', expected a subcommand"),
    ),
)
def test_the_words_after_xlnet(words, status, said):
    done = command.run("xlnet " + words)
    assert done.returncode == status and said in done.stdout + done.stderr


def test_presets_by_name_and_a_run(installed, place, tmp_path):
    """Records made by two processes, for a preset; a network that is given by name, trained."""
    paths = [f"--input_glob={place / 'train.txt'}", f"--sp_path={place / 'sp.model'}"]
    program = "xlnet data make --config=tiny --num_workers=2 --save_dir=records"
    shown = installed.succeed(program, *paths, cwd=tmp_path)
    assert "streams 8 x " in shown and "sequences of 128 tokens" in shown
    manifest = json.loads((tmp_path / "records" / "manifest.json").read_text())
    program = "xlnet pretrain --config=tiny --record_info_dir=records --train_steps=1"
    program += " --warmup_steps=0 --n_layer=1 --d_inner=8 --num_predict=8 --device=cpu"
    installed.succeed(program, f"--n_token={manifest['vocab_size']}", cwd=tmp_path)
    assert (tmp_path / "model" / "model.ckpt-1.index").is_file()


def test_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = presets_of("finetune")
    assert {name.removesuffix("-base") for name in table} == {
        each.get("task_name", "tiny") for each in table.values()
    }
    pathlib.Path("base").mkdir()  # a directory is not a file of settings
    for kind, role, name in (
        ("finetune", "config", "sst-2-base"),
        ("pretrain", "config", "ablation/k7"),
        ("model", "model_config_path", "base"),
    ):
        table = json.loads((ROOT / "configs" / f"{kind}.json").read_text("utf-8"))
        assert read_settings(name, role, kind) == table[name]
    pathlib.Path("large").write_text("{}")  # a file is
    assert read_settings("large", "model_config_path", "model") == {}
    for name in ("../x.json", "huge"):
        with pytest.raises(UserError, match=f"'{name}', expected a file, or one of"):
            read_settings(name, "model_config_path", "model")
