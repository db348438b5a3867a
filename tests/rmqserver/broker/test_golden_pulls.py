"""Plays every recorded pull of Apache's broker against ours, except those of a compacted topic. For each, the test
makes the state that the answer assumes: a topic with that many messages in the queue, and the group online with the
subscription that the request assumes.

Pulls are not held (``longPollingEnable=false``): the recorded ones waited in vain until they were answered.
"""

import pytest

from rmqproto.bodies.groups import SubscriptionData
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.filters.subscription import SQL92
from rmqproto.headers.base import from_ext
from rmqproto.headers.consuming import PULL_SUBSCRIPTION, PullHeader
from rmqproto.headers.tables import TopicConfigHeader
from rmqproto.message.record import decode_records_untrusted
from rmqproto.wire.command import Command, decode_frame_untrusted
from tests.rmqserver.broker.golden_play import compare
from tests.rmqserver.broker.golden_state import consume, create_group, ok, send, subscription
from tests.support import servers
from tests.support.golden import Exchange, exchanges, said
from tests.support.wire import Wire

SETTINGS = ("enablePropertyFilter=true", "longPollingEnable=false", "shortPollingTimeMills=1")
UNKNOWN = "NoSuchTopic"


def header_of(one: Exchange) -> PullHeader:
    return from_ext(decode_frame_untrusted(one.request).ext, PullHeader)


def is_served(one: Exchange) -> bool:
    return header_of(one).topic != "CompactTopic"


def recorded() -> list[Exchange]:
    both = [*exchanges(RequestCode.PULL_MESSAGE), *exchanges(RequestCode.LITE_PULL_MESSAGE)]
    return [one for one in both if one.answer is not None and is_served(one)]


server = servers.of_module(*servers.sets(*SETTINGS))


def make_state(wire: Wire, header: PullHeader, answer: Command) -> None:
    """Makes the request's topic anew, and its group."""
    wire.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": header.topic})
    create_group(wire, header.consumer_group)
    if header.topic != UNKNOWN:
        queues = TopicConfigHeader(
            topic=header.topic, default_topic="TBW102", read_queue_nums=4, write_queue_nums=4,
            perm=2 if answer.code == ResponseCode.NO_PERMISSION else 6,
        )  # fmt: skip
        ok(wire.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, queues))
        for _ in range(int(answer.ext.get("maxOffset", "0"))):
            send(wire, header.topic, header.queue_id, {"TAGS": "TagA", "a": "6"})
    if not header.sys_flag & PULL_SUBSCRIPTION and answer.code != ResponseCode.SUBSCRIPTION_NOT_EXIST:
        wanted = subscription(header.topic, ["TagB"] if answer.remark == "NO_MATCHED_MESSAGE" else [])
        if header.expression_type == SQL92:
            wanted.expression_type, wanted.sub_string = SQL92, "a is not null and a > 5 or name = '三'"
        is_older = answer.code == ResponseCode.SUBSCRIPTION_NOT_LATEST
        consume(wire, header.consumer_group, _of_version(wanted, header.sub_version - is_older))


def _of_version(wanted: SubscriptionData, version: int) -> SubscriptionData:
    wanted.sub_version = version
    return wanted


@pytest.mark.parametrize("one", recorded(), ids=lambda one: one.name)
def test_pull(wire: Wire, one: Exchange) -> None:
    assert one.answer is not None
    header = header_of(one)
    make_state(wire, header, one.answer)
    wire.send(one.request)
    asked = decode_frame_untrusted(one.request).opaque
    while not (answer := wire.receive()).is_answer or answer.opaque != asked:  # the broker tells members of each other
        pass
    compare(one.name, said(answer), said(one.answer), "body")
    if answer.code == ResponseCode.SUCCESS:
        offsets = [message.queue_offset for message in decode_records_untrusted(answer.body)]
        assert offsets == list(range(header.queue_offset, int(answer.ext["nextBeginOffset"])))
