"""Transactions from the half message to their end, with checks between."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rmqproto.codes import ResponseCode
from rmqproto.headers.sending import COMMIT, ROLLBACK
from rmqproto.message import properties as props
from rmqproto.message.message_id import offset_id
from rmqproto.message.sys_flag import TRANSACTION_COMMIT
from rmqproto.names import (
    TRANSACTION_CHECK_MAX_TIME_TOPIC,
    TRANSACTION_GROUP,
    TRANSACTION_HALF_TOPIC,
    TRANSACTION_OP_TOPIC,
)
from rmqserver.broker.tables import config_table
from rmqserver.operation import Refused
from rmqserver.store.options import FlushMode
from tests.rmqserver.broker.transactions.bench import GROUP, TIMEOUT_MS, Bench

Start = Callable[..., Bench]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a bench with settings. The test may close, restart or kill it."""
    started: list[Bench] = []

    def make(settings: str = "", flush_mode: FlushMode = FlushMode.ASYNC) -> Bench:
        started.append(Bench(tmp_path / f"store-{len(started)}", settings, flush_mode))
        return started[-1]

    yield make
    for bench in started:
        bench.store.close()
        bench.files.close()


def test_half_message_waits_where_nobody_reads(start: Start) -> None:
    bench = start()
    appended = bench.send_half(b"one", TAGS="Tag")
    (half,) = bench.half_messages
    assert (appended.queue_offset, half.sys_flag, half.queue_id, half.flag) == (0, 0, 0, 7)
    assert half.properties == {
        "TRAN_MSG": "true", "PGROUP": GROUP, "UNIQ_KEY": "KEY-6f6e65", "TAGS": "Tag", "REAL_TOPIC": "T",
        "REAL_QID": "0", "__transactionId__": "KEY-6f6e65",
    }  # fmt: skip
    assert bench.bodies() == []


def test_commit_is_delivered_with_what_the_producer_sent(start: Start) -> None:
    bench = start()
    half = bench.send_half(b"one", TAGS="Tag")
    bench.end(half)
    (message,) = bench.stored("T")
    assert (message.body, message.flag, message.born_timestamp_ms) == (b"one", 7, bench.clock.now_ms)
    assert (message.sys_flag, message.prepared_transaction_offset) == (TRANSACTION_COMMIT, half.log_offset)
    assert message.properties == {
        "TRAN_MSG": "true", "PGROUP": GROUP, "UNIQ_KEY": "KEY-6f6e65", "TAGS": "Tag", "__transactionId__": "KEY-6f6e65"
    }  # fmt: skip


async def test_rolled_back_message_is_neither_delivered_nor_asked_about(start: Start) -> None:
    bench = start()
    bench.end(bench.send_half(), ROLLBACK)
    assert await bench.check() == []
    assert bench.bodies() == []


def test_commit_with_a_delay_waits_in_its_level(start: Start) -> None:
    bench = start("messageDelayLevel=1s")
    bench.end(bench.send_half(b"later", DELAY="1"))
    assert bench.bodies() == []
    (waiting,) = bench.stored("SCHEDULE_TOPIC_XXXX")
    assert (waiting.body, waiting.properties["REAL_TOPIC"]) == (b"later", "T")


@pytest.mark.parametrize(
    ("fields", "remark"),
    [
        ({"producer_group": "Other"}, "The producer group wrong"),
        ({"tran_state_table_offset": 1}, "The transaction state table offset wrong"),
        ({"commit_log_offset": -1}, "Find prepared transaction message failed"),
        ({"commit_log_offset": 1 << 40}, "Find prepared transaction message failed"),
    ],
)
def test_end_that_fits_no_half_message_is_refused(start: Start, fields: dict[str, object], remark: str) -> None:
    bench = start()
    half = bench.send_half()
    for decision in (8, ROLLBACK):
        with pytest.raises(Refused, match=remark) as refused:
            bench.end(half, decision, **fields)
        assert refused.value.code == ResponseCode.SYSTEM_ERROR
    assert bench.bodies() == []


