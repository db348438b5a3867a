"""Pops and notifications that wait: which of them a message wakes, and how many may wait, as observed with Apache's
5.5.0."""

import time
from collections.abc import Callable, Iterator

import pytest

from rmqproto.codes import RequestCode as R
from rmqproto.codes import ResponseCode
from rmqproto.headers.base import to_ext
from rmqproto.headers.popping import NotificationHeader, PopHeader
from rmqproto.wire.command import Command, encode_frame
from tests.rmqserver.broker.golden_state import configured, create_topic, send
from tests.support import servers
from tests.support.servers import Fresh, Server
from tests.support.wire import Wire

LONG_MS = 15_000
BARRIER = 99
Connect = Callable[[], Wire]


server = servers.of_module()


@pytest.fixture
def connect(server: Server) -> Iterator[Connect]:
    """Opens connections for clients that wait."""
    made: list[Wire] = []

    def one() -> Wire:
        made.append(Wire(server.broker_addr))
        return made[-1]

    yield one
    for each in made:
        each.close()


@pytest.fixture
def topic(wire: Wire, fresh: Fresh) -> str:
    name = fresh("Waited")
    create_topic(wire, name, 2)
    return name


def notification(topic: str, queue_id: int = -1, expression: str = "*", poll_ms: int = LONG_MS) -> Command:
    header = NotificationHeader(
        consumer_group="G", topic=topic, queue_id=queue_id, poll_time=poll_ms, born_time=time.time_ns() // 1_000_000,
        exp_type="TAG", exp=expression,
    )  # fmt: skip
    return Command(code=R.NOTIFICATION, opaque=1, ext=to_ext(header))


def pop(topic: str, group: str = "G") -> Command:
    header = PopHeader(
        consumer_group=group, topic=topic, queue_id=-1, max_msg_nums=1, invisible_time=60_000, poll_time=LONG_MS,
        born_time=time.time_ns() // 1_000_000, init_mode=0, exp_type="TAG", exp="*",
    )  # fmt: skip
    return Command(code=R.POP_MESSAGE, opaque=1, ext=to_ext(header))


def start(wire: Wire, request: Command) -> None:
    """Sends the request, and after it one that is answered at once."""
    wire.send(encode_frame(request))
    ask_behind(wire)


def ask_behind(wire: Wire) -> None:
    behind = {"topic": "TBW102", "queueId": "0"}
    wire.send(encode_frame(Command(code=R.GET_MAX_OFFSET, opaque=BARRIER, ext=behind)))


def waits(wire: Wire) -> bool:
    """Whether the request that was started is still unanswered; sends another one that is answered at once."""
    answer = wire.receive()
    if answer.opaque != BARRIER:
        assert wire.receive().opaque == BARRIER
        return False
    ask_behind(wire)
    return True


def started(wire: Wire, request: Command) -> bool:
    """Starts a request; returns whether it waits."""
    start(wire, request)
    return waits(wire)


def answer_of(wire: Wire) -> Command:
    """The answer to the request that waited."""
    answer = wire.receive()
    while answer.opaque == BARRIER:
        answer = wire.receive()
    return answer


def has_message(wire: Wire) -> bool:
    answer = answer_of(wire)
    assert (answer.code, answer.ext["pollingFull"]) == (0, "false")
    return answer.ext["hasMsg"] == "true"


# --- whom a message wakes --------------------------------------------------------------------------------------------


def test_a_message_wakes_the_last_notification_for_its_queue_and_for_any(
    wire: Wire, connect: Connect, topic: str
) -> None:
    first, last, of_queue, of_other_queue = (connect() for _ in range(4))
    for each in (first, last):
        assert started(each, notification(topic))
    assert started(of_queue, notification(topic, 0))
    assert started(of_other_queue, notification(topic, 1))
    send(wire, topic, 0)
    assert has_message(last)
    assert has_message(of_queue)
    assert waits(first)
    send(wire, topic, 0)
    assert has_message(first)
    assert waits(of_other_queue)


def test_a_notification_is_of_what_is_wanted(wire: Wire, connect: Connect, topic: str) -> None:
    before, behind, at_once = (connect() for _ in range(3))
    assert started(before, notification(topic, expression="B"))
    send(wire, topic, 0, {"TAGS": "A"})
    assert waits(before)
    assert started(behind, notification(topic, expression="B"))
    start(at_once, notification(topic, expression="B", poll_ms=0))
    assert not has_message(at_once)
    send(wire, topic, 1, {"TAGS": "B"})
    assert has_message(behind)


def test_a_notification_is_of_anything_where_the_setting_says_so(wire: Wire, connect: Connect, topic: str) -> None:
    before, behind = connect(), connect()
    with configured(wire, useMessageFilterForNotification="false"):
        assert started(before, notification(topic, expression="B"))
        send(wire, topic, 0, {"TAGS": "A"})
        assert has_message(before)
        start(behind, notification(topic, expression="B"))
        assert has_message(behind)


def test_who_is_gone_is_passed_over(wire: Wire, connect: Connect, topic: str) -> None:
    there, gone = connect(), connect()
    for each in (there, gone):
        assert started(each, notification(topic))
    gone.close()
    servers.until(lambda: (send(wire, topic, 0), not waits(there))[1])


# --- how many may wait -----------------------------------------------------------------------------------------------


@pytest.fixture
def limited(start_standalone: Callable[..., Server]) -> Iterator[Callable[[str], list[Wire]]]:
    """Starts a broker with a setting and topic T; returns connections to it."""
    made: list[Wire] = []

    def start_with(setting: str) -> list[Wire]:
        server = start_standalone("--set", setting)
        made.extend(Wire(server.broker_addr) for _ in range(8))
        create_topic(made[0], "T", 2)
        return list(made)

    yield start_with
    for each in made:
        each.close()


Limited = Callable[[str], list[Wire]]


def test_so_many_pops_wait_for_the_same(limited: Limited) -> None:
    *wires, full, other = limited("popPollingSize=1")
    assert [started(wire, pop("T")) for wire in wires[:3]] == [True, True, False]
    full.send(encode_frame(pop("T")))
    answer = full.receive()
    assert (answer.code, answer.remark) == (ResponseCode.POLLING_FULL, "NO_MESSAGE_IN_QUEUE")
    assert started(other, pop("T", "OtherGroup"))


@pytest.mark.parametrize("limit", ["maxPopPollingSize", "popPollingMapSize"])
def test_so_many_pops_wait_in_all_and_as_many_notifications(limited: Limited, limit: str) -> None:
    wires = limited(f"{limit}=2")
    assert [started(wires.pop(), pop("T", f"G{number}")) for number in range(3)] == [True, True, False]
    assert [started(wires.pop(), notification("T", queue_id)) for queue_id in (-1, 0)] == [True, True]
    full = wires.pop()
    full.send(encode_frame(notification("T", 1)))
    assert full.receive().ext == {"hasMsg": "false", "pollingFull": "true"}
    assert started(wires.pop(), pop("T", "G0")) == (limit == "popPollingMapSize")


def test_a_place_is_free_again_when_its_pop_is_answered(limited: Limited) -> None:
    admin, first, second, third, *_ = limited("maxPopPollingSize=1")
    assert started(first, pop("T"))
    assert not started(second, pop("T"))
    send(admin, "T", 0)
    assert answer_of(first).code == ResponseCode.SUCCESS
    assert started(third, pop("T"))
