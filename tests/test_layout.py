"""Where tests live and which markers they have: `make test` must pass on a machine that has only Python."""

import ast
from pathlib import Path

import pytest

from tests.support.quick import in_one_test

TESTS = Path(__file__).parent

# Folder -> the marker of every test module in it, because everything in it needs what the marker names.
MARKED_FOLDERS = {"interop": "interop", "spark_tools/spark": "spark"}


@in_one_test(
    *(
        (module, marker)
        for folder, marker in MARKED_FOLDERS.items()
        for module in sorted((TESTS / folder).rglob("test_*.py"))
    )
)
def test_modules_that_need_more_than_python_are_marked(module: Path, marker: str) -> None:
    assert f"pytest.mark.{marker}" in marks_of(module)


def test_tests_of_a_file_share_a_worker(request: pytest.FixtureRequest) -> None:
    """xdist takes the group from behind the last @ of the name. Releases of pytest have broken that silently."""
    if not request.config.pluginmanager.hasplugin("xdist") or not hasattr(request.config, "workerinput"):
        pytest.skip("the tests run in one process")
    if not request.config.option.loadgroup:
        pytest.skip("this run does not share tests out by group, as `make test` does")
    assert request.node.nodeid.endswith(f"@{Path(__file__).name}")


def test_what_tests_share_knows_none_of_them() -> None:
    for module in sorted((TESTS / "support").rglob("*.py")):
        for node in ast.walk(ast.parse(module.read_text())):
            for name in names_of(node):
                assert not name.startswith("tests.") or name.startswith("tests.support."), f"{module} imports {name}"


def marks_of(module: Path) -> list[str]:
    """The marks in a module's ``pytestmark``, as the source spells them."""
    for node in ast.parse(module.read_text()).body:
        if isinstance(node, ast.Assign) and any(ast.unparse(target) == "pytestmark" for target in node.targets):
            marks = node.value.elts if isinstance(node.value, ast.List) else [node.value]
            return [ast.unparse(mark) for mark in marks]
    return []


def names_of(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
