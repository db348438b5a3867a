from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.headers.consuming import PullHeader
from rmqproto.headers.sending import SendHeaderV2
from rmqserver.limits import BURST_S, NAMES_MAX, RATE_MAX, Meter, NamedRates, RateGate, has_rates, parse_rates
from rmqserver.operation import Refused
from rmqserver.remoting.answer import Request
from tests.support.quick import in_one_test

NONE = NamedRates()


@dataclass
class Limits:
    max_send_rate_per_topic: NamedRates = NONE
    max_pull_rate_per_topic: NamedRates = NONE
    max_request_rate_per_user: NamedRates = NONE


class Caller:
    """What the gate needs of a connection."""

    address = "127.0.0.1:5"
    rests = 0

    def rest(self) -> None:
        self.rests += 1


def send(topic: str) -> Request[Any]:
    header = SendHeaderV2(producer_group="p", topic=topic, queue_id=0, born_timestamp=1)
    return Request(code=RequestCode.SEND_MESSAGE_V2, opaque=1, header=header)


def pull(topic: str) -> Request[Any]:
    header = PullHeader(
        consumer_group="g", topic=topic, queue_id=0, queue_offset=0, max_msg_nums=1, sys_flag=0,
        suspend_timeout_millis=0, subscription="*",
    )  # fmt: skip
    return Request(code=RequestCode.PULL_MESSAGE, opaque=1, header=header)


def answers(gate: RateGate, *requests: Request[Any], user: str | None = None) -> list[int]:
    """The code of each answer; 0 for a request that passes."""
    caller, codes = Caller(), []
    for request in requests:
        try:
            assert gate.admit(request, {} if user is None else {"AccessKey": user}, caller) is None  # type: ignore[arg-type]
            codes.append(0)
        except Refused as refused:
            codes.append(refused.code)
    assert caller.rests == len(codes) - codes.count(0)
    return codes


BUSY, FLOW = ResponseCode.SYSTEM_BUSY, ResponseCode.FLOW_CONTROL


def test_each_topic_has_its_rate_and_sends_are_not_pulls() -> None:
    limits = Limits(max_send_rate_per_topic=NamedRates(2, {"Mail": 1, "Log": 0}), max_pull_rate_per_topic=NamedRates(1))
    gate = RateGate(limits, clock_s=lambda: 1.0)
    assert answers(gate, *[send("Mail")] * 2) == [0, BUSY]
    assert answers(gate, *[send("Other")] * 3) == [0, 0, BUSY]
    assert answers(gate, *[send("Log")] * 9) == [0] * 9
    assert answers(gate, *[pull("Mail")] * 2) == [0, FLOW]


def test_the_broker_s_own_topics_have_no_rate_unless_they_are_named() -> None:
    limits = Limits(max_send_rate_per_topic=NamedRates(1, {"%RETRY%named": 1}))
    gate = RateGate(limits, clock_s=lambda: 1.0)
    assert answers(gate, *[send("%RETRY%g")] * 3, *[send("RMQ_SYS_TRACE_TOPIC")] * 3) == [0] * 6
    assert answers(gate, *[send("%RETRY%named")] * 2) == [0, BUSY]


def test_each_user_has_its_rate_whatever_it_asks() -> None:
    limits = Limits(max_request_rate_per_user=NamedRates(2))
    gate = RateGate(limits, frozenset({105}), clock_s=lambda: 1.0)
    other: Request[Any] = Request(code=28, opaque=1, header=None)
    assert answers(gate, send("A"), other, send("B"), pull("A"), other, user="alice") == [0, 0, BUSY, FLOW, BUSY]
    assert answers(gate, send("A"), user="bob") == [0]
    open_to_all: Request[Any] = Request(code=105, opaque=1, header=None)
    assert answers(gate, *[open_to_all] * 5, user="carol") == [0] * 5
    assert answers(gate, *[other] * 5) == [0] * 5


def test_the_ext_fields_are_wanted_for_users_alone() -> None:
    limits = Limits(max_send_rate_per_topic=NamedRates(1))
    gate = RateGate(limits)
    assert has_rates(limits)
    assert not gate.wants_ext
    limits.max_send_rate_per_topic, limits.max_request_rate_per_user = NamedRates(), NamedRates(0, {"a": 1})
    assert has_rates(limits)
    assert gate.wants_ext
    assert not has_rates(Limits())


def test_a_refusal_begins_as_apache_s_and_names_the_setting() -> None:
    gate = RateGate(Limits(max_send_rate_per_topic=NamedRates(1)), clock_s=lambda: 1.0)
    answers(gate, send("A"))
    with pytest.raises(Refused) as caught:
        gate.admit(send("A"), {}, Caller())  # type: ignore[arg-type]
    assert caught.value.remark == (
        "[REJECTREQUEST]system busy, start flow control for a while: topic A has had its 1 requests of this second "
        "(maxSendRatePerTopic)"
    )


@in_one_test(
    ("", NamedRates()),
    ("0", NamedRates()),
    ("1000", NamedRates(1000)),
    ("orders=50", NamedRates(0, {"orders": 50})),
    (" 7 ; orders = 50;%RETRY%g=0;", NamedRates(7, {"orders": 50, "%RETRY%g": 0})),
    ("a=b=3", NamedRates(0, {"a=b": 3})),
)
def test_rates_as_they_are_written(text: str, rates: NamedRates) -> None:
    assert parse_rates(text) == rates


@in_one_test("many", "-1", "1.5", "=5", "orders=", "orders", f"{RATE_MAX + 1}", "٣", "1;a=x")
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="NAME=50"):
        parse_rates(text)


def test_no_rate_but_zeros_is_none() -> None:
    assert not parse_rates("0;a=0").is_any
    assert parse_rates("0;a=1").is_any
    assert parse_rates("1").is_any


class Clock:
    now_s = 5.0

    def __call__(self) -> float:
        return self.now_s


def test_a_burst_of_one_second_then_the_rate() -> None:
    clock = Clock()
    meter = Meter(clock)
    assert [meter.takes("a", 3) for _ in range(5)] == [True] * 3 + [False] * 2
    assert meter.takes("b", 3)  # each name has its own
    clock.now_s += 1 / 3
    assert [meter.takes("a", 3) for _ in range(2)] == [True, False]
    clock.now_s += 100
    assert [meter.takes("a", 3) for _ in range(5)] == [True] * 3 + [False] * 2


@given(rate=st.integers(1, 50), pauses_s=st.lists(st.floats(0, 0.5), min_size=1, max_size=200))
def test_never_more_than_the_rate_and_one_burst(rate: int, pauses_s: list[float]) -> None:
    clock = Clock()
    meter = Meter(clock)
    taken_s = []
    for pause_s in pauses_s:
        clock.now_s += pause_s
        if meter.takes("a", rate):
            taken_s.append(clock.now_s)
    assert taken_s
    for start, from_s in enumerate(taken_s):
        for end in range(start, len(taken_s)):
            assert end - start + 1 <= rate * (taken_s[end] - from_s + BURST_S) + 1e-3


def test_names_without_end_take_no_memory_without_end() -> None:
    meter = Meter(Clock())
    assert all(meter.takes(str(number), 1) for number in range(NAMES_MAX + 50))
    assert len(meter._used_until_s) == NAMES_MAX
    assert not meter.takes(str(NAMES_MAX), 1)
