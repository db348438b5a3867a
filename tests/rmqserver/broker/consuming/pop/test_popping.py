"""Which messages are popped, when they come again, and the group's offsets."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.popping import CheckPoint
from rmqproto.filters.message_filter import MessageFilter
from rmqproto.headers.popping import NotificationHeader, PopHeader
from rmqproto.message.record import StoredMessage, decode_record_untrusted
from rmqproto.names import REVIVE_GROUP, revive_topic
from rmqproto.pop import pop_retry_topic
from rmqserver.broker.consuming.pop import popping
from rmqserver.broker.consuming.pop.pop_request import EARLY_MS
from rmqserver.broker.consuming.pop.revive import AGAIN_AFTER_MS
from rmqserver.broker.consuming.pop.revive_log import ACK_WAITS_MS, REVIVE_MARGIN_MS, ReviveQueue, entry_untrusted
from rmqserver.broker.consuming.pop.waiting import POP
from rmqserver.broker.tables import config_table, consumer_offsets
from tests.rmqserver.broker.consuming.pop.bench import GROUP, TOPIC, Bench, Taken
from tests.rmqserver.store.conftest import put
from tests.support.clock import Clock
from tests.support.stub_connection import StubConnection

BODY_LENGTH_AT, QUEUE_OFFSET_AT, MAGIC_AT = -4, -68, -84
"""Fields of a record, counted from its body."""

DUE_MS = 10_000 + REVIVE_MARGIN_MS
RETRY = pop_retry_topic(GROUP, TOPIC)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.close()


def test_what_is_popped_is_invisible_until_its_time_is_over(bench: Bench) -> None:
    bench.send(b"one")
    (taken,) = bench.take()
    bench.wait(DUE_MS - 1)
    assert bench.take() == []
    bench.wait(1)
    (again,) = bench.take()
    assert (again.body, again.message.topic, again.message.reconsume_times) == (b"one", TOPIC, 1)
    assert again.message.properties["ORIGIN_GROUP"] == GROUP
    assert again.message.properties["1ST_POP_TIME"] == str(taken.handle.pop_time_ms)
    assert again.handle.kind == "1"


def test_a_pop_that_has_enough_bytes_looks_at_no_further_queue(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(popping, "POP_ENOUGH_BYTES", 1000)
    for queue_id in (0, 1):
        bench.send(b"x" * 1000, queue_id)
    popped = bench.try_pop()
    assert (popped.message_count, popped.rest_count) == (1, 1)
    assert bench.try_pop().message_count == 1


def test_what_is_acknowledged_never_comes_again(bench: Bench) -> None:
    for number in range(3):
        bench.send(b"%d" % number)
    first, second, third = bench.take()
    bench.ack(first.handle)
    bench.ack(third.handle)
    bench.wait(DUE_MS)
    assert [each.body for each in bench.take()] == [b"1"]
    assert second.handle.queue_offset == 1


def test_an_acknowledgement_behind_many_others_is_read_in_time(bench: Bench) -> None:
    """The reviver used to read 32 entries of each queue of its log at a time. At more than some hundred entries a
    second it found check points due before it had read their acknowledgements."""
    for _ in range(10):
        for _ in range(32):
            bench.send(b"one")
        for taken in bench.take():
            bench.ack(taken.handle)
    bench.wait(DUE_MS)
    assert bench.take() == []


def test_the_reviver_is_told_what_the_log_says(bench: Bench) -> None:
    bench.send(b"one")
    bench.send(b"two", queue_id=1)
    bench.revive()
    first, second = bench.take()
    bench.ack(first.handle)
    bench.change(second.handle, 5000)
    log, store, told_count = bench.parts.popping._log, bench.store, 0
    for queue_id, told in bench.parts.reviver._queues.items():
        read = ReviveQueue(0)
        for record in store.get(log.topic, queue_id, 0, 32).records():
            read.take(*entry_untrusted(decode_record_untrusted(record)))
        assert vars(told) == vars(read)
        told_count += told.next_offset
    assert told_count == 5


@pytest.mark.parametrize("acked_before", range(5))
def test_what_was_put_before_the_reviver_came_is_read_in_the_log(tmp_path: Path, acked_before: int) -> None:
    bench = Bench(tmp_path, "reviveQueueNum=1")
    for number in range(9):
        bench.send(b"%d" % number)
    for number, taken in enumerate(bench.take()[:4]):
        if number == acked_before:
            bench.revive()
        bench.ack(taken.handle)
        bench.take()
    bench.wait(DUE_MS)
    assert sorted(each.body for each in bench.take()) == [b"%d" % number for number in range(4, 9)]
    bench.close()


@pytest.mark.parametrize("acked", [{b"one"}, {b"two"}, {b"one", b"two"}])
def test_what_is_acknowledged_while_it_is_read_does_not_come_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, acked: set[bytes]
) -> None:
    reviver, read = bench.parts.reviver, bench.parts.reviver._message

    async def read_slowly(check_point: CheckPoint, queue_offset: int, end: int) -> StoredMessage | None:
        message = await read(check_point, queue_offset, end)
        if queue_offset == 0:
            for each in taken:
                if each.body in acked:
                    bench.ack(each.handle)
        return message

    monkeypatch.setattr(reviver, "_message", read_slowly)
    bench.revive()
    for body in (b"one", b"two"):
        bench.send(body)
    taken = bench.take()
    bench.wait(DUE_MS)
    assert reviver.open_count == 0
    log = bench.parts.popping._log
    entry_count = sum(bench.store.max_offset(log.topic, queue_id) for queue_id in range(log.queue_nums))
    came_again = {b"one", b"two"} - acked
    assert entry_count == 1 + len(acked) + bool(came_again), "the check point, what was acknowledged, and the rest"
    assert {each.body for each in bench.take()} == came_again


def test_the_revive_log_is_not_done_with_what_another_master_may_take_back(bench: Bench) -> None:
    """The brokers in sync do not have the record yet: it is written and flushed, but no reader sees it."""
    bench.options = dataclasses.replace(bench.options, waits_for_copies=True)
    bench.restart()
    bench.send(b"one")
    bench.revive()
    bench.store.copied(bench.store.written_offset)
    (taken,) = bench.take()
    bench.ack(taken.handle)
    topic, queue_id = revive_topic("DefaultCluster"), taken.handle.revive_queue_id
    for done_offset in (-1, 1):
        for _ in range(3):
            bench.store.flush()
            bench.revive()
        assert bench.parts.offsets.queues(REVIVE_GROUP, topic).get(queue_id, -1) == done_offset
        bench.store.copied(bench.store.written_offset)


def test_a_changed_time_counts_from_the_change(bench: Bench) -> None:
    bench.send(b"one")
    (taken,) = bench.take()
    bench.clock.now_ms += 5000
    bench.change(taken.handle, 20_000)
    bench.wait(20_000 + REVIVE_MARGIN_MS - 1)
    assert bench.take() == []
    bench.wait(1)
    assert [each.body for each in bench.take()] == [b"one"]


def test_changed_twice_in_a_millisecond_it_comes_again(bench: Bench) -> None:
    """Two check points with one pop time used to be taken for one, so the acknowledgement of the first counted for the
    second, too."""
    bench.send(b"one")
    (taken,) = bench.take()
    bench.change(bench.change(taken.handle, 1000), 2000)
    bench.wait(2000 + REVIVE_MARGIN_MS + 2)
    assert [each.body for each in bench.take()] == [b"one"]


def test_a_suspended_message_was_not_tried(tmp_path: Path) -> None:
    """However often it comes again, it never becomes a dead letter."""
    bench = Bench(tmp_path, retry_max_times=0)
    bench.send(b"one")
    for _ in range(3):
        (taken,) = bench.take()
        bench.change(taken.handle, 1000, suspend=True)
        bench.wait(1000 + REVIVE_MARGIN_MS + 1)
    assert [(each.body, each.message.reconsume_times) for each in bench.take()] == [(b"one", 0)]
    assert bench.dead == []
    bench.close()


def test_after_too_many_times_it_is_a_dead_letter(tmp_path: Path) -> None:
    bench = Bench(tmp_path, retry_max_times=2)
    bench.send(b"one")
    for _ in range(3):
        assert [each.body for each in bench.take()] == [b"one"]
        assert bench.dead == []
        bench.wait(DUE_MS)
    assert (bench.take(), bench.dead) == ([], [b"one"])
    (dead,) = bench.messages(f"%DLQ%{GROUP}")
    assert (dead.reconsume_times, dead.properties["RETRY_TOPIC"], dead.properties["DELAY"]) == (4, TOPIC, "0")
    bench.close()


def test_a_message_whose_properties_have_no_room_comes_again_with_those_it_had(bench: Bench) -> None:
    """The refusal of this message used to keep all later ones of its revive queue from coming again, for ever."""
    properties = b"k\x01" + b"v" * 32_760 + b"\x02"
    bench.send(b"full", properties=properties)
    for _ in range(8):
        bench.send(b"other")
    assert len(bench.take()) == 9
    bench.wait(DUE_MS)
    assert sorted(each.body for each in bench.take()) == [b"full", *[b"other"] * 8]
    (full,) = [message for message in bench.messages(RETRY) if message.body == b"full"]
    assert full.properties_raw == properties


def test_a_message_whose_retry_topic_has_no_room_holds_up_no_other(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any client can fill the table of topics by naming them. That used to end the broker, at each of its starts."""
    monkeypatch.setattr(config_table, "ENTRIES_MAX", len(bench.parts.topics.all()))
    bench.send(b"one")
    (taken,) = bench.take()
    bench.wait(DUE_MS)
    assert bench.take() == []
    bench.send(b"two")
    (other,) = bench.take()
    bench.ack(other.handle)
    monkeypatch.undo()
    bench.wait(AGAIN_AFTER_MS)
    assert [(each.body, each.message.reconsume_times) for each in bench.take()] == [(taken.body, 1)]


