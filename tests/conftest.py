"""Fixtures for every test: a running server, a raw connection, names that nobody else uses."""

import contextlib
import gc
import importlib
import itertools
import os
import re
import signal
import tempfile
from collections.abc import Callable, Container, Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from rmqclient.admin import AdminClient
from tests.support import golden, servers
from tests.support.process_state import ProcessState
from tests.support.servers import Fresh, Server
from tests.support.wire import Wire

# All have four digits, so that names sort in the order in which they were made, however many tests ran before.
_numbers = itertools.count(1000)

INTEROP = Path(__file__).parent / "interop"
"""Every test below it has the mark ``interop`` (``test_layout.py``)."""
MARKS_OF_FILE = re.compile(r"^pytestmark = .*$", re.MULTILINE)

# A shell's background job ignores SIGINT and SIGQUIT, and so would every program that these tests start and stop by
# them.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)

# How long an example takes, or making one, depends on how busy the machine is. The quick tests try the same examples
# each time, so that a failure means that a change broke something. `make test-all` tries new ones each time.
_STEADY: dict[str, Any] = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("whole", **_STEADY)
hypothesis.settings.register_profile("quick", **_STEADY, max_examples=30, derandomize=True)


def pytest_configure(config: pytest.Config) -> None:
    """Without the slow tests, properties are also tried with fewer examples."""
    is_quick = "not slow" in config.option.markexpr
    hypothesis.settings.load_profile("quick" if is_quick else "whole")
    if is_quick:
        try_no_constants_of_ours()


def try_no_constants_of_ours() -> None:
    """Hypothesis also tries numbers and texts that stand in the source of loaded modules. In a fresh clone each worker
    parses all of it, which takes as long as reading the tests; and a constant that changes anywhere would change the
    examples of every property."""
    providers._get_local_constants = Constants


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Tests that are left out together, a file or the folder of the interop tests, are not even read: reading tests
    takes seconds in every worker."""
    return True if is_left_out(collection_path, config.option.markexpr) else None


def is_left_out(path: Path, markexpr: str) -> bool:
    """Whether all tests of a file, or all in the folder ``interop``, have a mark that this run leaves out."""
    if path == INTEROP or INTEROP in path.parents:
        return "not interop" in markexpr
    marks = MARKS_OF_FILE.search(path.read_text()) if path.suffix == ".py" else None
    return marks is not None and any(
        re.search(rf"\bnot {mark}\b", markexpr) for mark in re.findall(r"mark\.(\w+)", marks[0])
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, Any, Any]:
    """What is collected is never garbage. Looking for some among ten thousand tests takes an eighth of the time of
    collecting, in every worker, and again in each full collection later. Each dashboard makes some hundred thousand
    objects that stay until it is closed: with Python's own threshold, a tenth of their time went into looking."""
    gc.disable()
    try:
        if "tests" in session.config.args:
            import_share(session.config)
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(GARBAGE_MIN)
        gc.enable()


