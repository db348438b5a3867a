"""Held pulls without a network: when they are run again, and what they cost while no message comes."""

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rmqproto.codes import RequestCode as R
from rmqproto.errors import StorageError
from rmqproto.filters.message_filter import EVERYTHING, MessageFilter
from rmqproto.headers.consuming import PULL_SUBSCRIPTION, PULL_SUSPEND, PullHeader
from rmqproto.message.record import StoredMessage, encode_record, host_bytes
from rmqserver.broker.consuming import holds
from rmqserver.broker.consuming.holds import Held, Holds
from rmqserver.doors.remoting.pulls import pull_handlers
from rmqserver.remoting.answer import Request
from rmqserver.store.disk.config_files import ConfigFiles
from rmqserver.store.disk.disk import OsDisk
from rmqserver.store.message_store import MessageStore
from rmqserver.store.queues.round import Arrival
from tests.rmqserver.broker.parts import parts_on
from tests.support.servers import topic_config
from tests.support.stub_connection import StubConnection

HOST = host_bytes("127.0.0.1", 1)


@dataclass
class Queue:
    """What ``Holds`` needs of a consume queue."""

    topic: str
    queue_id: int
    codes: list[int]
    asked_for_tags: int = 0

    def tag_codes(self, first: int, count: int) -> list[int]:
        self.asked_for_tags += 1
        return self.codes[first : first + count]

    def unit(self, queue_offset: int) -> tuple[int, int, int]:
        return queue_offset, 100, self.codes[queue_offset]


class Waiting:
    """A client that waits."""

    closed = False
    flush_count = 0

    def flush(self) -> None:
        self.flush_count += 1

    def close(self, reason: str) -> None:
        self.closed = True


class Bench:
    """``Holds`` with a clock of its own. ``again`` lists the held requests that went on."""

    def __init__(self) -> None:
        self.now_ms = 1000
        self.max_offset = 0
        self.again: list[Held] = []
        self.records: list[bytes] = []
        store: Any = SimpleNamespace(get_record=self.records.__getitem__)
        self.holds = Holds(store, lambda: self.now_ms)

    def hold(
        self, accepts: set[int] | None = None, wait_ms: int = 100, queue_id: int = 0, offset: int = 0, **fields: Any
    ) -> Held:
        def go_on() -> None:
            self.again.append(held)

        held = Held(
            waiter=Waiting(),
            keys=fields.pop("keys", (("T", queue_id),)),
            deadline_ms=self.now_ms + wait_ms,
            go_on=fields.pop("go_on", go_on),
            wanted=fields.pop("wanted", MessageFilter(accepts.__contains__) if accepts is not None else EVERYTHING),
            is_passed=lambda: self.max_offset > offset,
            **fields,
        )
        assert self.holds.hold(held)
        return held

    def arrive(self, queue: Any, first: int = 0, count: int = 1) -> None:
        self.holds.arrived([Arrival(queue, first, count)])

    def sweep(self, *, scan: bool) -> None:
        for _ in self.holds.sweep(scan=scan):
            pass


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_arrival_wakes_its_own_queue_once(bench: Bench) -> None:
    here, there = bench.hold(queue_id=0), bench.hold(queue_id=1)
    bench.arrive(Queue("T", 0, [7]))
    bench.arrive(Queue("T", 0, [7]))
    bench.arrive(Queue("U", 1, [7]))
    assert bench.again == [here]
    bench.arrive(Queue("T", 1, [7]))
    assert bench.again == [here, there]
    assert len(bench.holds) == 0


def test_tags_are_looked_up_once_for_all_and_only_where_someone_asks(bench: Bench) -> None:
    wanted, unwanted, other = bench.hold({3}), bench.hold({4}), bench.hold({2, 4})
    queue = Queue("T", 0, [1, 2, 3])
    bench.arrive(queue, 1, 2)
    assert bench.again == [wanted, other]
    assert (queue.asked_for_tags, len(bench.holds)) == (1, 1)
    assert unwanted not in bench.again
    plain = Queue("T", 2, [1])
    bench.hold(queue_id=2)
    bench.arrive(plain)
    assert plain.asked_for_tags == 0


def test_of_a_line_only_so_many_go_on_as_take_what_arrived(bench: Bench) -> None:
    """A message used to wake every pop that waited, and all but one went back to wait."""

    def in_line(line: str, takes_count: int = 1, **more: Any) -> Held:
        return bench.hold(keys=(line,), line=line, line_keys=(("T", 0), ("T", 1)), takes_count=takes_count, **more)

    first, second, third, other = in_line("g"), in_line("g"), in_line("g", takes_count=32), in_line("h")
    alone = bench.hold()
    queue = Queue("T", 0, [7] * 100)
    bench.arrive(queue)
    assert bench.again == [alone, first, other]
    bench.again.clear()
    bench.arrive(queue, 1, 20)
    assert bench.again == [second, third]
    bench.again.clear()
    unwanted, gone, wanted = in_line("g", accepts={8}), in_line("g"), in_line("g", accepts={7})
    gone.waiter.closed = True  # type: ignore[misc]
    bench.arrive(queue)
    assert bench.again == [wanted]
    bench.holds.wake_next("g")
    bench.holds.wake_next("g")
    assert bench.again == [wanted, unwanted]
    bench.sweep(scan=False)
    bench.arrive(queue)
    assert (len(bench.holds), len(bench.again)) == (0, 2)