def test_a_message_that_is_too_large_by_now_holds_up_no_other(bench: Bench) -> None:
    """The operator has lowered maxMessageSize. The message comes again once the limit is raised."""
    large = b"large" * 200
    bench.send(large)
    bench.send(b"small")
    bench.take()
    whole, bench.options = bench.options, dataclasses.replace(bench.options, message_size_max_bytes=500)
    bench.restart()
    bench.wait(DUE_MS)
    assert [each.body for each in bench.take()] == [b"small"]
    bench.options = whole
    bench.restart()
    bench.wait(AGAIN_AFTER_MS)
    assert large in [each.body for each in bench.take()]


@pytest.mark.parametrize("sound", [b"sound", b"as long"])
@pytest.mark.parametrize("is_original", [True, False])
@pytest.mark.parametrize("at", [BODY_LENGTH_AT, MAGIC_AT, QUEUE_OFFSET_AT])
def test_a_damaged_record_costs_its_own_message(bench: Bench, at: int, is_original: bool, sound: bytes) -> None:
    """It used to end the broker when it was to come again, and to fail the pop that found it in the retry topic."""
    bench.send(b"damaged")
    bench.send(sound)
    assert len(bench.take()) == 2
    if is_original:
        damage(bench, b"damaged", at)
    bench.wait(DUE_MS)
    damage(bench, b"damaged", at)
    assert [each.body for each in bench.take()] == [sound]
    bench.wait(DUE_MS)
    assert [each.body for each in bench.take()] == [sound]


