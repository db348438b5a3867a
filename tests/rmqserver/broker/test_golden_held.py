"""Requests that Apache's broker held until their client was gone, so they were never answered: our broker holds them,
too."""

import time

import pytest

from rmqproto.codes import RequestCode as R
from rmqproto.wire.command import Command, decode_frame_untrusted, encode_frame
from tests.rmqserver.broker.golden_state import consume, create_topic, fill, ok, subscription
from tests.support import servers
from tests.support.golden import exchange
from tests.support.servers import Server
from tests.support.wire import Wire

HELD = [
    *(f"11-PULL_MESSAGE/{number}" for number in (16, 17, 47, 48, 49)),
    "361-LITE_PULL_MESSAGE/05",
    "361-LITE_PULL_MESSAGE/11",
    "200050-POP_MESSAGE/03",
]
BARRIER = 77


server = servers.of_module()


@pytest.mark.parametrize("name", HELD)
def test_held(server: Server, name: str) -> None:
    """The consumer has read the whole queue, and one more message wakes its request."""
    request = decode_frame_untrusted(exchange(name).request)
    if "bornTime" in request.ext:
        request.ext["bornTime"] = str(time.time_ns() // 1_000_000)
    group, topic = request.ext["consumerGroup"], request.ext["topic"]
    queue_id = max(int(request.ext["queueId"]), 0)
    with Wire(server.broker_addr) as wire, Wire(server.broker_addr) as other:
        other.ask(R.DELETE_TOPIC_IN_BROKER, {"topic": topic})
        create_topic(other, topic)
        fill(other, topic, [0] * queue_id + [int(request.ext.get("queueOffset", 0))])
        wanted = subscription(topic)
        wanted.sub_version = int(request.ext.get("subVersion", 0))
        consume(wire, group, wanted)
        wire.send(encode_frame(request))
        wire.send(encode_frame(Command(code=R.GET_MAX_OFFSET, opaque=BARRIER, ext={"topic": topic, "queueId": "0"})))
        assert next_answer(wire).opaque == BARRIER, "it was answered at once"
        fill(other, topic, [0] * queue_id + [1])
        assert ok(next_answer(wire)).opaque == request.opaque


def next_answer(wire: Wire) -> Command:
    while not (answer := wire.receive()).is_answer:  # the broker also tells members of each other
        pass
    return answer


def test_a_heartbeat_of_a_client_that_was_gone(server: Server) -> None:
    name = "34-HEART_BEAT/06"
    with Wire(server.broker_addr) as wire:
        ours = wire.exchange(exchange(name).request)
    golden = exchange("34-HEART_BEAT/05").answer
    assert (ours.code, ours.ext) == (golden.code, golden.ext)
