"""What mkdocs does with the pages of the repository: see `mkdocs.yml`.

Pages are those of `docs/`, some of the repository's own (`OWN`), those that are made from the code
(`pages`), and, so that no link leads out of the site, one for each other file that a page links to.
"""

import logging
import posixpath
import re

import blocks
import notebooks
import pages
from place import ROOT

_log = logging.getLogger("mkdocs.hooks")

# Paths in the site of pages outside of docs/, or with other names.
OWN = {
    "README.md": "index.md",
    "docs/README.md": "contents.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "CODE_OF_CONDUCT.md": "project/code_of_conduct.md",
    "SECURITY.md": "project/security.md",
    "benchmarks/README.md": "project/benchmarks.md",
    "benchmarks/scaling.md": "project/scaling.md",
}
# The parts of the site in order. The pages of a part have the order, and the groups (###), in which
# docs/README.md links to them; the others follow by name.
PARTS = (("Tutorials", "tutorials/"), ("How-to guides", "how_to/"), ("Programs", "programs/"),
         ("Reference", "reference/"), ("Explanation", "explanation/"), ("Examples", "examples/"),
         ("Project", "project/"))

_NOTEBOOK = ".ipynb"
_LINK = re.compile(r"(?<!`)(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
_IMAGE = re.compile(r'(<img src=")([^"]+)')
_FENCED = re.compile(r"^( *)(```+|~~~+).*?^ *\2`* *$", re.DOTALL | re.MULTILINE)


def on_files(files, config):
    """Adds the pages that are not in docs/, and takes out what has another place."""
    from mkdocs.structure.files import File  # the tests of links do without mkdocs
    if "README.md" in files.src_uris:
        files.remove(files.get_file_from_path("README.md"))     # docs/README.md, which has a place
    of_site = texts_of_repository()
    for page, (source, text) in of_site.items():
        if not source.startswith("docs/") or source in OWN or source.endswith(_NOTEBOOK):
            files.append(File.generated(config, page, content=text))
    for page, text in pages.all_pages().items():
        files.append(File.generated(config, page, content=text))
    for source in linked_sources(of_site):
        files.append(File.generated(config, source_page(source), content=source_text(source)))
    config.nav = navigation([file.src_uri for file in files.documentation_pages()])
    return files


def on_page_markdown(markdown, page, config, files):
    """Makes links between files of the repository links between pages, and says what is not run."""
    source, _ = texts_of_repository().get(page.file.src_uri, (None, ""))
    if source is None:
        return markdown      # made from the code: its links are those of the site
    return say_marks(with_links_of_the_site(markdown, source, page.file.src_uri))


def on_page_content(html, page, config, files):
    """Keeps flags in one piece: a line may not break behind their dashes (docs/site.css)."""
    return re.sub("<code>[^<]*--[^<]*</code>", lambda code: re.sub(
        r"--\w+", r'<span class="flag">\g<0></span>', code[0]), html)


# ---- files of the repository as pages ----

def texts_of_repository():
    """Path in the repository and text of its pages, by their place in the site."""
    found = {path.relative_to(ROOT).as_posix() for folder in ("docs", "examples")
             for path in (ROOT / folder).rglob("*") if path.suffix in (".md", _NOTEBOOK)} | set(OWN)
    return {place_of(source): (source, text_of(ROOT / source))
            for source in sorted(found) if (ROOT / source).is_file()}


def text_of(path):
    if path.suffix == _NOTEBOOK:
        return notebooks.as_markdown(notebooks.read(path))
    return path.read_text(encoding="utf-8")


def place_of(source):
    """The path in the site of a page of the repository, or of an image in docs/."""
    if source in OWN:
        return OWN[source]
    if source.endswith(_NOTEBOOK):
        source = source[:-len(_NOTEBOOK)] + ".md"
    if source.startswith("docs/"):
        return source[len("docs/"):]
    if source.startswith("examples/") and source.endswith(".md"):
        return source
    return None


def source_page(source):
    return "source/%s.md" % (source.rstrip("/") or "repository")


def source_text(source):
    """A page that shows a file, or what is in a folder."""
    path = ROOT / source
    if path.is_dir():
        names = sorted(inner.name + "/" * inner.is_dir() for inner in path.iterdir()
                       if not inner.name.startswith((".", "__")))
        shown, language = "\n".join(names), "text"
    else:
        shown = path.read_text(encoding="utf-8", errors="replace")
        language = {".py": "python", ".json": "json", ".sh": "bash", ".yml": "yaml"}.get(
            path.suffix, "text")
    return "---\nsearch:\n  exclude: true\n---\n# %s\n\n````%s\n%s\n````\n" % (
        source, language, shown)


def linked_sources(of_site):
    """Files and folders of the repository that pages link to and that are no pages themselves."""
    found = set()
    for source, text in of_site.values():
        for _, _, target in _LINK.findall(_FENCED.sub("", text)):
            path = in_repository(source, target)
            if path is not None and place_of(path) is None and (ROOT / path).exists():
                found.add(path)
    return sorted(found)


def in_repository(source, target):
    """The file of the repository that a link leads to; None for addresses and places of a page."""
    if re.match(r"[a-z]+:|#", target):
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), target.partition("#")[0]))


