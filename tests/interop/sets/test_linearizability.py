"""One queue of a set of three brokers of ours, under our controller. Its master is killed, hands over and is frozen,
while four producers send and three readers read at any of the brokers. porcupine must find an order of all answered
operations in which each send takes the queue's next offset and each read finds the message at its offset. So no
acknowledged message is missing, none is stored twice, no refused message appears, and a send that was answered before
another began comes first. An operation without an answer may have happened or not."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import msgspec
import pytest

from rmqclient.admin import AdminClient
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.replication import ReplicaSet
from rmqproto.errors import RocketMQError
from tests.support import servers
from tests.support.beside import beside
from tests.support.broker_set import BROKER_NAME, BrokerSet
from tests.support.servers import until

from ..cluster import CLUSTER_NAME
from ..histories import History, Operation, verdict

pytestmark = pytest.mark.interop

NUMBERS = (1, 2, 3)
SENDERS = 4
ANSWER_TIMEOUT_S = 2.0
PAUSE_S = 0.01
"""The pause between two sends or two reads of one client. It keeps the history short: the checker keeps the whole queue
for each step."""

AT_LEAST = 60
"""How many messages are stored under each master."""

SETTINGS = {"minInSyncReplicas": "2", "controllerHeartBeatTimeoutMills": "3000", "haMaxTimeSlaveNotCatchup": "3000"}


class Three:
    """``found`` has the brokers by their numbers, which are their ids."""

    def __init__(self, found: BrokerSet):
        self.found = found
        self.history = History(MessageQueue("Linear", BROKER_NAME, 0))
        self._target = 1

    # --- clients -----------------------------------------------------------------------------------------------------

    def send(self, client: int, has_ended: threading.Event) -> None:
        """Sends to the broker that took the last message, or to the next one if it takes none."""
        with AdminClient(self.found.namesrv.namesrv_addr, timeout_s=ANSWER_TIMEOUT_S) as admin:
            while not has_ended.wait(PAUSE_S):
                target = self._target
                if not self.history.send(admin, self._addr(target), client) and self._target == target:
                    self._target = target % len(NUMBERS) + 1

    def read(self, number: int, has_ended: threading.Event) -> None:
        """Reads at one broker, on from the last offset. From time to time it goes back and reads again."""
        offset = rounds = 0
        with AdminClient(self.found.namesrv.namesrv_addr, timeout_s=ANSWER_TIMEOUT_S) as admin:
            while not has_ended.wait(PAUSE_S):
                rounds += 1
                with suppress(RocketMQError):
                    offset += self.history.read(admin, self._addr(number), offset, SENDERS + number)
                if rounds % 20 == 0:
                    offset = max(0, offset - 20)

    def _addr(self, number: int) -> str:
        return f"127.0.0.1:{self.found.ports[number]}"

    # --- events ------------------------------------------------------------------------------------------------------

    def start(self, number: int) -> None:
        self.found.start(number, **SETTINGS)

    @property
    def known(self) -> ReplicaSet | None:
        addr = self.found.controller_addr
        return self.found.admin.replica_sets(addr, [BROKER_NAME]).replicas_info_table.get(BROKER_NAME)

    def until_in_sync(self, count: int = len(NUMBERS)) -> None:
        until(lambda: (known := self.known) is not None and len(known.in_sync_replicas) == count)

    @property
    def master(self) -> int:
        known = self.known
        assert known is not None
        return next(number for number in NUMBERS if self._addr(number) == known.master_address)

    def until_more_are_stored(self) -> None:
        before = self.history.stored
        until(lambda: self.history.stored >= before + AT_LEAST)

    def kill(self) -> None:
        dead = self.master
        self.found.brokers[dead].stop(signal.SIGKILL)
        self.until_more_are_stored()
        self.start(dead)

    def hand_over(self) -> None:
        self.found.admin.elect_master(
            self.found.controller_addr, CLUSTER_NAME, BROKER_NAME, self.master % len(NUMBERS) + 1, 0
        )
        self.until_more_are_stored()

    def freeze(self) -> None:
        """The frozen master wakes, handles what it was sent meanwhile, and believes that it is still the master."""
        pid, epoch = self.found.brokers[self.master].pid, self._epoch
        os.kill(pid, signal.SIGSTOP)
        try:
            until(lambda: self._epoch > epoch)
            self.until_more_are_stored()
        finally:
            os.kill(pid, signal.SIGCONT)
        self.until_more_are_stored()

    @property
    def _epoch(self) -> int:
        known = self.known
        return known.master_epoch if known is not None else 0

    def read_all(self) -> None:
        """Reads the whole queue at each broker, once all have the same end."""
        ask, queue = self.found.admin.max_offset, self.history.queue
        until(lambda: len({ask(self._addr(number), queue.topic, queue.queue_id) for number in NUMBERS}) == 1)
        for number in NUMBERS:
            self.history.read_all(self.found.admin, self._addr(number), SENDERS + number)


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Three]:
    scans = ("--set", "scanNotActiveBrokerInterval=300", "--set", "scanInactiveMasterInterval=300")
    with ExitStack() as stack:
        controller = stack.enter_context(servers.controller(tmp_path / "controller", *scans))
        namesrv = stack.enter_context(servers.namesrv(tmp_path / "namesrv"))
        admin = stack.enter_context(AdminClient(namesrv.namesrv_addr))
        made = Three(BrokerSet(tmp_path, controller.controller_addr, namesrv, admin))
        stack.callback(lambda: [server.stop() for server in made.found.brokers.values()])
        for number in NUMBERS:
            made.start(number)
            made.until_in_sync(number)
        until(made.found.controller_is_settled)
        yield made


def recorded(three: Three, rounds: int) -> list[Operation]:
    with ExitStack() as clients:
        for client in range(SENDERS):
            clients.enter_context(beside(partial(three.send, client)))
        for number in NUMBERS:
            clients.enter_context(beside(partial(three.read, number)))
        three.until_more_are_stored()
        for _ in range(rounds):
            for happens in (three.kill, three.hand_over, three.freeze):
                happens()
                three.until_in_sync()
    three.read_all()
    return three.history.operations


def test_a_queue_is_linearizable_through_kill_handover_and_freeze(three: Three, tmp_path: Path) -> None:
    """The recorded history is linearizable; with one change it is not."""
    operations = recorded(three, 1)
    assert verdict(operations, tmp_path / "history.html") == "Ok", f"see {tmp_path / 'history.html'}"
    for change in CHANGES:
        assert verdict(change(list(operations))) == "Illegal", change.__name__


@pytest.mark.crash
def test_it_is_through_many_of_them(three: Three, tmp_path: Path) -> None:
    assert verdict(recorded(three, 8), tmp_path / "history.html") == "Ok", f"see {tmp_path / 'history.html'}"


# --- histories that are not linearizable -----------------------------------------------------------------------------


def the_last_one_is_lost(operations: list[Operation]) -> list[Operation]:
    """A message that was acknowledged but that nobody has read."""
    last = max((each for each in operations if each.kind == "stored"), key=lambda each: each.offset)
    kept = [each for each in operations if each.kind != "read" or each.offset + len(each.values) <= last.offset]
    return [*kept, Operation("read", (), last.offset, 9, last.return_ns + 1, last.return_ns + 2)]


def two_readers_see_two_values(operations: list[Operation]) -> list[Operation]:
    return _changed(operations, "read", lambda each: _with(each, values=(*each.values[:-1], 1_000_000)))


def what_was_refused_comes(operations: list[Operation]) -> list[Operation]:
    return _changed(operations, "stored", lambda each: _with(each, kind="refused"))


def two_have_one_offset(operations: list[Operation]) -> list[Operation]:
    return _changed(operations, "stored", lambda each: _with(each, offset=each.offset - 1))


def one_is_read_before_it_is_sent(operations: list[Operation]) -> list[Operation]:
    return _changed(operations, "read", lambda each: _with(each, call_ns=0, return_ns=1))


def one_overtakes_those_before_it(operations: list[Operation]) -> list[Operation]:
    """It was sent after the others were answered, but has the offset of one of them."""
    stored = [each for each in operations if each.kind == "stored"]
    early, late = stored[0], stored[-1]
    places = {early: late.offset, late: early.offset}
    swapped = [_with(each, offset=places.get(each, each.offset)) for each in operations]
    return [each for each in swapped if each.kind != "read"]


def _changed(operations: list[Operation], kind: str, change: Callable[[Operation], Operation]) -> list[Operation]:
    """Changes the middle one of the operations of that kind that have values."""
    found = [place for place, each in enumerate(operations) if each.kind == kind and each.values]
    place = found[len(found) // 2]
    operations[place] = change(operations[place])
    return operations


def _with(operation: Operation, **changes: object) -> Operation:
    return msgspec.structs.replace(operation, **changes)


CHANGES = (
    the_last_one_is_lost, two_readers_see_two_values, what_was_refused_comes, two_have_one_offset,
    one_is_read_before_it_is_sent, one_overtakes_those_before_it,
)  # fmt: skip