def damage(bench: Bench, body: bytes, at: int) -> None:
    """Overwrites four bytes of every record with this body; ``at`` is counted from the body. It puts another message
    first, because the newest write is read from memory."""
    put(bench.store, topic="Other", body=b"last")
    bench.store.commit()
    bench.store.flush()
    (file,) = (bench.directory / "commitlog").iterdir()
    data = bytearray(file.read_bytes())
    found = data.find(body)
    while found >= 0:
        data[found + at : found + at + 4] = b"\xff" * 4
        found = data.find(body, found + 1)
    file.write_bytes(data)


def test_unreadable_properties_cost_their_own_message(bench: Bench) -> None:
    """The reviver goes on, and with it the broker."""
    bench.send(b"unreadable", properties=b"a\x01\xff\x02")
    bench.send(b"sound")
    assert len(bench.try_pop().chunks) > 0
    bench.wait(DUE_MS)
    assert [each.body for each in bench.take()] == [b"sound"]


def test_a_handle_that_a_message_brings_along_is_not_its_own(bench: Bench) -> None:
    """A client that sends on a popped message sends this property, too. Such a message could not be acknowledged."""
    bench.send(b"sent on", properties=b"POP_CK\x010 1 2 3 0 broker-a 0 0\x02")
    bench.take()
    bench.wait(DUE_MS)
    (again,) = bench.take()
    assert again.handle.pop_time_ms == bench.clock.now_ms
    bench.ack(again.handle)
    bench.wait(DUE_MS)
    assert bench.take() == []