def test_deadline_is_kept_by_the_sweep(bench: Bench) -> None:
    short, long = bench.hold(wait_ms=10), bench.hold(wait_ms=20)
    bench.now_ms += 9
    bench.sweep(scan=False)
    assert bench.again == []
    bench.now_ms += 1
    bench.sweep(scan=False)
    assert bench.again == [short]
    bench.now_ms += 10
    bench.sweep(scan=False)
    assert bench.again == [short, long]


def test_scan_moves_on_whom_messages_passed_by(bench: Bench) -> None:
    """Otherwise a consumer of a rare tag would fall further and further behind, and all those units would have to be
    filtered in one go."""
    behind, level = bench.hold({4}, offset=2), bench.hold({4}, offset=3)
    bench.max_offset = 3
    bench.sweep(scan=False)
    assert bench.again == []
    bench.sweep(scan=True)
    assert bench.again == [behind]
    assert level not in bench.again


def test_a_queue_that_cannot_be_read_ends_no_scan(bench: Bench) -> None:
    def is_passed() -> bool:
        raise StorageError("bad sector")

    damaged, behind = bench.hold(), bench.hold()
    damaged.is_passed = is_passed
    bench.max_offset = 1
    bench.sweep(scan=True)
    assert bench.again == [damaged, behind], "whose client is told why when it goes on"


def test_many_are_swept_in_portions(bench: Bench) -> None:
    """A scan of 100,000 at once stopped every client for a tenth of a second."""
    looked_at: list[int] = []

    def is_passed() -> bool:
        looked_at[-1] += 1
        return len(looked_at) == 1

    for _ in range(5000):
        bench.hold().is_passed = is_passed
    portions = bench.holds.sweep(scan=True)
    looked_at.append(0)
    next(portions)
    bench.holds.wake(("T", 0))  # the others go on in another way meanwhile
    looked_at.extend(0 for _ in portions)
    assert (looked_at[0], sum(looked_at), len(bench.again)) == (holds.SWEPT_AT_A_TIME, holds.SWEPT_AT_A_TIME, 5000)


def test_closed_connections_are_forgotten_and_never_run_again(bench: Bench) -> None:
    swept, woken = bench.hold(), bench.hold(queue_id=1)
    swept.waiter.closed = woken.waiter.closed = True  # type: ignore[misc]
    bench.sweep(scan=False)
    bench.arrive(Queue("T", 1, [1]))
    assert bench.again == []
    assert (len(bench.holds), bench.holds.held_for(("T", 0)), bench.holds.held_for(("T", 1))) == (0, 0, 0)


def test_too_many_are_not_held(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holds, "HELD_MAX", 2)
    kept = bench.hold()
    bench.hold()
    refused = Held(kept.waiter, kept.keys, 0, kept.go_on)
    assert not bench.holds.hold(refused)
    bench.arrive(Queue("T", 0, [1]))
    assert bench.holds.hold(refused)


def test_what_is_held_again_while_it_goes_on_is_not_lost(bench: Bench) -> None:
    """A woken pull may be answered, and the client's next one held, before the rest of the table is looked at."""
    held_anew: list[Held] = []
    first = bench.hold(go_on=lambda: (bench.again.append(first), held_anew.append(bench.hold())))
    second = bench.hold()
    bench.arrive(Queue("T", 0, [1]))
    assert bench.again == [first, second]
    assert len(bench.holds) == 1
    bench.arrive(Queue("T", 0, [1]))
    assert bench.again[2:] == held_anew


def test_one_of_several_keys_is_enough_and_only_once(bench: Bench) -> None:
    """A pop waits for a topic and for its group's retry topic."""
    held = bench.hold(keys=(("T", 0), ("%RETRY%G", 0), "G"))
    bench.holds.arrived([Arrival(Queue("%RETRY%G", 0, [1]), 0, 1), Arrival(Queue("T", 0, [1]), 0, 1)])  # type: ignore[arg-type]
    assert bench.again == [held]
    bench.holds.wake("G")
    bench.now_ms += 1000
    bench.sweep(scan=True)
    assert (bench.again, len(bench.holds), bench.holds.held_for("G")) == ([held], 0, 0)


