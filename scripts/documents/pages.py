"""Pages of the site that are made from the code: programs, settings, presets, API.

Each function returns Markdown; `all_pages` has the paths in the site.
"""

import ast
import dataclasses
import importlib
import json
import re
from collections.abc import Sequence

import programs
from place import ROOT

from xlnet import commands, help
from xlnet.settings.fields import REQUIRED, default_of, setting_type
from xlnet.settings.network import ARCHITECTURE_KEYS, XLNetConfig

FLAGS_PAGE = "reference/flags.md"

API = (
    ("load.md", "load: a trained model", (
        "xlnet.serving.load.load", "xlnet.model_directory.model_files.LoadedModel",
        "xlnet.serving.model.Model")),
    ("network.md", "The network", (
        "xlnet.settings.network.XLNetConfig", "xlnet.settings.network.RunConfig",
        "xlnet.settings.network.create_run_config", "xlnet.api.XLNetModel")),
    ("tokenization.md", "Tokenizer and errors", (
        "xlnet.tokenization.tokenizer.Tokenizer", "xlnet.errors.UserError")),
    ("task_types.md", "Task types", tuple("xlnet.tasks.types.contract." + name for name in (
        "TaskType", "Reader", "Head", "Scorer"))),
)


def all_pages() -> "dict[str, str]":
    """Markdown by path in the site."""
    files = programs.all_files()
    pages = {"programs/" + page_of(file.path): program_page(file) for file in files}
    pages["programs/index.md"] = programs_page(files)
    pages[FLAGS_PAGE] = ranked(2, flags_page(files))
    pages["reference/model_config.md"] = model_config_page()
    pages["reference/modules.md"] = modules_page()
    pages["reference/presets.md"] = ranked(0.5, presets_page())
    pages.update(("reference/api/" + name, api_page(title, names)) for name, title, names in API)
    return pages


def page_of(path: str) -> str:
    """The page of a program: "run_squad.py" -> run_squad.md, "xlnet export" -> xlnet_export.md."""
    return re.sub(r"\W", "_", re.sub(r"\.py$", "", path.split("/")[-1])) + ".md"


# ---- programs ----

def programs_page(files) -> str:
    command_of = {command.program: "`xlnet %s`" % command.name
                  for command in commands.COMMANDS.values() if not command.flags}
    rows = [("[`%s`](%s)" % (file.path, page_of(file.path)),
             command_of.get(file.path[:-3], ""), file.about) for file in files]
    return ("# Programs\n\nEach is a subcommand of `xlnet` (`python -m xlnet` in a checkout). "
            "Files at the root of the repository take the original's command lines. `--help` of "
            "each says the same.\n\n"
            + table(("program", "subcommand", "what it does"), rows))


def program_page(file) -> str:
    parts = ["# %s\n" % file.path.split("/")[-1]]
    for program in file.programs:
        if file.more:
            parts += [file.about + "\n", file.more + "\n"]     # more than --help says
        else:
            parts.append(about_text(program.about) + "\n")
        if program.examples:
            parts.append("```bash\n%s\n```\n" % re.sub(
                "^  ", "", help.commands(program.command, program.examples), flags=re.MULTILINE))
        parts.append(settings_tables(program))
    return "\n".join(parts)


def about_text(about: str) -> str:
    """The text above a program's flags: its first letter large, what is indented as code."""
    about = about.strip()
    paragraphs = (about[:1].upper() + about[1:]).split("\n\n")
    if not about.endswith("."):
        paragraphs[-1] += "."
    return "\n\n".join("```text\n%s\n```" % re.sub("^  ", "", paragraph, flags=re.MULTILINE)
                       if paragraph.startswith("  ") else escaped(paragraph)
                       for paragraph in paragraphs)


def settings_tables(program) -> str:
    settings = program.settings
    parts = []
    if not settings:
        return ""
    if program.first:
        parts.append("## The flags that matter first\n\n%s\n" % ", ".join(
            "[`--%s`](#%s)" % (name, name) for name in program.first))
        groups = help.by_need(settings)
    else:
        groups = {"Flags": list(settings)}
    for title, names in groups.items():
        parts.append("## %s\n\n%s\n" % (title, settings_table(
            [settings[name] for name in names], "--")))
    old = old_names(program)
    if old:
        parts.append("## Flags of the original programs, and older names\n\nThey are accepted, and "
                     "noted.\n\n%s\n" % table(("flag", "instead"), old))
    return "\n".join(parts)


def old_names(program):
    """Rows of the flags that are taken for the sake of older command lines."""
    return [("`--%s`" % name, escaped(why)) for name, why in program.no_longer_needed.items()] + [
        ("`--%s`" % alias, "[`--%s`](#%s), its other name" % (name, name))
        for name, field in program.settings.items() for alias in field.metadata["aliases"]]


def settings_table(fields: Sequence["dataclasses.Field"], before: str) -> str:
    """A table of fields; `before` precedes their names."""
    return table(("name", "default", "values", "meaning"), [
        ('<a id="%s"></a>`%s%s`' % (field.name, before, field.name), default_text(field),
         values_text(field), meaning_of(field)) for field in fields])


_UNIT = re.compile(r" ?\[([^\]\d]+)\]")     # in brackets in the help


