"""What only CI asks of a run of the tests: an order that keeps two processors busy, and few second tries."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

SECOND_TRIES_MAX = 1
"""A JVM that something else on the machine holds up is not a bug of ours; a test that passes at its second try is."""

REASON_MAX_LINES = 60
FOLDER = Path(__file__).parent
MAKE_TIMEOUT_S = 2800  # more than each test here gives its own `make`


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest begins first: the other Pythons, one a worker, for a quarter of an hour and more each; then
    the groups that start JVMs; then the rest of this folder, and files with slow tests. One of those, begun last, would
    keep one processor busy for minutes while the other has nothing to do. Whole runs of `make` may take three quarters
    of an hour each: machines differ by more than twice."""
    for item in items:
        if item.path.parent == FOLDER:
            item.add_marker(pytest.mark.timeout(MAKE_TIMEOUT_S))
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(
        key=lambda item: (
            item.path.name != "test_pythons.py",
            not starts_jvm(item),
            item.path.parent != FOLDER,
            item.path not in slow,
        )
    )


def starts_jvm(item: pytest.Item) -> bool:
    """Whether ``tests/conftest.py`` has given it to a worker that has JVMs."""
    return any(mark.args[0].startswith("jvm") for mark in item.iter_markers("xdist_group"))


@pytest.hookimpl(tryfirst=True)  # before the summary is written
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Too many second tries are one failure more, in the summary and in the exit status. A worker of xdist has no
    reporter: only the process that started them judges."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    tried_again = sorted({report.nodeid for report in reporter.stats.get("rerun", [])} if reporter else ())
    if len(tried_again) > SECOND_TRIES_MAX:
        fail: Callable[..., object] = session.config.hook.pytest_runtest_logreport
        fail(
            report=pytest.TestReport(
                nodeid=".ci::second_tries",
                location=(".ci/conftest.py", None, "second_tries"),
                keywords={},
                outcome="failed",
                longrepr=f"More than {SECOND_TRIES_MAX} tests were tried again:\n" + "\n".join(tried_again),
                when="call",
            )
        )
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Why the first tries failed: the ends of their tracebacks, which pytest keeps to itself."""
    for report in terminalreporter.stats.get("rerun", []):
        terminalreporter.write_sep("_", f"first try of {report.nodeid}")
        terminalreporter.write_line("\n".join(report.longreprtext.splitlines()[-REASON_MAX_LINES:]))