def test_retry_topics_of_both_versions_are_popped(tmp_path: Path) -> None:
    """A retry topic that was made before V2 was switched on still has messages."""
    bench = Bench(tmp_path)
    bench.send(b"old")
    bench.take()
    bench.wait(DUE_MS)
    bench.parts.config.record({"enableRetryTopicV2": "true"})
    bench.send(b"new")
    new, old = sorted(bench.take(), key=lambda taken: taken.body)
    assert (new.handle.kind, old.handle.kind) == ("0", "1")
    bench.wait(DUE_MS)
    assert bench.store.max_offset(pop_retry_topic(GROUP, TOPIC, is_v2=True), 0) == 1
    assert {each.handle.kind: each.body for each in bench.take()} == {"1": b"old", "2": b"new"}
    bench.close()


def test_each_queue_may_have_a_retry_queue_of_its_own(tmp_path: Path) -> None:
    """With useSeparateRetryQueue. The retry topic follows when its topic gets more queues."""
    bench = Bench(tmp_path, "useSeparateRetryQueue=true", queue_nums=2)
    bench.send(b"first", 1)
    bench.take()
    bench.wait(DUE_MS)
    assert [bench.store.max_offset(RETRY, queue_id) for queue_id in range(2)] == [0, 1]
    topic = bench.parts.topics.get(TOPIC)
    assert topic is not None
    bench.parts.topics.put(msgspec.structs.replace(topic, read_queue_nums=3, write_queue_nums=3))
    bench.send(b"second", 2)
    assert sorted(each.body for each in bench.take()) == [b"first", b"second"]
    bench.wait(DUE_MS)
    assert [bench.store.max_offset(RETRY, queue_id) for queue_id in range(3)] == [0, 2, 1]
    assert sorted(each.body for each in bench.take()) == [b"first", b"second"]
    bench.close()


def test_retries_come_by_priority_too(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "useSeparateRetryQueue=true", queue_nums=3)
    with_priorities(bench, "100")
    for queue_id in (1, 0, 2):
        bench.send(b"%d" % queue_id, queue_id)
    for _ in range(4):  # whichever queue's turn it is
        assert [each.body for each in bench.take()] == [b"2", b"1", b"0"]
        bench.wait(DUE_MS)
    bench.close()


def test_offsets_say_how_far_the_group_has_come(bench: Bench) -> None:
    for number in range(4):
        bench.send(b"%d" % number, number % 2)
    bench.take(count=3)
    assert bench.parts.offsets.queues(GROUP, TOPIC) == {0: 2, 1: 1}
    bench.wait(DUE_MS)
    assert bench.parts.offsets.queues(GROUP, RETRY) == {0: 0}


def test_what_is_not_wanted_is_passed_over(bench: Bench) -> None:
    for number in range(5):
        bench.send(b"%d" % number, tags="A" if number % 2 else "B")
    wanted = MessageFilter(accepts_code=lambda code: code == ord("A"))
    assert [each.body for each in bench.take(wanted=wanted)] == [b"1", b"3"]
    bench.wait(DUE_MS)
    assert [message.body for message in bench.messages(RETRY)] == [b"1", b"3"]


def test_no_more_of_a_queue_is_popped_than_may_be_in_flight(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "enablePopMessageThreshold=true\npopInflightMessageThreshold=2")
    for number in range(6):
        bench.send(b"%d" % number)
    first, _ = bench.take(2)
    popped = bench.try_pop(2)
    assert (popped.chunks, popped.rest_count) == ([], 4)
    bench.send(b"other", queue_id=1)
    assert [each.body for each in bench.take()] == [b"other"], "each queue for itself"
    later = bench.change(first.handle, 60_000)
    assert bench.take() == [], "it is still in flight"
    bench.ack(later)
    bench.ack(later)
    (third,) = bench.take(1)
    assert third.body == b"2"
    bench.ack(third.handle)
    bench.clock.now_ms += 20_000
    bench.revive()
    assert {each.body for each in bench.take(32)} == {b"1", b"3", b"4", b"5", b"other"}
    bench.close()


def test_a_late_acknowledgement_does_not_hold_the_log_back_for_ever(bench: Bench) -> None:
    bench.send(b"one")
    (taken,) = bench.take()
    bench.wait(DUE_MS)
    bench.ack(taken.handle)
    bench.wait(ACK_WAITS_MS)
    for _ in range(2):
        bench.wait(1)
        bench.store.flush()
    bench.wait(1)
    topic = revive_topic("DefaultCluster")
    committed = bench.parts.offsets.queues(REVIVE_GROUP, topic)
    assert committed
    for queue_id, done_offset in committed.items():
        assert done_offset == bench.store.max_offset(topic, queue_id) - 1


