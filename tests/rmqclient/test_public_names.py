"""The names that ``rmqclient`` exports, and the cost of importing it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import rmqclient


@pytest.mark.parametrize("name", rmqclient.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(rmqclient, name) is not None
    assert name in dir(rmqclient)


def test_type_checkers_see_the_same_names() -> None:
    """Type checkers read the imports under TYPE_CHECKING; programs use the table."""
    tree = ast.parse(Path(rmqclient.__file__).read_text())
    seen = {alias.asname for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert seen - {None} == set(rmqclient.__all__)


def test_a_name_that_is_not_there_is_said() -> None:
    with pytest.raises(AttributeError, match="NoSuchThing"):
        _ = rmqclient.NoSuchThing


def test_the_package_alone_costs_no_trio() -> None:
    code = "import rmqclient, sys; print('trio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"
