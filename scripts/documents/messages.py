"""What the library says of bad input, read from the code without running it."""

import ast
import pathlib
import re
from collections.abc import Iterator
from typing import NamedTuple, Optional

from place import ROOT

ANYTHING = "…"      # stands where a message has a name, a number, what was found


class Message(NamedTuple):
    """What an error says, with `…` for whatever differs from case to case.

    module: path in the repository.
    """
    module: str
    line: int
    text: str


def of_code() -> "list[Message]":
    """The messages of `xlnet/`, by module, in the order in which they stand there; each once."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8"))
             for path in sorted((ROOT / "xlnet").rglob("*.py"))}
    errors = _errors(trees.values())
    found = (message for path, tree in trees.items() for message in _of_module(path, tree, errors))
    return list({(message.module, message.text): message for message in found}.values())


def _errors(trees):
    """Names of `UserError` and of those that descend from it."""
    bases = {node.name: {getattr(base, "id", "") for base in node.bases}
             for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    errors = {"UserError"}
    while any(errors & of and name not in errors for name, of in bases.items()):
        errors |= {name for name, of in bases.items() if errors & of}
    return errors


def _of_module(path: pathlib.Path, tree, errors) -> Iterator[Message]:
    nodes = [node for root in ast.walk(tree) for node in _said(root, errors)]
    for node in sorted(nodes, key=lambda node: (node.lineno, node.col_offset)):
        text = template(node)
        if text is not None and len(re.findall(r"[a-z]{2,}", text)) > 1:
            yield Message(path.relative_to(ROOT).as_posix(), node.lineno,
                          re.sub("%s+" % ANYTHING, ANYTHING, text))


def _said(node, errors):
    """What a piece of code makes a message of: an error that it raises; a row's fault, which comes
    back beside None, is returned by a function that tells faults, or is put into a list of them."""
    if isinstance(node, ast.Call):
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        of_faults = "faults" in getattr(getattr(node.func, "value", None), "id", "")
        if name in errors or of_faults and name == "add":
            yield from node.args[-1:]
        elif name == "append" and isinstance(node.args[0], ast.Tuple):
            yield node.args[0].elts[-1]
        elif name == "Case":
            yield node.args[-1]
    elif isinstance(node, ast.Tuple) and len(node.elts) == 2 and _is_none(node.elts[0]):
        yield node.elts[1]
    elif isinstance(node, ast.FunctionDef) and "fault" in (ast.get_docstring(node) or node.name):
        yield from (inner.value for inner in ast.walk(node) if isinstance(inner, ast.Return)
                    and not isinstance(inner.value, (ast.Tuple, ast.Constant, type(None))))


def _is_none(node):
    return isinstance(node, ast.Constant) and node.value is None


def template(node: ast.AST) -> Optional[str]:
    """The words of a text that is put together; None where they are not in this place."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        text = template(node.left)
        return text and re.sub(r"%[-+ #0-9.*]*[a-zA-Z]", ANYTHING, text).replace("%%", "%")
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = template(node.left), template(node.right)
        return None if left is None and right is None else (left or ANYTHING) + (right or ANYTHING)
    return None