def test_a_key_of_no_queue_is_woken_by_name_whatever_is_wanted(bench: Bench) -> None:
    held, other = bench.hold({4}, keys=("G",)), bench.hold({4}, keys=("H",))
    bench.holds.wake("G")
    assert bench.again == [held]
    assert (bench.holds.held_for("G"), bench.holds.held_for("H")) == (0, 1)
    assert other not in bench.again


def test_one_that_wakes_another_of_the_same_arrival(bench: Bench) -> None:
    """The table changes during the iteration."""
    second: Held
    first = bench.hold(go_on=lambda: (bench.again.append(first), bench.holds.wake("second")))
    second = bench.hold(keys=(("T", 0), "second"))
    bench.arrive(Queue("T", 0, [1]))
    assert bench.again == [first, second]


def test_one_that_fails_keeps_no_other_from_going_on(bench: Bench) -> None:
    def fail() -> None:
        raise RuntimeError("cannot go on")

    bench.hold(go_on=fail)
    other = bench.hold()
    bench.arrive(Queue("T", 0, [1]))
    assert (bench.again, len(bench.holds)) == ([other], 0)


def record(**properties: str) -> bytes:
    text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
    return encode_record(
        StoredMessage(
            size_bytes=0, body_crc=0, queue_id=0, flag=0, queue_offset=0, log_offset=0, sys_flag=0,
            born_timestamp_ms=0, born_host=HOST, store_timestamp_ms=0, store_host=HOST, reconsume_times=0,
            prepared_transaction_offset=0, body=b"", topic="T", properties_raw=text.encode(),
        )
    )  # fmt: skip


def test_walks_is_asked_with_the_properties_of_what_arrived(bench: Bench) -> None:
    bench.records += [record(a="1"), record(a="2"), b"damaged"]

    def wants(value: bytes) -> MessageFilter:
        return MessageFilter({7}.__contains__, (b"a\x01%b\x02" % value).__eq__)

    one, two, none = (bench.hold(wanted=wants(value)) for value in (b"1", b"2", b"3"))
    queue = Queue("T", 0, [7, 7, 7])
    bench.arrive(queue, 1, 2)
    assert bench.again == [two]
    bench.arrive(Queue("T", 0, [8, 8, 8]), 0, 2)
    assert bench.again == [two], "the first stage decides first"
    bench.arrive(queue, 0, 1)
    assert bench.again == [two, one]
    assert none not in bench.again
    assert queue.asked_for_tags == 2


def test_many_at_once_are_not_read_here(bench: Bench) -> None:
    """A pull that waits for one of a thousand messages goes on, and looks itself."""
    held = bench.hold(wanted=MessageFilter(None, lambda found: False))
    bench.arrive(Queue("T", 0, []), 0, holds.LOOKED_AT_MAX + 1)
    assert bench.again == [held]


def test_who_goes_on_is_sent_its_messages_at_once_and_together(bench: Bench) -> None:
    """The messages must not wait for the rest of the round, such as the answers to producers."""
    held, other, not_wanted = bench.hold(), bench.hold(queue_id=1), bench.hold(accepts={7}, queue_id=1)
    other.waiter = held.waiter
    bench.holds.arrived([Arrival(Queue("T", queue_id, [1]), 0, 1) for queue_id in (0, 1)])  # type: ignore[arg-type]
    assert bench.again == [held, other]
    assert [each.waiter.flush_count for each in (held, not_wanted)] == [1, 0]  # type: ignore[attr-defined]


def test_at_the_end_readers_go_on_and_who_may_write_is_disconnected(bench: Bench) -> None:
    reads, pops = bench.hold(), bench.hold(line="pops", line_keys=(("T", 0),))
    bench.holds.give_up()
    assert (bench.again, reads.waiter.closed, pops.waiter.closed) == ([reads], False, True)


def test_a_pull_with_a_long_expression_weighs_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The size used to be passed as the name of its line, so the pull weighed one."""
    monkeypatch.setattr(holds, "HELD_MAX", 3)
    store, files = MessageStore(tmp_path, background=False), ConfigFiles(str(tmp_path / "config"), OsDisk())
    store.open()
    parts = parts_on(store, files)
    parts.topics.put(topic_config("T"))
    pull = pull_handlers(parts)[R.PULL_MESSAGE]

    def answers(expression: str) -> int:
        header = PullHeader(
            consumer_group="G", topic="T", queue_id=0, queue_offset=0, max_msg_nums=32, subscription=expression,
            sys_flag=PULL_SUBSCRIPTION | PULL_SUSPEND, suspend_timeout_millis=1000,
        )  # fmt: skip
        peer: Any = StubConnection()
        pull(Request(code=R.PULL_MESSAGE, opaque=1, header=header), peer)
        return len(peer.frames)

    assert answers("x" * 3 * holds.EXPRESSION_SHARE_CHARS) == 1, "there is no room for it"
    assert answers("x" * holds.EXPRESSION_SHARE_CHARS) == 0
    assert answers("x") == 0
    assert answers("x") == 1
    files.close()
    store.close()