def import_share(config: pytest.Config) -> None:
    """Each xdist worker reads a share of the test files before it collects. In a fresh clone pytest then rewrites the
    assertions of each file once, and not once in each worker. One worker has nobody to share with."""
    worker, count = os.environ.get("PYTEST_XDIST_WORKER", ""), int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if not worker or count == 1:
        return
    folder = Path(__file__).parent
    for path in sorted(folder.rglob("test_*.py"))[int(worker.removeprefix("gw")) :: count]:
        if is_left_out(path, config.option.markexpr):
            continue
        with contextlib.suppress(Exception, pytest.skip.Exception):  # collecting it says what is wrong
            importlib.import_module(".".join(path.relative_to(folder.parent).with_suffix("").parts))


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Gives each test the group that keeps it on one xdist worker (``group_of``). Tests of ``make crash`` have no time
    limit."""
    has_groups = config.pluginmanager.hasplugin("xdist")
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        if "crash" in marks:
            item.add_marker(pytest.mark.timeout(0))
        if has_groups and "xdist_group" not in marks:
            item.add_marker(pytest.mark.xdist_group(group_of(item, marks)))


def group_of(item: pytest.Item, marks: Container[str]) -> str:
    """Tests of one file share servers, so they share a group. Those that start a JVM make four groups: a small machine
    bears no more JVMs at a time."""
    if "spark" in marks:
        return "jvm, spark"
    if "cluster" in getattr(item, "fixturenames", ()):
        return "jvm, shared"
    if "interop" in marks:
        return "jvm, sets" if item.path.parent.name == "sets" else "jvm, own"
    return item.path.name


GARBAGE_MIN = 50_000
"""After this many new objects, the tests look for garbage."""

PLAYED = "golden_exchanges_played"


@pytest.hookimpl(optionalhook=True)  # of xdist
def pytest_testnodedown(node: Any) -> None:
    """Collects the exchanges that the tests of an xdist worker played."""
    golden.played().update(getattr(node, "workeroutput", {}).get(PLAYED, ()))  # a killed worker has none


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A whole run fails if a recorded exchange was neither played nor excused."""
    config = session.config
    if hasattr(config, "workeroutput"):
        config.workeroutput[PLAYED] = sorted(golden.played())
        return
    is_whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS and not config.option.keyword
    is_run = is_whole and not config.option.collectonly
    if exitstatus == pytest.ExitCode.OK and is_run and config.option.markexpr.startswith("not "):
        from tests.docs.not_played import wrongly_left  # 0.2 s that most runs save

        left = wrongly_left(golden.played())
        for line in left:
            print(f"\ngolden exchange {line}", end="")
        if left:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session", autouse=True)
def own_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Hides the contexts and settings of the user who runs the tests. Temporary files, also those of killed programs,
    are removed with the tests' own folders."""
    with pytest.MonkeyPatch.context() as environment:
        for kind in ("CONFIG", "STATE"):
            environment.setenv(f"XDG_{kind}_HOME", str(tmp_path_factory.mktemp(kind)))
        temporary = str(tmp_path_factory.mktemp("temporary"))
        environment.setenv("TMPDIR", temporary)
        environment.setattr(tempfile, "tempdir", temporary)
        yield


@pytest.fixture
def device_path() -> Iterator[Path]:
    """A temporary folder on a disk. ``tmp_path`` may be in memory, and what is there never leaves the page cache."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder)


@pytest.fixture(scope="module", autouse=True)
def as_found(own_files: None) -> Iterator[None]:
    """Fails a file that leaves the process otherwise than it found it."""
    before = ProcessState()
    yield
    assert not list(before.changes())


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Nameserver and broker in one process, shared by all tests: each uses topics and groups of its own (``fresh``)."""
    with servers.standalone(tmp_path_factory.mktemp("server")) as running:
        yield running
    assert running.stop() == 0, running.log_tail()


@pytest.fixture
def start_standalone(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Starts a nameserver and broker for this test alone: ``start_standalone("--flush", "sync")``."""
    started: list[Server] = []

    def start(*args: str | Path) -> Server:
        running = servers.standalone(tmp_path / f"server-{len(started)}", *args)
        started.append(running)
        return running

    yield start
    for running in started:
        running.__exit__()


@pytest.fixture
def wire(server: Server) -> Iterator[Wire]:
    """A raw connection to the broker of ``server``."""
    with Wire(server.broker_addr) as connection:
        yield connection


@pytest.fixture
def namesrv_wire(server: Server) -> Iterator[Wire]:
    """A raw connection to the nameserver of ``server``."""
    with Wire(server.namesrv_addr) as connection:
        yield connection


@pytest.fixture
def admin(server: Server) -> Iterator[AdminClient]:
    """An admin client of the nameserver of ``server``."""
    with AdminClient(server.namesrv_addr) as client:
        yield client


@pytest.fixture
def topic(server: Server, fresh: Fresh) -> str:
    """A new topic of ``server``, with one queue."""
    return servers.create_topic(server, fresh("Topic"))


@pytest.fixture
def group(fresh: Fresh) -> str:
    """A name for a consumer group of this test alone."""
    return fresh("Group")


@pytest.fixture(scope="session")
def fresh() -> Fresh:
    """A name that no other test uses: ``fresh("SendTopic")``."""
    return lambda prefix: f"{prefix}-{next(_numbers)}"
