"""What all tests of the server share."""

import inspect
from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Trio runs the tests that are coroutines."""
    for item in items:
        if Path(__file__).parent in item.path.parents and inspect.iscoroutinefunction(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.trio)