def test_message_of_no_transaction_ends_none(start: Start) -> None:
    """A message that a transaction delivered also has its producer group."""
    bench = start()
    bench.end(bench.send_half())
    (message,) = bench.stored("T")
    with pytest.raises(Refused, match="Find prepared transaction message failed"):
        bench.end(bench.send_half(), commit_log_offset=message.log_offset, tran_state_table_offset=0)


# --- checks ----------------------------------------------------------------------------------------------------------


async def test_open_transaction_is_asked_about_by_a_copy(start: Start) -> None:
    bench = start()
    bench.send_half(b"one")
    assert await bench.check(TIMEOUT_MS) == [], "not before the time is over"
    (asked,) = await bench.check(1)
    copy = bench.half_messages[1]
    assert copy.properties == bench.half_messages[0].properties | {"TRANSACTION_CHECK_TIMES": "1"}
    assert (copy.flag, copy.born_timestamp_ms) == (7, bench.half_messages[0].born_timestamp_ms)
    header = asked.header
    assert (header.topic, header.broker_name) == (TRANSACTION_HALF_TOPIC, bench.parts.config.broker_name)
    assert (header.tran_state_table_offset, header.commit_log_offset) == (1, copy.log_offset)
    assert header.msg_id == header.transaction_id == "KEY-6f6e65"
    assert header.offset_msg_id == offset_id(copy.store_host, copy.log_offset)
    message = asked.message
    assert (message.topic, message.queue_id, message.body, message.queue_offset) == ("T", 0, b"one", 1)
    bench.end(asked)
    assert bench.bodies() == [b"one"]
    assert await bench.check() == []


async def test_each_round_asks_until_the_message_is_given_up(start: Start) -> None:
    bench = start("transactionCheckMax=3")
    bench.send_half(b"one")
    for times in (1, 2, 3):
        (asked,) = await bench.check()
        assert asked.message.properties["TRANSACTION_CHECK_TIMES"] == str(times)
    assert await bench.check() == []
    (given_up,) = bench.stored(TRANSACTION_CHECK_MAX_TIME_TOPIC)
    assert (given_up.body, given_up.sys_flag) == (b"one", 0)
    assert given_up.properties == bench.half_messages[-1].properties
    topic = bench.parts.topics.get(TRANSACTION_CHECK_MAX_TIME_TOPIC)
    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (1, 1, 6)
    assert await bench.check() == []
    assert len(bench.stored(TRANSACTION_CHECK_MAX_TIME_TOPIC)) == 1


