"""The rows beyond plain sends and pulls: transactions, timers, filters, POP. The bare loop supports none of them, so
they run on separate brokers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from bench.harness import table
from bench.harness.extent import Extent
from bench.harness.measure import SEED_MESSAGES, WARM_UP_S, Broker, Load, put_all, seed
from bench.harness.rows import PRODUCER_GROUP, SMALL, UNIQUE_KEY, Row, batch_of, pull, request, send
from bench.harness.servers import apache, ours
from bench.harness.table import Line
from rmqproto.bodies.popping import BatchAck, BatchAcks
from rmqproto.codes import RequestCode
from rmqproto.headers.base import NoFields
from rmqproto.headers.popping import INIT_FROM_MIN, PopHeader
from rmqproto.headers.sending import COMMIT, EndTransactionHeader
from rmqproto.message import properties as props
from rmqproto.message.sys_flag import TRANSACTION_PREPARED
from rmqproto.pop import NORMAL, bits_of
from rmqproto.wire import fastjson

OF_APACHE = 1.5

CONNECTION_DIGITS, NOW_DIGITS, LATER_DIGITS = "2000000000", "3000000000", "4000000000"
"""``load.c`` replaces these by a number of the connection, the current second, and a second about an hour later."""

FILTERED, POPPED = "compare_sql", "compare_pop"
WANTED = "amount BETWEEN 100 AND 200 AND region IN ('EU', 'US') AND note IS NULL"

POP_CONNECTIONS, POP_COUNT, INVISIBLE_MS = 8, 32, 60_000
POLL_MS = 15_000
"""The wait of Java's clients. ``load.c`` has whole seconds, so with a wait of one second a pop could already be too old
to be held, and Apache's broker sometimes holds one for an instant."""
POPS_PER_S_MAX = 2500
"""The most pops of one connection, for which there are enough messages. A connection that had popped everything would
get errors."""


def rows() -> list[Row]:
    return [
        Row("transaction 64 x 1, 128 B", 64, 1, half(), second=commit(), ratio_at_least=OF_APACHE),
        Row("timer put 64 x 1, 128 B", 64, 1, timer(), ratio_at_least=OF_APACHE),
        Row("pull 32 SQL92, 8 x 1, 128 B", 8, 1, pull(FILTERED, wants=("SQL92", WANTED)), 32,
            ratio_at_least=OF_APACHE),
        Row("pop 32 + ack, 8 x 1, 128 B", POP_CONNECTIONS, 1, pop(), POP_COUNT, second=ack(),
            ratio_at_least=OF_APACHE),
    ]  # fmt: skip


def take(load: Load, wanted: list[Row], extent: Extent) -> list[Line]:
    """Takes one row after the other, so that the work which a broker defers after a pop only disturbs later pops, not
    other rows."""
    with ExitStack() as stack:
        brokers = [stack.enter_context(apache())] if extent.with_apache else []
        brokers.append(stack.enter_context(ours()))
        for broker in brokers:
            seed(broker)
            fill(broker, extent.seconds)
        base = brokers[0].name
        return [
            line for row in wanted for line in table.take(load, brokers, [row], extent.rounds, extent.seconds, base)
        ]


def fill(broker: Broker, seconds: float) -> None:
    """Sends the messages that the rows read, beyond the seed; enough for ``seconds`` of each."""
    put_all(broker, filtered_messages())
    put_all(broker, popped_messages(seconds))


# --- transactions: a half message, and its commit. The commit is not oneway here, so that its arrival is known


def half() -> bytes:
    """A half message born now: brokers may examine one more closely if it is old enough for a check-back."""
    more = {props.TRAN_MSG: "true", props.PRODUCER_GROUP: PRODUCER_GROUP}
    return send(SMALL, b"x" * 128, sys_flag=TRANSACTION_PREPARED, more=more, ext={"g": f"{NOW_DIGITS}000"})


def commit() -> bytes:
    header = EndTransactionHeader(
        topic=SMALL,
        producer_group=PRODUCER_GROUP,
        tran_state_table_offset=0,
        commit_log_offset=0,
        commit_or_rollback=COMMIT,
        msg_id=UNIQUE_KEY,
        transaction_id=UNIQUE_KEY,
    )
    ext = {"tranStateTableOffset": "<queueOffset>", "commitLogOffset": "<msgId>"}
    return request(RequestCode.END_TRANSACTION, header, ext=ext)


# --- timers, due in about an hour


def timer() -> bytes:
    return send(SMALL, b"x" * 128, more={props.TIMER_DELIVER_MS: f"{LATER_DIGITS}000"})


# --- pulls by SQL92: every second message is wanted


def filtered_messages() -> Iterator[bytes]:
    for number in range(2 * SEED_MESSAGES):
        more = {"amount": "150" if number % 2 else "50", "region": "EU"}
        yield send(FILTERED, b"x" * 128, more=more)


# --- POP: each connection has its own group, so that it finds no queue locked and gets all messages


def popped_messages(seconds: float) -> Iterator[bytes]:
    frame = send(POPPED, batch_of(POP_COUNT, 128), batch=True)
    for _ in range(round(POPS_PER_S_MAX * (WARM_UP_S + seconds))):
        yield frame


def pop() -> bytes:
    header = PopHeader(
        consumer_group=f"CID_{CONNECTION_DIGITS}",
        topic=POPPED,
        queue_id=0,
        max_msg_nums=POP_COUNT,
        invisible_time=INVISIBLE_MS,
        poll_time=POLL_MS,
        init_mode=INIT_FROM_MIN,
        exp_type="TAG",
        exp="*",
        order=False,
    )
    return request(RequestCode.POP_MESSAGE, header, ext={"bornTime": f"{NOW_DIGITS}000"})


def ack() -> bytes:
    """An acknowledgement of all messages of a pop in one request."""
    from_answer = {-1: b"<popTime>", -2: b"<reviveQid>", -3: b"<startOffsetInfo>"}
    pop_time, revive_queue_id, start_offset = from_answer
    one = BatchAck(
        bits=bits_of(range(POP_COUNT)),
        consumer_group=f"CID_{CONNECTION_DIGITS}",
        invisible_time=INVISIBLE_MS,
        pop_time=pop_time,
        queue_id=0,
        retry=NORMAL,
        revive_queue_id=revive_queue_id,
        start_offset=start_offset,
        topic=POPPED,
    )
    body = fastjson.dumps(BatchAcks(acks=[one], broker_name="broker-a"))
    for stand_in, name in from_answer.items():
        body = body.replace(b":%d" % stand_in, b":" + name)
    return request(RequestCode.BATCH_ACK_MESSAGE, NoFields(), body)
