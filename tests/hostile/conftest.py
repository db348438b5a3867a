"""A server under attack, and a good client that must not notice the attack."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.headers.consuming import PullHeader
from rmqproto.headers.sending import SendHeaderV2
from rmqproto.message.record import decode_records_untrusted
from rmqproto.names import topic_problem
from tests.hostile.hostile_requests import KNOWN_TOPIC
from tests.support import servers
from tests.support.servers import Server
from tests.support.wire import Wire

ANSWER_MAX_S = 3.0
"""How long the server may work on other things while the good client waits for three answers: a client's own timeout.
Measured in the server's CPU time, because elapsed time depends on how busy the machine is."""

ROUND_PAUSE_S = 0.005
"""Between two rounds of the good client, which else would take more of the processor than the attacks."""

RSS_GROWTH_MAX_BYTES = 700 << 20
"""The allowed growth of a server that is ready: the two totals of 256 MiB (incomplete frames and unread answers), the
work of one round, and memory that the allocator keeps. Without the limits each flood here takes several GiB."""


def cpu_s(pid: int) -> float:
    """CPU time of a process so far, over all its threads (``proc_pid_stat(5)``: utime and stime)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class GoodClient(threading.Thread):
    """Sends and pulls one message after the other until ``stop``. ``slowest_s`` is the most CPU time that the server
    took during one round."""

    def __init__(self, server: Server):
        super().__init__(name="good-client", daemon=True)
        self.sent_count = 0
        self.slowest_s = 0.0
        self.problem: str | None = None
        self._server = server
        self._is_stopping = threading.Event()

    def run(self) -> None:
        try:
            with Wire(self._server.broker_addr) as broker, Wire(self._server.namesrv_addr) as namesrv:
                broker.create_topic("Good", 1)
                while not self._is_stopping.wait(ROUND_PAUSE_S):
                    started_s = cpu_s(self._server.pid)
                    self._once(broker, namesrv)
                    self.slowest_s = max(self.slowest_s, cpu_s(self._server.pid) - started_s)
        except Exception as error:
            self.problem = f"{type(error).__name__}: {error} (after {self.sent_count} messages)"

    def _once(self, broker: Wire, namesrv: Wire) -> None:
        body = b"%d" % self.sent_count
        sent = broker.ask(
            RequestCode.SEND_MESSAGE_V2,
            SendHeaderV2(producer_group="good", topic="Good", queue_id=0, born_timestamp=1),
            body,
        )
        assert sent.code == 0, sent.remark
        queue_offset = int(sent.ext["queueOffset"])
        header = PullHeader(
            consumer_group="good", topic="Good", queue_id=0, queue_offset=queue_offset, max_msg_nums=1, sys_flag=4,
            subscription="*",
        )  # fmt: skip
        pulled = broker.ask(RequestCode.PULL_MESSAGE, header)
        assert pulled.code == 0, pulled.remark
        assert [message.body for message in decode_records_untrusted(pulled.body)] == [body]
        assert namesrv.ask(RequestCode.GET_BROKER_CLUSTER_INFO).code == ResponseCode.SUCCESS
        self.sent_count += 1

    def stop(self) -> None:
        self._is_stopping.set()
        self.join(60)
        assert not self.is_alive(), "the good client waits for an answer"


class Victim:
    """A server under attack. ``check`` fails if its memory has grown past the limits."""

    def __init__(self, server: Server):
        self.server = server
        self.broker_addr, self.namesrv_addr = server.broker_addr, server.namesrv_addr
        self.rss_at_start_bytes = self.rss_bytes()

    def rss_bytes(self) -> int:
        fields = Path(f"/proc/{self.server.pid}/statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")

    def check(self) -> None:
        grown_bytes = self.rss_bytes() - self.rss_at_start_bytes
        assert grown_bytes < RSS_GROWTH_MAX_BYTES, f"the server grew by {grown_bytes >> 20} MiB"


@pytest.fixture(scope="module")
def hostile_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    """One server for all attacks of a file. Whatever the attacks, it ends cleanly, logs no traceback, and writes only
    into its store."""
    directory = tmp_path_factory.mktemp("hostile")
    with servers.standalone(directory) as server:
        yield Victim(server)
    assert server.stop() == 0, server.log_tail()
    log = server.log_file.read_text(errors="replace")
    assert "traceback=" not in log, [line for line in log.splitlines() if "traceback=" in line][:3]
    assert sorted(path.name for path in directory.iterdir()) == ["log", "store"]
    names = {path.name for path in (directory / "store").iterdir()}
    assert names <= {"checkpoint", "commitlog", "config", "consumequeue", "index", "lock", "namesrv", "queueEnds"}
    for path in (directory / "store/consumequeue").iterdir():
        assert topic_problem(path.name) is None, path


@pytest.fixture
def victim(hostile_server: Victim) -> Iterator[Victim]:
    """The server under attack while a good client works. Both are checked at the end."""
    with Wire(hostile_server.broker_addr) as wire:
        wire.create_topic(KNOWN_TOPIC)
    good = GoodClient(hostile_server.server)
    good.start()
    yield hostile_server
    before = good.sent_count
    deadline_s = time.monotonic() + servers.UNTIL_TIMEOUT_S
    while good.sent_count < before + 3 and good.is_alive() and time.monotonic() < deadline_s:
        good.join(0.01)
    good.stop()
    assert good.problem is None, good.problem
    assert good.sent_count >= before + 3
    assert good.slowest_s < ANSWER_MAX_S, f"the server worked {good.slowest_s:.1f} s before three answers"
    hostile_server.check()