def meaning_of(field) -> str:
    of_model = " *Goes with the trained model.*" if field.metadata["of_model"] else ""
    return escaped(_UNIT.sub("", field.metadata["help"])) + of_model


def default_text(field) -> str:
    default = default_of(field)
    if default is REQUIRED:
        return "**required**"
    return "" if default is None or default == "" else "`%s`" % default


def values_text(field) -> str:
    """What a setting may be: its choices, or its type, range and unit."""
    if field.metadata["choices"]:
        return ", ".join("`%s`" % choice for choice in field.metadata["choices"])
    kind = {int: "integer", float: "number", bool: "`True`, `False`", str: "text"}
    sides = [text % field.metadata[name] for name, text in
             (("minimum", "from %g"), ("above", "above %g"), ("maximum", "to %g"),
              ("below", "below %g")) if field.metadata[name] is not None]
    unit = ["[%s]" % unit for unit in _UNIT.findall(field.metadata["help"])]
    return " ".join([kind[setting_type(field)], *sides, *unit])


def flags_page(files) -> str:
    """All flags by name, with what they mean and the programs that have them."""
    of_flag: dict[str, tuple] = {}
    for file in files:
        for program in file.programs:
            for name, field in program.settings.items():
                links = of_flag.setdefault(name, (field, []))[1]
                link = "[%s](../programs/%s#%s)" % (
                    re.sub(r"\.py$", "", file.path.split("/")[-1]), page_of(file.path), name)
                if link not in links:
                    links.append(link)
    return ("# All flags\n\nEach is also a key of the JSON file that `--config` names, without the "
            "dashes; a flag on the command line overrides the file. Where programs differ in a "
            "default, it is the first one's.\n\n%s\n" % table(
                ("flag", "default", "meaning", "programs"), [
                    ('<a id="%s"></a>`--%s`' % (name, name), default_text(field),
                     meaning_of(field), ", ".join(links))
                    for name, (field, links) in sorted(of_flag.items())]))


def modules_page() -> str:
    """The modules of the library by package, each with the first line of its docstring."""
    parts = ["# Modules\n\nAll modules of `xlnet/`, each with its first line.\n"]
    for package in sorted((ROOT / "xlnet").rglob("__init__.py")):
        rows = [("`%s`" % path.stem, escaped((ast.get_docstring(ast.parse(
            path.read_text(encoding="utf-8"))) or "").partition("\n")[0]))
            for path in sorted(package.parent.glob("*.py")) if path != package]
        parts.append("## %s\n\n%s\n" % (package.parent.relative_to(ROOT),
                                        table(("module", "what it is"), rows)))
    return ranked(0.5, "\n".join(parts))


# ---- configs ----

def model_config_page() -> str:
    rows = []
    for path in sorted((ROOT / "configs" / "model").glob("*.json")):
        keys = json.loads(path.read_text(encoding="utf-8"))
        rows.append(("`%s`" % path.relative_to(ROOT), *(
            "`%s`" % keys.get(name, "") for name in ARCHITECTURE_KEYS)))
    return ("# Keys of a model config\n\n`xlnet_config.json` next to a checkpoint, and the file of "
            "`--model_config_path`. All keys have to be there and no others; `d_model` is "
            "even.\n\n%s\n\n## The files in `configs/model/`\n\n%s" % (
                settings_table(dataclasses.fields(XLNetConfig), ""),
                table(("file", *ARCHITECTURE_KEYS), rows)))


def presets_page() -> str:
    parts = ["# Presets\n\nFiles for `--config`: flags by name. A flag on the command line goes "
             "before them.\n"]
    folders = sorted({path.parent for path in (ROOT / "configs").rglob("*.json")}
                     - {ROOT / "configs" / "model"})
    for folder in folders:
        rows = []
        for path in sorted(folder.glob("*.json")):
            preset = json.loads(path.read_text(encoding="utf-8"))
            about = preset.pop("about", "")
            words = about if isinstance(about, str) else "; ".join(
                "%s: %s" % item for item in about.items())
            rows.append(("`%s`" % path.name, escaped(words), " ".join(
                "`%s=%s`" % (name, value) for name, value in preset.items())))
        parts.append("## configs/%s\n\n%s\n" % (folder.relative_to(ROOT / "configs"),
                                                table(("file", "what it is", "settings"), rows)))
    return "\n".join(parts)


# ---- Python ----

def api_page(title, names) -> str:
    for name in names:      # a name that is gone fails here and not in silence
        module, _, attribute = name.rpartition(".")
        if not (ROOT / (module.replace(".", "/") + ".py")).is_file():
            importlib.import_module(module)
    return "# %s\n\n%s" % (title, "\n".join("::: %s\n" % name for name in names))


# ---- Markdown ----

def ranked(boost, text: str) -> str:
    """A page that the search puts further up, or, with a `boost` below 1, further down."""
    return "---\nsearch:\n  boost: %g\n---\n%s" % (boost, text)


def table(header, rows) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| %s |" % " | ".join(cell.replace("|", "\\|") for cell in line)
                     for line in lines)


def escaped(text: str) -> str:
    """Plain words as Markdown."""
    return re.sub(r"([\\`*_\[\]])", r"\\\1", text).replace("<", "&lt;")
