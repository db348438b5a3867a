"""``rmqserver`` as real child processes, which end with the test run even if that is killed."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from rmqadmin.testing.server_process import DIE_WITH_PARENT
from rmqclient.admin import AdminClient
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import TopicConfig
from rmqproto.message.record import StoredMessage
from tests.support.processes import end
from tests.support.warm_processes import WarmProcess

LOG_TAIL_BYTES = 4000
Fresh = Callable[[str], str]
"""``fresh("SendTopic")``: a name that no other test uses, on whichever server."""

UNTIL_TIMEOUT_S = 60
UNTIL_POLL_S, UNTIL_POLL_MAX_S = 0.002, 0.05
"""The pause between two checks. Without it each waiting test takes a whole processor from the servers that it waits
for."""
UNTIL_POLL_SHARE = 0.02
"""The pause as a share of the time waited so far: a long wait checks less often, and ends late by at most this
share."""

IS_COLD = False
"""Whether servers start as users start them, in a new interpreter. The tests of ``process/test_server.py`` set it."""


def _start(args: list[str], log_fd: int) -> subprocess.Popen[bytes] | WarmProcess:
    if not IS_COLD:
        return WarmProcess(args, log_fd)
    return subprocess.Popen(
        [sys.executable, "-S", "-c", DIE_WITH_PARENT, sys.executable, "-m", "rmqserver", *args],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=log_fd,
        start_new_session=True,
    )


class Server:
    """One ``rmqserver`` process. The constructor starts it and waits until it is ready. ``stop`` it, or use it as a
    context manager.

    ``log_file`` gets its standard error. RuntimeError with the end of the log if the process ends before it is ready.
    """

    def __init__(self, *args: str | Path, log_file: Path):
        assert threading.current_thread() is threading.main_thread(), (
            "what prctl calls its parent is the thread: with one of trio's, it would be ended after ten idle seconds"
        )
        self.log_file = log_file
        with log_file.open("ab") as log:
            self._process = _start([*map(str, args)], log.fileno())
        line = self._process.stdout.readline()
        if not line:
            status = self._process.wait()
            self._process.stdout.close()
            raise RuntimeError(f"rmqserver {' '.join(map(str, args))}: exit status {status}\n{self.log_tail()}")
        self.ready: dict[str, Any] = json.loads(line)
        self.pid: int = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def namesrv_addr(self) -> str:
        return str(self.ready["namesrv_addr"])

    @property
    def broker_addr(self) -> str:
        return str(self.ready["broker_addr"])

    @property
    def controller_addr(self) -> str:
        return str(self.ready["controller_addr"])

    @property
    def store_dir(self) -> Path:
        return Path(self.ready["store_dir"])

    def stop(self, sig: signal.Signals = signal.SIGTERM) -> int:
        """Ends it, cleanly or by SIGKILL, and returns its exit status. May be called again."""
        status = end(self._process, sig)
        out = self._process.stdout
        if out is not None and not out.closed:
            rest = out.read()
            out.close()
            assert rest == b"", f"standard output holds more than the ready line: {rest!r}"
        return status

    def log_tail(self) -> str:
        return self.log_file.read_text(errors="replace")[-LOG_TAIL_BYTES:]


def standalone(directory: Path, *args: str | Path) -> Server:
    """A nameserver and broker on any free ports, with small files. The store is in ``directory``, unless ``args`` has
    ``--data``."""
    directory.mkdir(parents=True, exist_ok=True)
    data = () if "--data" in args else ("--data", directory / "store")
    return Server("standalone", "--namesrv-port", "0", "--port", "0", *data, *SMALL, *args, log_file=directory / "log")


def of_module(*args: str) -> Callable[[pytest.TempPathFactory], Iterator[Server]]:
    """A fixture: a nameserver and broker for one module. As ``server``, it also serves the fixture ``wire``."""

    @pytest.fixture(scope="module")
    def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
        with standalone(tmp_path_factory.mktemp("server"), *args) as one:
            yield one

    return running


def namesrv(directory: Path, *args: str | Path) -> Server:
    directory.mkdir(parents=True, exist_ok=True)
    return Server("namesrv", "--port", "0", *args, log_file=directory / "log")


def controller(directory: Path, *args: str | Path) -> Server:
    """A controller with its state in ``directory``."""
    directory.mkdir(parents=True, exist_ok=True)
    own = () if "--port" in args else ("--port", "0")
    return Server("controller", *own, "--data", directory / "controller", *args, log_file=directory / "log")


def broker(directory: Path, namesrv_addr: str, name: str, *args: str | Path) -> Server:
    """A broker of a running name server, on any free port, with small files."""
    directory.mkdir(parents=True, exist_ok=True)
    own = ("--port", "0", "--data", directory / "store", "--set", f"brokerName={name}")
    return Server("broker", "--namesrv", namesrv_addr, *own, *SMALL, *args, log_file=directory / "log")


def sets(*settings: str, **more: str) -> tuple[str, ...]:
    """``sets("a=1", b="2")``: arguments of a server that give it these settings."""
    given = (*settings, *(f"{name}={value}" for name, value in more.items()))
    return tuple(part for setting in given for part in ("--set", setting))


SMALL = sets(
    "flushDiskType=ASYNC_FLUSH", "mappedFileSizeCommitLog=16777216", "mappedFileSizeConsumeQueue=600000",
    "maxHashSlotNum=10000", "maxIndexNum=40000", "diskMaxUsedSpaceRatio=95",
)  # fmt: skip
"""Settings that make a test's store cheap and independent of how full the machine's disk is."""


def topic_config(name: str, queue_count: int = 1, **more: Any) -> TopicConfig:
    """A topic with so many queues to read and to write."""
    return TopicConfig(topic_name=name, read_queue_nums=queue_count, write_queue_nums=queue_count, **more)


def create_topic(server: Server, topic: str, queue_count: int = 1) -> str:
    """Creates the topic, and returns its name."""
    with AdminClient(server.namesrv_addr) as admin:
        admin.create_topic(server.broker_addr, topic_config(topic, queue_count))
    return topic


def all_of(admin: AdminClient, broker_addr: str, queue: MessageQueue) -> list[StoredMessage]:
    """The messages of a queue that has them from offset 0 on."""
    found: list[StoredMessage] = []
    while messages := admin.pull_message(broker_addr, queue, len(found)).messages:
        found += messages
    return found


def until(check: Callable[[], bool]) -> None:
    """Calls ``check`` until it is true. RuntimeError after UNTIL_TIMEOUT_S."""
    begun_s = time.monotonic()
    while not check():
        waited_s = time.monotonic() - begun_s
        if waited_s > UNTIL_TIMEOUT_S:
            raise RuntimeError(f"not so after {UNTIL_TIMEOUT_S} s")
        time.sleep(min(max(UNTIL_POLL_S, waited_s * UNTIL_POLL_SHARE), UNTIL_POLL_MAX_S))
