"""Rules for a CI run of the tests: turns for what takes too long for every run, an order that keeps two processors
busy, and few second tries."""

from __future__ import annotations

import os
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

SECOND_TRIES_MAX = 1
"""One is permitted, because other load on the machine may delay a JVM. More are a bug of ours."""

REASON_MAX_LINES = 60
FOLDER = Path(__file__).parent
MAKE_TIMEOUT_S = 2800  # more than the timeouts of `make` in this folder's tests


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Starts the longest tests first: the other Pythons, which take a quarter of an hour or more each, one per worker;
    then the groups that start JVMs; then the rest of this folder, and files with slow tests. A long test started last
    would keep one processor busy for minutes while the other is idle. A whole run of `make` may take three quarters of
    an hour, because machines' speeds differ by more than a factor of two."""
    for item in items:
        if item.path.parent == FOLDER:
            item.add_marker(pytest.mark.timeout(MAKE_TIMEOUT_S))
    if "WHOLE" not in os.environ:
        leave_out_of_turn(items)
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(
        key=lambda item: (
            item.path.name != "test_pythons.py",
            not starts_jvm(item),
            item.path.parent != FOLDER,
            item.path not in slow,
        )
    )


def leave_out_of_turn(items: Iterable[pytest.Item]) -> None:
    """Of the tests with a mark ``in_turn`` of one subject, one has its turn, by the commit's hash. The others are
    skipped, and so named in the summary."""
    subjects: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        for mark in item.iter_markers("in_turn"):
            subjects[mark.args[0]].append(item)
    if subjects:
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=FOLDER, check=True, capture_output=True, text=True)
        turn = int(head.stdout, 16)
    for subject, takers in subjects.items():
        takers.sort(key=lambda item: item.nodeid)
        del takers[turn % len(takers)]
        for item in takers:
            item.add_marker(pytest.mark.skip(reason=f"not its turn among {subject} at this commit: WHOLE=1 runs it"))


def starts_jvm(item: pytest.Item) -> bool:
    """Whether ``tests/conftest.py`` has assigned the test to a worker with JVMs."""
    return any(mark.args[0].startswith("jvm") for mark in item.iter_markers("xdist_group"))


@pytest.hookimpl(tryfirst=True)  # before the summary is written
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Adds a failure to the summary and the exit status if there were too many second tries. Only the main process
    decides: workers of xdist have no reporter."""
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
    """Prints the ends of the tracebacks of failed first tries, which pytest does not show."""
    for report in terminalreporter.stats.get("rerun", []):
        terminalreporter.write_sep("_", f"first try of {report.nodeid}")
        terminalreporter.write_line("\n".join(report.longreprtext.splitlines()[-REASON_MAX_LINES:]))
