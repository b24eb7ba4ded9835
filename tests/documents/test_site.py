"""The site of the documents, as mkdocs builds it, in a browser."""

import functools
import html
import html.parser
import http.server
import os
import posixpath
import re
import shutil
import subprocess
import sys
import threading
import urllib.parse

import pytest
from helpers import command_lines
from helpers.paths import ROOT

pytest.importorskip("mkdocs", reason="mkdocs comes with scripts/setup.sh --dev")
if not (ROOT / ".site").is_dir():
    pytest.skip("the site is built in a checkout", allow_module_level=True)

REPOSITORY = "https://example.org/repository"
MOST_WORDS = 2000  # of a page that is read from top to bottom
GENERATED = {
    "docs/reference/programs.html",
    "docs/reference/api.html",
    "CHANGELOG.html",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [
            sys.executable,
            "-m",
            "mkdocs",
            "build",
            "--strict",
            "--site-dir",
            str(folder),
        ],
        cwd=ROOT,
        check=True,
        env=dict(
            os.environ,
            NO_MKDOCS_2_WARNING="1",
            SITE_URL="https://example.org/",
            REPO_URL=REPOSITORY,
            EDIT_URI="edit/main/",
        ),
    )
    return folder


class Page(html.parser.HTMLParser):
    """The anchors, links and pictures of a page, and the words of its article."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links, self.pictures = {""}, [], []
        text = path.read_text(encoding="utf-8")
        self.feed(text)
        article = re.search(r"<article.*?</article>", text, re.DOTALL)
        prose = (
            re.sub(r"<pre.*?</pre>|<[^>]*>", " ", article[0], flags=re.DOTALL)
            if article
            else ""
        )
        self.words = len(html.unescape(prose).split())

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.anchors.update(values[name] for name in ("id", "name") if values.get(name))
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag == "img":
            self.pictures.append(values)


@pytest.fixture(scope="module")
def pages(site):
    return {
        path.relative_to(site).as_posix(): Page(path) for path in site.rglob("*.html")
    }


def test_no_link_leads_nowhere(site, pages):
    for name, page in pages.items():
        if name == "404.html":
            continue
        for link in page.links:
            address = urllib.parse.urlparse(link)
            if address.scheme or address.netloc:
                if link.startswith(
                    (REPOSITORY + "/blob/main/", REPOSITORY + "/tree/main/")
                ):
                    path = urllib.parse.unquote(address.path).split("/main/", 1)[1]
                    assert (ROOT / path).exists(), f"{name} links to {link}"
                continue
            path = posixpath.normpath(
                posixpath.join(
                    posixpath.dirname(name), urllib.parse.unquote(address.path)
                )
                if address.path
                else name
            )
            path = "index.html" if path == "." else path
            assert (site / path).is_file(), f"{name} links to {link}"
            if path in pages:
                anchor = urllib.parse.unquote(address.fragment)
                assert anchor in pages[path].anchors, f"{name} links to {link}"


def test_it_has_pages_and_pictures_but_no_code(site):
    """No copies of the library and its tests."""
    suffixes = {
        path.suffix
        for path in site.rglob("*")
        if path.is_file() and "assets" not in path.parts
    }
    assert suffixes <= {
        ".html",
        ".gif",
        ".png",
        ".svg",
        ".css",
        ".xml",
        ".gz",
        ".json",
        ".inv",
    }
    assert not (site / "xlnet").exists() and not (site / "tests").exists()


def test_pictures_have_an_alternative_text(pages):
    for name, page in pages.items():
        for picture in page.pictures:
            assert picture.get("alt"), f"{name}: {picture.get('src')}"


def test_pages_are_short(pages):
    long = {name: page.words for name, page in pages.items() if page.words > MOST_WORDS}
    # The figures of the benchmarks are looked up, not read from the top.
    assert not long.keys() - GENERATED - {"benchmarks/index.html"}, long


def test_each_flag_has_its_place(pages):
    there = pages["docs/reference/programs.html"].anchors
    for file in command_lines.all_files():
        for program in file.programs:
            if program.command.startswith("xlnet "):
                name = program.command[len("xlnet ") :].replace(" ", "-")
                assert there >= {f"{name}--{flag}" for flag in program.settings}, name
    assert there >= {"pretrain--train_steps", "classify--train_steps", "tag--scheme"}


CHROMIUM = next(
    filter(
        None,
        map(
            shutil.which,
            (
                "chromium",
                "chromium-browser",
                "google-chrome",
                "chromium-headless-shell",
            ),
        ),
    ),
    None,
)


@pytest.mark.skipif(not CHROMIUM, reason="the search needs apt install chromium")
def test_the_search_finds_a_flag_by_its_name(site):
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="the search needs playwright"
    )
    handler = functools.partial(
        http.server.SimpleHTTPRequestHandler, directory=str(site)
    )
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with sync_api.sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=CHROMIUM, args=["--no-sandbox"]
            )
            page = browser.new_page()
            page.goto(f"http://127.0.0.1:{server.server_port}/index.html")
            page.click(".md-search__input")
            page.keyboard.type(
                "grad_accum_steps"
            )  # filled in at once it is not searched for
            found = page.locator(
                ".md-search-result__link[href$='#pretrain--grad_accum_steps']"
            )
            found.first.wait_for(state="attached", timeout=20000)
            page.goto(found.first.get_attribute("href"))
            heading = page.locator("#pretrain--grad_accum_steps")
            assert heading.bounding_box()["y"] < 300
            browser.close()
        server.shutdown()
