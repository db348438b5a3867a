"""Neither the product nor its tests use anything private of Textual, trio, Typer or Spark, which any release may
change."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from textual.dom import DOMNode

import rmqadmin
from tests.support.quick import in_one_test
from tests.support.source_trees import tree_of

ROOT = Path(rmqadmin.__file__).parent
CHECKOUT = ROOT.parent
SERVE = ROOT / "tui" / "browser"
"""The web server, which is built on another package, textual-serve."""

LIBRARIES = ("textual", "trio", "typer", "pyspark")
PRODUCT = ("rmqadmin", "rmqclient", "rmqproto", "rmqreplay", "rmqserver", "spark_tools")
IMPORTS = re.compile(rf"^\s*(?:import|from) (?:{'|'.join(LIBRARIES)})\b", re.MULTILINE)
WITHOUT_A_PUBLIC_NAME = {("spark_tools/session.py", "_gateway"), ("spark_tools/session.py", "_jvm")}
"""What nothing public does: that Spark's Python part forgets a JVM that has ended."""

USERS = [
    path
    for folder in (*PRODUCT, "tests", "bench", "quickstart", ".ci")
    for path in sorted((CHECKOUT / folder).rglob("*.py"))
    if IMPORTS.search(path.read_text()) and not path.is_relative_to(SERVE)
]
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and not name.isupper()


@in_one_test(*USERS)
def test_nothing_private_of_a_library_is_named(path: Path) -> None:
    """A module may name private attributes that it or another of ours sets or defines, and no others."""
    found, defined = read()
    allowed = defined | {name for file, name in WITHOUT_A_PUBLIC_NAME if path == CHECKOUT / file}
    assert [one for one in found[path] if one[1] not in allowed] == []


@cache
def read() -> tuple[dict[Path, list[tuple[int, str]]], set[str]]:
    """What is ``found_in`` each of USERS, and the private names that our files define."""
    found, defined = dict[Path, list[tuple[int, str]]](), {"_exit"}
    for path in {*USERS, *(path for folder in PRODUCT for path in (CHECKOUT / folder).rglob("*.py"))}:
        tree = tree_of(path)
        defined |= {name for name in defined_in(tree) if is_private(name)}
        if path in USERS:
            found[path] = [*found_in(tree)]
    return found, defined


def found_in(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The private names of the libraries' modules that are imported, and the private attributes that are read or named
    in a call (of ``setattr``, say), by line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in LIBRARIES:
            names = [*(node.module or "").split("."), *(one.name for one in node.names)]
            yield from ((node.lineno, f"{names[0]} {name}") for name in names if is_private(name))
        elif isinstance(node, ast.Attribute) and is_private(node.attr):
            yield node.lineno, node.attr
        elif isinstance(node, ast.Call):
            texts = [one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
            names = [part for text in texts for part in text.split(".")]
            yield from ((node.lineno, name) for name in names if is_private(name) and name.isidentifier())


def defined_in(tree: ast.Module) -> Iterator[str]:
    """The names that functions, classes and assignments of a module make, at any depth."""
    for node in ast.walk(tree):
        if isinstance(node, FUNCTION | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def our_nodes() -> list[type]:
    """Our classes of apps, screens and widgets."""
    for path in (one for one in USERS if one.is_relative_to(ROOT / "tui")):
        importlib.import_module(".".join(path.relative_to(CHECKOUT).with_suffix("").parts).removesuffix(".__init__"))
    left, found = [DOMNode], list[type]()
    while left:
        below = left.pop().__subclasses__()
        left += below
        found += [one for one in below if one.__module__.startswith("rmqadmin.")]
    return found


@pytest.mark.slow
def test_nothing_private_of_textual_is_replaced() -> None:
    """No app, screen or widget of ours has a private attribute of a name that the class of Textual below it has."""
    nodes = our_nodes()
    assert len(nodes) > 20
    clashes = {
        f"{node.__name__}.{name} is {base.__name__}'s"
        for node in nodes
        for name in own_names(node)
        for base in node.__mro__
        if base.__module__.startswith("textual.") and name in own_names(base)
    }
    assert clashes == set()


@cache
def own_names(node: type) -> set[str]:
    """The private names that the text of a class defines, or sets on itself."""
    (tree,) = ast.parse(inspect.cleandoc("\n" + inspect.getsource(node))).body
    assert isinstance(tree, ast.ClassDef)
    stored = {
        one.attr
        for one in ast.walk(tree)
        if isinstance(one, ast.Attribute)
        and isinstance(one.ctx, ast.Store)
        and isinstance(one.value, ast.Name)
        and one.value.id == "self"
    }
    made = {name for one in tree.body for name in defined_in(ast.Module([one], [])) if not isinstance(one, FUNCTION)}
    functions = {one.name for one in tree.body if isinstance(one, FUNCTION)}
    return {name for name in stored | made | functions if is_private(name)}


@pytest.mark.parametrize(
    "source",
    [
        "from textual._context import active_app",
        "def f(screen): screen._compositor",
        "class A(App): x = App._display",
        "def f(patch): patch.setattr(App, '_display', None)",
        "def f(patch): patch.setattr('textual._compositor.Compositor.cuts', None)",
        "def f(frame): frame._jdf.queryExecution()",
        "def f(): getattr(trio, '_core')",
    ],
)
def test_what_is_private_is_found(source: str) -> None:
    assert [one for one in found_in(ast.parse(source)) if one[1] not in read()[1]]