@pytest.mark.parametrize("is_restarted", [False, True], ids=["running", "restarted"])
def test_what_was_popped_of_a_deleted_topic_is_no_message_of_the_new_one(bench: Bench, *, is_restarted: bool) -> None:
    """A message of the new topic at the same queue offset came a second time."""
    bench.send(b"old")
    bench.take()
    bench.wait(1)
    bench.parts.topic_admin.delete(TOPIC)
    bench.parts.topics.create_system(TOPIC, 2)
    bench.send(b"new")
    (new,) = bench.take()
    bench.ack(new.handle)
    if is_restarted:
        bench.restart()
    bench.wait(DUE_MS)
    assert bench.take() == []


def test_a_restart_forgets_nothing(bench: Bench) -> None:
    for number in range(3):
        bench.send(b"%d" % number)
    first, _, _ = bench.take()
    bench.ack(first.handle)
    bench.restart()
    assert bench.take() == []
    bench.wait(DUE_MS)
    assert [each.body for each in bench.take()] == [b"1", b"2"]


def test_what_came_again_comes_once_though_an_older_check_point_is_open(bench: Bench) -> None:
    """The revive log's group has its offset before the older check point, so a start reads both again."""
    first, second = _two_check_points_of_one_revive_queue(bench)
    bench.change(second.handle, 248)
    bench.wait(5000)
    bench.store.flush()
    bench.crash()
    bench.wait(0)
    assert [each.body for each in bench.take()] == [b"two"]
    bench.restart()
    bench.wait(5000)
    assert bench.take() == []
    bench.ack(first.handle)
    bench.wait(10_000)
    assert [each.body for each in bench.take()] == [b"two"], "of the pop of the copy"


def _two_check_points_of_one_revive_queue(bench: Bench) -> tuple[Taken, Taken]:
    """``one`` is invisible for longer than ``two``."""
    bench.send(b"one")
    (first,) = bench.take(invisible_ms=60_000)
    while True:
        bench.send(b"two")
        (second,) = bench.take()
        if second.handle.revive_queue_id == first.handle.revive_queue_id:
            return first, second
        bench.ack(second.handle)


def test_after_a_crash_nothing_is_popped_again_before_its_time(bench: Bench) -> None:
    """The saved offsets are older than the pop."""
    bench.send(b"one")
    bench.take()
    bench.crash()
    assert bench.take() == []
    bench.wait(DUE_MS)
    assert [each.body for each in bench.take()] == [b"one"]


def test_after_a_crash_what_has_come_again_and_was_acknowledged_is_done(bench: Bench) -> None:
    """The revive log's group had its offset before the check point, whose messages came a third time: after kill -9
    those of five seconds."""
    bench.send(b"one")
    bench.take()
    bench.wait(DUE_MS)
    (again,) = bench.take()
    bench.ack(again.handle)
    bench.crash()
    bench.wait(DUE_MS)
    assert bench.take() == []


def test_a_pop_that_waits_in_order_looks_again_when_the_time_that_it_waits_for_changes(bench: Bench) -> None:
    bench.send(b"one")
    (taken,) = bench.take(order=True, invisible_ms=600_000)
    header = PopHeader(
        consumer_group=GROUP, topic=TOPIC, queue_id=-1, max_msg_nums=1, invisible_time=600_000, poll_time=20_000,
        init_mode=0, order=True,
    )  # fmt: skip
    looked: list[str] = []
    bench.parts.pop_waiting.hold(
        POP, header, StubConnection(), bench.parts.holds.clock_ms() + 20_000, lambda: looked.append("again")
    )
    bench.change(taken.handle, 0)
    bench.parts.end_round()
    assert looked == ["again"]
    assert [each.body for each in bench.take(order=True)] == [b"one"]


