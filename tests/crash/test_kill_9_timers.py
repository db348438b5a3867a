"""A real broker is killed while it delivers timers. The next one delivers the rest: none is lost, and none comes
twice."""

import signal
from pathlib import Path

import pytest

from rmqproto.codes import RequestCode
from rmqproto.headers.base import to_ext
from rmqproto.headers.sending import SendHeaderV2
from rmqproto.message.record import decode_records_untrusted
from rmqproto.wire.command import Command, encode_frame
from tests.rmqserver.broker.messaging import pull, send_header, text
from tests.support import servers
from tests.support.servers import Server, standalone
from tests.support.wire import Wire

COUNT = 3000
TOPIC = "KillTimers"


def send_all(wire: Wire) -> None:
    """Sends all messages, a third of them due in each of three seconds."""
    for number in range(COUNT):
        wire.send(encode_frame(Command(
            code=RequestCode.SEND_MESSAGE_V2, opaque=number, ext=to_ext(header(number)), body=b"%d" % number,
        )))  # fmt: skip
    for _ in range(COUNT):
        assert wire.receive().code == 0


def header(number: int) -> SendHeaderV2:
    return send_header(TOPIC, properties=text(TIMER_DELAY_MS=str(3000 + number % 3 * 1000), UNIQ_KEY=f"K{number}"))


def delivered(wire: Wire) -> int:
    return int(wire.ask(RequestCode.GET_MAX_OFFSET, {"topic": TOPIC, "queueId": "0"}).ext["offset"])


def until(wire: Wire, count: int) -> None:
    servers.until(lambda: delivered(wire) >= count)


@pytest.mark.slow
@pytest.mark.parametrize("flush", ["sync", "async"])
def test_a_kill_in_the_middle_of_delivery_loses_and_doubles_nothing(tmp_path: Path, flush: str) -> None:
    def start() -> Server:
        return standalone(tmp_path, "--data", tmp_path / "store", "--flush", flush)

    with start() as server, Wire(server.broker_addr) as wire:
        send_all(wire)
        until(wire, COUNT // 5)
        server.stop(signal.SIGKILL)
    with start() as server, Wire(server.broker_addr) as wire:
        until(wire, COUNT // 5 * 3)
        server.stop(signal.SIGKILL)
    with start() as server, Wire(server.broker_addr) as wire:
        until(wire, COUNT)
        bodies: list[int] = []
        while len(bodies) < delivered(wire):
            records = decode_records_untrusted(pull(wire, TOPIC, 0, len(bodies)).body)
            bodies += [int(record.body) for record in records]
        assert sorted(bodies) == list(range(COUNT))
        assert server.stop() == 0
