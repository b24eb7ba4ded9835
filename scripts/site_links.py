"""Links of the site that lead to files of the repository: a hook of mkdocs (mkdocs.yml).

The documents link to code, as GitHub shows both. The site has no copies of code: such a link leads
to the repository's address there, REPO_URL, and without one it is only its label.
"""

from __future__ import annotations

import os
import posixpath
import re
from typing import Any

# A code block, inline code, or a link with its label and target.
_PART = re.compile(
    r"^ *(?P<fence>```+).*?^ *(?P=fence) *$|`[^`\n]+`(?!\])|"
    r"(?P<link>(?<!!)\[(?P<label>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^()\s]+)\))",
    re.DOTALL | re.MULTILINE,
)
_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Called by mkdocs for each page, before it becomes HTML."""

    def replaced(match: re.Match[str]) -> str:
        if not match["link"]:
            return match[0]
        label = match["label"]
        path, _, anchor = match["target"].partition("#")
        if not path or ":" in path:
            return match[0]
        source = posixpath.normpath(
            posixpath.join(posixpath.dirname(page.file.src_uri), path)
        )
        found = files.get_file_from_path(source)
        if found and not found.inclusion.is_excluded():
            return match[0]
        if source.endswith(".ipynb"):  # its page
            return f"[{label}]({path[: -len('.ipynb')]}.md)"
        if not os.path.exists(os.path.join(_ROOT, source)):
            return match[0]  # mkdocs says that it leads nowhere
        if not config.repo_url:
            return label
        kind = "tree" if os.path.isdir(os.path.join(_ROOT, source)) else "blob"
        hash = f"#{anchor}" if anchor else ""
        return f"[{label}]({config.repo_url.rstrip('/')}/{kind}/main/{source}{hash})"

    return _PART.sub(replaced, markdown)