# ---- text ----

def with_links_of_the_site(text, source, site):
    """The text of a page with links that fit its path in the site."""
    def moved(target):
        path = in_repository(source, target)
        if path is None:
            return target
        if not (ROOT / path).exists():
            _log.warning("%s links to '%s', which is not there", source, target)
            return target
        place = place_of(path)
        moved_to = posixpath.relpath(place or source_page(path), posixpath.dirname(site) or ".")
        # sources have no anchors
        return moved_to + "".join(target.partition("#")[1:]) * bool(place)

    def change(part):
        return links(_IMAGE.sub(lambda match: match[1] + moved(match[2]), part))

    def links(part):
        """The text of a link may be an image, which is a link, too."""
        return _LINK.sub(lambda match: "%s[%s](%s)" % (
            match[1], links(match[2]), moved(match[3])), part)
    return outside_of_blocks(text, change)


def outside_of_blocks(text, change):
    """The text with `change` applied outside of fenced blocks."""
    parts, end = [], 0
    for fenced in _FENCED.finditer(text):
        parts += [change(text[end:fenced.start()]), fenced[0]]
        end = fenced.end()
    return "".join(parts + [change(text[end:])])


def say_marks(text):
    """The text with a line below each block that is not run, which says why."""
    lines = text.split("\n")
    for block in reversed(list(blocks.of_page("", text))):
        if block.mark and block.mark.kind == "not run" and block.language in blocks.COMMANDS:
            end = block.line + block.text.count("\n")
            indent = re.match(" *", lines[block.line - 1])[0]
            lines[end + 1:end + 1] = ["", "%s<small>Not run by the checks: %s.</small>" % (
                indent, " ".join(block.mark.detail.split()).rstrip(".")), ""]
    return "\n".join(lines)


# ---- navigation ----

def navigation(of_site):
    """The parts of the site with their pages, in groups where docs/README.md has some."""
    group_of = groups_of_contents()
    rank = {page: number for number, page in enumerate(group_of)}
    nav = [{"XLNet": "index.md"}, {"Contents": "contents.md"}]
    for title, folder in PARTS:
        grouped: dict[str, list] = {}
        for page in sorted((page for page in of_site if page.startswith(folder)),
                           key=lambda page: (page.count("/"), not page.endswith("/index.md"),
                                             rank.get(page, len(rank)), page)):
            grouped.setdefault(group_of.get(page, ""), []).append(page)
        if grouped:
            nav.append({title: [*grouped.pop("", []), *(
                {group: inside} for group, inside in grouped.items())]})
    return nav


def groups_of_contents():
    """The pages that docs/README.md links to, in its order, with the group (###) or "" of each."""
    text = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    groups = {}
    for heading, part in re.findall(r"^(##.*)\n((?:(?!##).*\n)*)", "##\n" + text, re.MULTILINE):
        for _, _, target in _LINK.findall(part):
            groups[target.partition("#")[0]] = heading[4:] if heading.startswith("### ") else ""
    return groups
