"""Apache's exchanges of POP, played against our broker, except those with binary headers, which have no room for the
codes (``test_golden_auth.py``).

The requests have the times and handles of their recording. So a pop is sent with the present time. An acknowledgement
comes too late, but is answered like any other.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqproto.codes import RequestCode
from rmqproto.headers.popping import NotificationHeader
from rmqproto.message.record import decode_records_untrusted
from rmqproto.wire.command import Command, decode_frame_untrusted, encode_frame
from tests.rmqserver.broker.golden_play import compare, play
from tests.rmqserver.broker.golden_state import consume, create_topic, fill, subscription
from tests.support import servers
from tests.support.golden import exchange, exchanges, said
from tests.support.wire import Wire

NO_CHANGE = {"popTime": "0", "invisibleTime": "0", "reviveQid": "0"}


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[Wire]:
    """A connection to a broker of its own, for pops, which take messages away from others."""
    with servers.standalone(tmp_path) as server, Wire(server.broker_addr) as connection:
        make_state(connection)
        yield connection


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    """A connection to a broker that several tests share, for requests that take nothing."""
    with servers.standalone(tmp_path_factory.mktemp("pops")) as server, Wire(server.broker_addr) as connection:
        make_state(connection)
        yield connection


def make_state(wire: Wire) -> None:
    """The recorded state: two queues with three messages each."""
    for topic, queues in (("PopTopic", 2), ("EmptyTopic", 3), ("OrderTopic", 4)):
        create_topic(wire, topic, queues)
    fill(wire, "PopTopic", (3, 3))


def pop(wire: Wire, name: str, *loose: str, poll_time: str | None = None) -> Command:
    """Plays a pop as if it were sent now. ``reviveQid`` is loose, because the broker takes its eight revive queues in
    turn."""
    golden = exchange(name)
    request = decode_frame_untrusted(golden.request)
    request.ext["bornTime"] = str(time.time_ns() // 1_000_000)
    if poll_time is not None:
        request.ext["pollTime"] = poll_time
    answer = wire.exchange(encode_frame(request))
    compare(name, said(answer), said(golden.answer), "popTime", "reviveQid", "body", *loose)
    return answer


def test_pops(wire: Wire) -> None:
    found = pop(wire, "200050-POP_MESSAGE/01")
    assert [(each.queue_id, each.queue_offset) for each in decode_records_untrusted(found.body)] == [
        (queue_id, offset) for queue_id in range(2) for offset in range(3)
    ]
    pop(wire, "200050-POP_MESSAGE/02", poll_time="100")
    pop(wire, "200050-POP_MESSAGE/05", poll_time="100")
    play(wire, "200050-POP_MESSAGE/06")


def test_a_pop_of_two_messages(wire: Wire) -> None:
    pop(wire, "200050-POP_MESSAGE/04")
    play(wire, "200052-PEEK_MESSAGE/01", "body")
    play(wire, "200052-PEEK_MESSAGE/02")


def test_a_pop_in_order(wire: Wire) -> None:
    fill(wire, "OrderTopic", (0, 16))
    pop(wire, "200050-POP_MESSAGE/07")


@pytest.mark.parametrize("number", ["01", "02", "03", "04"])
def test_acks(shared: Wire, number: str) -> None:
    play(shared, f"200051-ACK_MESSAGE/{number}")


def test_changes(shared: Wire) -> None:
    play(shared, "200053-CHANGE_MESSAGE_INVISIBLETIME/01", "popTime")
    play(shared, "200053-CHANGE_MESSAGE_INVISIBLETIME/02", "popTime")
    play(shared, "200151-BATCH_ACK_MESSAGE/01")


def test_looks(shared: Wire) -> None:
    play(shared, "200054-NOTIFICATION/01")
    play(shared, "200055-POLLING_INFO/01")
    play(shared, "200056-POP_ROLLBACK/01")
    play(shared, "200056-POP_ROLLBACK/03")


@pytest.mark.parametrize(
    ("code", "where", "ext"),
    [
        (RequestCode.NOTIFICATION, {"queueId": "9"}, {"hasMsg": "false", "pollingFull": "false"}),
        (RequestCode.NOTIFICATION, {"topic": "NoTopic"}, {"hasMsg": "false", "pollingFull": "false"}),
        (RequestCode.POLLING_INFO, {"topic": "NoTopic"}, {"pollingNum": "0"}),
        (RequestCode.CHANGE_MESSAGE_INVISIBLETIME, {"queueId": "-1"}, NO_CHANGE),
        (RequestCode.CHANGE_MESSAGE_INVISIBLETIME, {"topic": "NoTopic"}, NO_CHANGE),
    ],
)
def test_refusals_have_the_fields_of_an_answer(
    shared: Wire, code: int, where: dict[str, str], ext: dict[str, str]
) -> None:
    """As those of Apache's broker."""
    asked = {"consumerGroup": "PopGroup", "topic": "PopTopic", "queueId": "0", "pollTime": "0", "bornTime": "0"}
    change = {"extraInfo": "0 1 1 0 0 broker-a 0 0", "offset": "0", "invisibleTime": "1000"}
    answer = shared.ask(code, asked | change | where)
    assert answer.code != 0
    assert answer.ext == ext


@pytest.mark.parametrize(("kind", "expression"), [("SQL92", "n >"), ("NOPE", "x"), ("TAG", "||")])
def test_a_notification_whose_expression_does_not_compile_is_refused(shared: Wire, kind: str, expression: str) -> None:
    """In Apache's words. It used to be told of every message."""
    asked = NotificationHeader(
        consumer_group="PopGroup", topic="PopTopic", queue_id=-1, poll_time=0, born_time=0, exp_type=kind,
        exp=expression,
    )  # fmt: skip
    answer = shared.ask(RequestCode.NOTIFICATION, asked)
    assert (answer.code, answer.remark) == (23, "parse the consumer's subscription failed")
    assert answer.ext == {"hasMsg": "false", "pollingFull": "false"}


def test_modes_and_assignments(wire: Wire) -> None:
    create_topic(wire, "NormalTopic")
    for one in exchanges(RequestCode.SET_MESSAGE_REQUEST_MODE):
        play(wire, one.name)
    create_topic(wire, "%RETRY%PopGroup", 1)
    consume(wire, "PopGroup", subscription("PopTopic"))
    wire.receive()  # the broker tells the member of itself
    for one in exchanges(RequestCode.QUERY_ASSIGNMENT):
        play(wire, one.name)
