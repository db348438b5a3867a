"""Apache's exchanges of sending and consuming, played against our broker.

Left out are those that ask for transactions, timers, inner batches or SQL, which this broker does not serve, and those
whose answer comes of a state that a play cannot make (heartbeats of a moment before, offsets in the log).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rmqproto.record import decode_records_untrusted
from tests.rmqserver.broker.golden_play import play
from tests.rmqserver.broker.golden_state import consume, create_group, create_topic, fill, subscription
from tests.support import servers
from tests.support.golden import exchange
from tests.support.servers import Server
from tests.support.wire import Wire

TOPICS = {
    "PlainTopic": 4, "NormalTopic": 4, "DelayTopic": 2, "BigTopic": 2, "BatchTopic": 2, "OrderTopic": 4,
    "PriorityTopic": 4, "LiteTopic": 1, "AdminTopic": 4, "RequestTopic": 2, "EmptyTopic": 3, "RetryTopic": 2,
}  # fmt: skip


def numbers(code: str, *ranges: range | int) -> list[str]:
    each = [n for part in ranges for n in (part if isinstance(part, range) else [part])]
    return [f"{code}/{n:02d}" for n in each]


SENDS = [
    *numbers("10-SEND_MESSAGE", 1, 10, 11, 13, 15, 17, 25, 26, 28),
    *numbers("310-SEND_MESSAGE_V2", *(range(1, 7), range(8, 13), range(18, 22), range(24, 27))),
    *numbers("310-SEND_MESSAGE_V2", *(range(27, 33), range(34, 39), range(44, 48), range(50, 57))),
    *numbers("320-SEND_BATCH_MESSAGE", 1, 3, 4, 6),
]
PULLS = [*numbers("11-PULL_MESSAGE", 7, 10, 12, 29, 39, 40, 42), *numbers("361-LITE_PULL_MESSAGE", 1, 6, 7)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("messaging")
    with (
        servers.standalone(directory, "--set", "enablePropertyFilter=true") as running,
        Wire(running.broker_addr) as wire,
    ):
        for topic, queues in TOPICS.items():
            create_topic(wire, topic, queues)
        for group in ("RetryGroup", "OrderGroup"):
            create_group(wire, group)
        fill(wire, "PlainTopic", (5, 4, 4, 4))
        fill(wire, "NormalTopic", (4, 4, 4, 4))
        fill(wire, "OrderTopic", (4, 4))
        fill(wire, "RetryTopic", (1,))
        yield running


@pytest.fixture
def wire(server: Server) -> Iterator[Wire]:
    with Wire(server.broker_addr) as connection:
        yield connection


@pytest.mark.parametrize("name", SENDS)
def test_sends(wire: Wire, name: str) -> None:
    answer = exchange(name).answer
    if answer is None:
        pytest.skip("oneway")
    made_here = ("transactionId",) if name.startswith("10-") else ()  # these requests bring no unique key
    play(wire, name, "msgId", "queueOffset", *made_here)


@pytest.mark.parametrize("name", PULLS)
def test_pulls(wire: Wire, name: str) -> None:
    said = play(wire, name, "body", "nextBeginOffset", "maxOffset", "minOffset")
    if said["code"] == 0:
        assert decode_records_untrusted(said["body"])


def test_sending_back(wire: Wire) -> None:
    """The message at log offset 0 is the first one that was sent."""
    for number in ("02", "03", "04", "06", "07", "08"):
        play(wire, f"36-CONSUMER_SEND_MSG_BACK/{number}")


def test_locks(wire: Wire) -> None:
    for number in ("01", "02"):
        play(wire, f"41-LOCK_BATCH_MQ/{number}")
        play(wire, f"42-UNLOCK_BATCH_MQ/{number}")


def test_telling_members(wire: Wire) -> None:
    consume(wire, "NormalGroup", subscription("NormalTopic"))
    notice, golden = wire.receive(), exchange("40-NOTIFY_CONSUMER_IDS_CHANGED/01")
    assert (notice.code, notice.flag, notice.ext) == (40, 2, {"consumerGroup": "NormalGroup"})
    assert b'"consumerGroup":"NormalGroup"' in golden.request