async def test_message_that_cannot_be_given_up_holds_up_no_other(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any client can fill the table of topics by naming them. That used to end the broker."""
    bench = start("transactionCheckMax=1")
    monkeypatch.setattr(config_table, "ENTRIES_MAX", len(bench.parts.topics.all()))
    bench.send_half(b"one")
    assert len(await bench.check()) == 1
    bench.send_half(b"two")
    assert [asked.message.body for asked in await bench.check()] == [b"two"]
    monkeypatch.undo()
    assert await bench.check() == []
    assert bench.bodies(TRANSACTION_CHECK_MAX_TIME_TOPIC) == [b"one", b"two"]


async def test_what_the_log_has_lost_holds_up_no_check(start: Start) -> None:
    """Damage of one commit log file, which cost it its rest. The checks used to stay before that for ever, and passed
    over some messages behind it."""
    bench = start()
    for number in range(70):
        half = bench.send_half(b"%d;" % number + b"x" * 900)
    bench.end(half)
    bench.close()
    shutil.rmtree(bench.directory / "consumequeue" / TRANSACTION_HALF_TOPIC)
    log = bench.directory / "commitlog" / ("0" * 20)
    with log.open("r+b") as opened:
        opened.seek(log.read_bytes().index(b"10;xx"))
        opened.write(b"?")
    bench = bench.started_again()
    first_kept = bench.store.get(TRANSACTION_HALF_TOPIC, 0, 10, 1).next_offset - 1
    assert first_kept > 10
    asked = await bench.check()
    assert [int(each.message.body.partition(b";")[0]) for each in asked] == [*range(10), *range(first_kept, 69)]
    for each in asked:
        bench.end(each)
    assert await bench.check() == []
    (queue,) = bench.transactions.state.queues()
    assert queue.half_offset == bench.store.max_offset(TRANSACTION_HALF_TOPIC, 0)


async def test_message_older_than_the_log_keeps_is_given_up(start: Start) -> None:
    bench = start("fileReservedTime=1")
    bench.send_half()
    assert await bench.check(3_600_001) == []
    assert len(bench.stored(TRANSACTION_CHECK_MAX_TIME_TOPIC)) == 1


async def test_another_producer_of_the_group_is_asked_when_the_first_is_gone(start: Start) -> None:
    bench = start()
    bench.send_half()
    bench.add_producer()
    first, second = bench.producers
    bench.remove_producer(first)
    (asked,) = await bench.check()
    assert second.asked == [asked]
    bench.remove_producer(second)
    assert await bench.check() == [], "nobody is there; it counts all the same, as with Apache's broker"
    assert bench.half_messages[-1].properties["TRANSACTION_CHECK_TIMES"] == "2"


async def test_log_says_once_a_round_and_group_that_nobody_is_there(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    """It used to have a line for each message."""
    bench = start()
    bench.remove_producer(bench.producers[0])
    for group in ("Gone", "Gone", "Other"):
        bench.send_half(PGROUP=group)
    for _ in range(2):
        caplog.clear()
        await bench.check()
        assert caplog.messages == [
            "event=no-producer-to-ask group=Gone messages=2", "event=no-producer-to-ask group=Other messages=1"
        ]  # fmt: skip


async def test_young_message_holds_up_those_behind_it_alone(start: Start) -> None:
    bench = start()
    bench.send_half(b"old")
    bench.clock.now_ms += TIMEOUT_MS
    bench.send_half(b"young")
    assert [asked.message.body for asked in await bench.check(1)] == [b"old"]
    assert [asked.message.body for asked in await bench.check(TIMEOUT_MS)] == [b"young", b"old"]


async def test_immunity_is_no_check_and_ends(start: Start) -> None:
    """Apache's broker counts each of these looks, and gives the message up before it has asked about it."""
    bench = start("transactionCheckMax=2")
    bench.send_half(b"one", CHECK_IMMUNITY_TIME_IN_SECONDS="60")
    for _ in range(5):
        assert await bench.check(10_000) == []
    assert bench.half_messages[-1].properties["TRAN_PREPARED_QUEUE_OFFSET"] == "0"
    assert props.TRANSACTION_CHECK_TIMES not in bench.half_messages[-1].properties
    (asked,) = await bench.check(10_001)
    bench.end(asked)
    assert bench.bodies() == [b"one"]


@pytest.mark.parametrize("text", ["-1", "soon", "9" * 5000])
async def test_immunity_that_is_no_number_is_the_brokers_timeout(start: Start, text: str) -> None:
    bench = start()
    bench.send_half(b"one", CHECK_IMMUNITY_TIME_IN_SECONDS=text)
    assert await bench.check(TIMEOUT_MS) == []
    assert len(await bench.check(1)) == 1


async def test_end_by_the_first_half_message_reaches_its_immune_copies(start: Start) -> None:
    bench = start()
    half = bench.send_half(b"one", CHECK_IMMUNITY_TIME_IN_SECONDS="60")
    await bench.check(10_000)
    bench.end(half)
    assert await bench.check(60_000) == []
    assert bench.bodies() == [b"one"]


def test_end_after_immunity_is_refused_unless_it_answers_a_check(start: Start) -> None:
    bench = start()
    half = bench.send_half(CHECK_IMMUNITY_TIME_IN_SECONDS="10")
    bench.clock.now_ms += 10_001
    for decision in (8, ROLLBACK):
        with pytest.raises(Refused) as refused:
            bench.end(half, decision)
        assert refused.value.code == ResponseCode.ILLEGAL_OPERATION
    bench.end(half, from_transaction_check=True)
    assert len(bench.bodies()) == 1


async def test_every_copy_is_committed_and_the_message_is_delivered_once(start: Start) -> None:
    """The local transaction took so long that the broker asked twice. All three answers are the same."""
    bench = start()
    half = bench.send_half(b"one")
    first = (await bench.check())[0]
    second = (await bench.check())[0]
    for one in (second, half, first):
        bench.end(one)
    assert bench.bodies() == [b"one"]
    assert await bench.check() == []


async def test_rollback_of_the_first_half_message_ends_the_copies(start: Start) -> None:
    bench = start()
    half = bench.send_half()
    await bench.check()
    bench.end(half, ROLLBACK)
    assert await bench.check() == []


@pytest.mark.parametrize("decision", [COMMIT, ROLLBACK])
def test_what_has_ended_is_over_however_late_it_is_ended_again(start: Start, decision: int) -> None:
    bench = start()
    half = bench.send_half()
    assert not bench.is_over(half)
    bench.end(half, decision)
    bench.clock.now_ms += 10 * TIMEOUT_MS
    assert (bench.is_over(half), bench.is_over(half, ROLLBACK)) == (True, True)


@pytest.mark.parametrize(("decision", "other"), [(COMMIT, ROLLBACK), (ROLLBACK, COMMIT)])
async def test_who_answered_a_check_may_say_the_same_by_the_first_half_message(
    start: Start, decision: int, other: int
) -> None:
    bench = start()
    half = bench.send_half(b"one")
    (asked,) = await bench.check()
    assert (bench.is_over(half, decision), bench.is_over(half, other)) == (False, False)
    bench.end(asked, decision)
    assert (bench.is_over(half, decision), bench.is_over(half, other)) == (False, True)
    bench.end(half, decision)
    assert bench.bodies() == ([b"one"] if decision == COMMIT else [])


async def test_clock_that_was_put_back_holds_up_no_check(start: Start) -> None:
    bench = start()
    bench.send_half()
    assert len(await bench.check(-3_600_000)) == 0, "stored after the round began"
    bench.send_half(b"by the new clock")
    assert await bench.check(3_600_000 + TIMEOUT_MS + 1) != []


async def test_with_sync_flush_nobody_is_asked_before_the_copy_is_safe(start: Start) -> None:
    bench = start(flush_mode=FlushMode.SYNC)
    bench.send_half()
    bench.flush()
    bench.clock.now_ms += TIMEOUT_MS + 1
    await bench.transactions.check()
    assert bench.asked == []
    bench.flush()
    (asked,) = bench.asked
    bench.end(asked)
    bench.flush()
    assert len(bench.bodies()) == 1


def test_resumed_message_is_asked_about_from_the_start(start: Start) -> None:
    bench = start()
    half = bench.send_half(b"one", TRANSACTION_CHECK_TIMES="15")
    ends = bench.parts.transaction_ends
    ends.resume(ends.record(half.log_offset))
    bench.parts.pending.end_round()
    assert [m.properties["TRANSACTION_CHECK_TIMES"] for m in bench.half_messages] == ["15", "0"]
    with pytest.raises(Refused, match="Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed"):
        ends.resume(ends.record(1 << 40))


# --- op messages and progress ----------------------------------------------------------------------------------------


def test_op_messages_gather_what_has_ended(start: Start) -> None:
    bench = start()
    halves = [bench.send_half(b"%d" % n) for n in range(3)]
    for half in halves:
        bench.end(half)
    assert bench.stored(TRANSACTION_OP_TOPIC) == []
    bench.write_op_messages()
    (op,) = bench.stored(TRANSACTION_OP_TOPIC)
    assert (op.body, op.properties, op.queue_id) == (b"0,1,2,", {"TAGS": "d", "WAIT": "true"}, 0)
    bench.write_op_messages()
    assert len(bench.stored(TRANSACTION_OP_TOPIC)) == 1


def test_full_op_message_is_written_at_once(start: Start) -> None:
    bench = start("transactionOpMsgMaxSize=5")
    for n in range(4):
        bench.end(bench.send_half(b"%d" % n))
    assert [op.body for op in bench.stored(TRANSACTION_OP_TOPIC)] == [b"0,1,2,"]


async def test_progress_is_that_of_apaches_group(start: Start) -> None:
    bench = start()
    for n in range(3):
        bench.end(bench.send_half(b"%d" % n))
    bench.send_half(b"open")
    bench.write_op_messages()
    await bench.check(0)
    bench.save()
    committed = bench.parts.offsets.committed
    assert committed(TRANSACTION_GROUP, TRANSACTION_HALF_TOPIC, 0) == 3
    assert committed(TRANSACTION_GROUP, TRANSACTION_OP_TOPIC, 0) == 1


def test_progress_is_not_ahead_of_the_device(start: Start) -> None:
    bench = start()
    bench.end(bench.send_half())
    for _ in range(3):
        bench.transactions.state.save_when_kept()
    assert bench.parts.offsets.committed(TRANSACTION_GROUP, TRANSACTION_HALF_TOPIC, 0) is None
    bench.save()
    assert bench.parts.offsets.committed(TRANSACTION_GROUP, TRANSACTION_HALF_TOPIC, 0) == 1


@pytest.mark.parametrize("how", ["restarted", "killed"])
async def test_open_transactions_are_asked_about_after_a_start(start: Start, how: str) -> None:
    bench = start()
    bench.end(bench.send_half(b"committed"))
    bench.end(bench.send_half(b"rolled back"), ROLLBACK)
    bench.send_half(b"open")
    bench.write_op_messages()
    bench = getattr(bench, how)()
    (asked,) = await bench.check()
    assert asked.message.body == b"open"
    bench.end(asked)
    assert bench.bodies() == [b"committed", b"open"]
    bench.close()


async def test_commit_whose_op_message_a_kill_took_is_not_asked_about(start: Start) -> None:
    bench = start("messageDelayLevel=1s")
    bench.end(bench.send_half(b"at once"))
    bench.end(bench.send_half(b"later", DELAY="1"))
    bench = bench.killed()
    assert bench.stored(TRANSACTION_OP_TOPIC) == []
    assert await bench.check() == []
    bench.write_op_messages()
    assert [op.body for op in bench.stored(TRANSACTION_OP_TOPIC)] == [b"0,1,"]
    bench.close()


async def test_copy_whose_progress_a_kill_took_is_asked_about_alone(start: Start) -> None:
    bench = start()
    bench.send_half(b"one")
    await bench.check()
    bench = bench.killed()
    (asked,) = await bench.check()
    assert asked.message.properties["TRANSACTION_CHECK_TIMES"] == "2"
    bench.end(asked)
    assert bench.bodies() == [b"one"]
    bench.close()


def test_metrics_count_open_transactions_in_apaches_form(start: Start) -> None:
    bench = start()
    metrics = bench.parts.transaction_metrics
    metrics.add("T", 1)
    metrics.add("T", 1)
    bench.end(bench.send_half())
    assert metrics.count("T") == 1
    metrics.save()
    bench.files.wait_until_saved()
    now = bench.clock.now_ms
    assert (bench.directory / "config/transactionMetrics").read_text() == (
        f'{{"dataVersion":{{"counter":3,"stateVersion":0,"timestamp":{now}}},'
        f'"transactionCount":{{"T":{{"count":1,"timeStamp":{now}}}}}}}'
    )
