"""The check that every file of tests leaves its process as it was (``as_found`` in ``conftest.py``)."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import tests.support.process_state
from tests.support.process_state import ProcessState

pytest_plugins = ["pytester"]

NAME = "tests.support.process_state"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda patch: patch.chdir("/proc"), "the working folder is /proc, not "),
        (lambda patch: patch.setenv("RMQADMIN_OUTPUT", "json"), "RMQADMIN_OUTPUT is 'json', not None"),
        (lambda patch: patch.delenv("TMPDIR"), "TMPDIR is None, not '"),
        (lambda patch: patch.delitem(sys.modules, NAME), f"the module {NAME} was loaded again or is gone"),
        (lambda patch: patch.setitem(sys.modules, NAME, sys), f"the module {NAME} was loaded again or is gone"),
    ],
    ids=["folder", "variable", "no variable", "no module", "another module"],
)
def test_each_change_is_told(change: Callable[[pytest.MonkeyPatch], None], said: str) -> None:
    before = ProcessState()
    with pytest.MonkeyPatch.context() as patch:
        change(patch)
        (told,) = before.changes()
    assert told.startswith(said)
    assert list(before.changes()) == []


def test_more_modules_are_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    before = ProcessState()
    monkeypatch.setitem(sys.modules, f"{NAME}_more", tests.support.process_state)
    assert list(before.changes()) == []


@pytest.mark.slow
def test_a_run_fails_where_a_file_takes_modules_away(pytester: pytest.Pytester) -> None:
    """Inner runs of pytest in this process did so. Tests in other files failed, and only in some orders."""
    pytester.makeconftest("from tests.conftest import as_found, own_files\n")
    pytester.makepyfile(
        test_careless="""
            import sys

            def test():
                import tests.support.quick

                del sys.modules['tests.support.quick']
            """,
        test_tidy="def test(): pass",
    )
    pytester.makeini(f"[pytest]\npythonpath = {Path(__file__).parent.parent}")
    result = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*the module tests.support.quick was loaded again or is gone*"])