@pytest.mark.parametrize("set_by_ms", [-3_600_000, 0, 3_600_000])
def test_pops_wait_for_their_time_however_the_clock_is_set_meanwhile(bench: Bench, set_by_ms: int) -> None:
    """Before, they waited for another hour, or got no time at all."""
    parts, peer, steady = bench.parts, StubConnection(), Clock(0)
    parts.holds.clock_ms = steady
    asked: dict[str, Any] = {
        "consumer_group": GROUP, "topic": TOPIC, "queue_id": -1, "poll_time": 15_000, "born_time": bench.clock.now_ms,
    }  # fmt: skip
    told: list[str] = []
    parts.pops.pop(
        PopHeader(**asked, max_msg_nums=1, invisible_time=1000, init_mode=0), peer,
        lambda code, popped: told.append("pop"), lambda go_on: go_on(),
    )  # fmt: skip
    parts.looks.notify(NotificationHeader(**asked), peer, lambda answer: told.append("look"), lambda go_on: go_on())

    def pass_ms(ms: int) -> None:
        steady.now_ms += ms
        list(parts.holds.sweep(scan=False))
        parts.end_round()

    bench.clock.now_ms += set_by_ms
    pass_ms(15_000 - EARLY_MS - 1)
    assert told == []
    pass_ms(1)
    assert sorted(told) == ["look", "pop"]


@pytest.mark.parametrize(("born_ms", "left_ms"), [(0, 1000), (-400, 600), (400, 1000)])
def test_what_a_request_took_to_come_is_part_of_its_time(bench: Bench, born_ms: int, left_ms: int) -> None:
    waiting = bench.parts.pop_waiting
    bench.parts.holds.clock_ms = Clock(7)
    assert waiting.deadline_ms(bench.clock.now_ms + born_ms, 1000) == 7 + left_ms
    assert waiting.deadline_ms(None, 1000) == 1007


def test_a_pop_that_waits_for_a_message_goes_on_when_that_is_free(bench: Bench) -> None:
    waiting = bench.parts.pop_waiting
    bench.parts.holds.clock_ms = Clock(7)
    assert waiting.until_ms(1007, None) == 1007
    assert waiting.until_ms(1007, bench.clock.now_ms + 30) == 37
    assert waiting.until_ms(1007, bench.clock.now_ms + 30_000) == 1007


def test_after_a_crash_a_full_table_of_offsets_prevents_no_start(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.send(b"one")
    bench.take()
    monkeypatch.setattr(consumer_offsets, "OFFSETS_MAX", 0)
    bench.crash()
    assert bench.parts.offsets.committed(GROUP, TOPIC, 0) is None


def test_after_a_crash_a_reset_that_was_saved_holds(bench: Bench) -> None:
    bench.send(b"one")
    bench.take()
    bench.parts.offsets.commit(GROUP, TOPIC, 0, 0)
    bench.save_offsets()
    bench.crash()
    assert [each.body for each in bench.take()] == [b"one"]


@pytest.mark.parametrize(
    ("settings", "factor", "bodies"),
    [
        ("", "100", [b"2", b"1", b"0"]),
        ("", "none", [b"2", b"1", b"0"]),
        ("priorityOrderAsc=false", "100", [b"0", b"1", b"2"]),
    ],
)
def test_the_queue_of_the_highest_priority_is_popped_first(
    tmp_path: Path, settings: str, factor: str, bodies: list[bytes]
) -> None:
    bench = Bench(tmp_path, settings, queue_nums=3)
    with_priorities(bench, factor)
    for _ in range(4):  # whichever queue's turn it is
        for queue_id in (1, 0, 2):
            bench.send(b"%d" % queue_id, queue_id)
        assert [each.body for each in bench.take()] == bodies
    bench.close()


def test_the_factor_says_how_many_pops_go_by_priority(tmp_path: Path) -> None:
    bench = Bench(tmp_path, queue_nums=3)
    with_priorities(bench, "50")
    first = [next(iter(bench.parts.popping.sources(GROUP, TOPIC, -1)))[1] for _ in range(6)]
    assert first == [0, 2, 2, 2, 1, 2]
    in_order = [next(iter(bench.parts.popping.sources(GROUP, TOPIC, -1, with_retries=False)))[1] for _ in range(3)]
    assert in_order == [0, 1, 2]
    bench.close()


def with_priorities(bench: Bench, factor: str) -> None:
    topic = bench.parts.topics.get(TOPIC)
    assert topic is not None
    bench.parts.topics.put(msgspec.structs.replace(topic, attributes={"message.type": "PRIORITY"}))
    bench.parts.groups.put(SubscriptionGroupConfig(group_name=GROUP, attributes={"priority.factor": factor}))
