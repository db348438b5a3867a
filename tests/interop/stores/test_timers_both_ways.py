"""A store with pending timer messages passes from Apache's broker to ours and back. Timers that one broker took in, the
other delivers once, except the recalled ones."""

import time
from pathlib import Path

import pytest

from rmqproto.codes import RequestCode
from rmqproto.message.record import decode_records_untrusted
from rmqserver.store.disk.disk import OsDisk
from rmqserver.store.timers.timer_check import TimerCheckpoint
from tests.rmqserver.broker.golden_state import create_topic
from tests.rmqserver.broker.messaging import pull, send, text
from tests.support import servers
from tests.support.wire import Wire

from ..cluster import SETTINGS, SYSTEMS

pytestmark = pytest.mark.interop

WITH_RECALLS = {**SETTINGS, "recallMessageEnable": "true", "timerFlushIntervalMs": "1000"}
TOPIC, COUNT = "MovedTimers", 200
PENDING_S = 25
"""Timers are due only when the other broker runs. On a busy machine some may be overdue by then; those come at once,
each still once. A test waits for all timers, so the time is no longer than needed."""


def send_timers(wire: Wire, due_ms: int) -> None:
    for number in range(COUNT):
        properties = text(TIMER_DELIVER_MS=str(due_ms + number % 4 * 1000), UNIQ_KEY=f"K{number}")
        answer = send(wire, TOPIC, 0, b"%d" % number, properties=properties)
        assert answer.code == 0, answer.remark
        if number % 10 == 0:
            handle = {"producerGroup": "G", "topic": TOPIC, "recallHandle": answer.ext["recallHandle"]}
            assert wire.ask(RequestCode.RECALL_MESSAGE, handle).code == 0


def delivered(wire: Wire) -> list[int]:
    found: list[int] = []
    while records := decode_records_untrusted(pull(wire, TOPIC, 0, len(found)).body):
        found += [int(record.body) for record in records]
    return found


@pytest.mark.parametrize("end", ["stopped", "killed"])
@pytest.mark.parametrize(("writer", "reader"), [("apache", "ours"), ("ours", "apache")])
def test_pending_timers_pass_to_the_other_broker(tmp_path: Path, writer: str, reader: str, end: str) -> None:
    expected = [number for number in range(COUNT) if number % 10]
    with SYSTEMS[writer](tmp_path / "first", WITH_RECALLS) as first, Wire(first.broker_addr) as wire:
        create_topic(wire, TOPIC, 1)
        send(wire, TOPIC, 0, b"-1", properties=text(TIMER_DELAY_SEC="1"))
        due_ms = time.time_ns() // 1_000_000 + PENDING_S * 1000
        send_timers(wire, due_ms)
        servers.until(lambda: delivered(wire) == [-1])
        servers.until(lambda: saved(first.store_dir).queue_offset >= COUNT)
        (message,) = decode_records_untrusted(pull(wire, TOPIC).body)
        out_ms = int(message.properties["TIMER_OUT_MS"])
        # After a kill, the broker of the other kind redelivers messages that were delivered after the last checkpoint.
        servers.until(lambda: saved(first.store_dir).read_time_ms > out_ms)
        first.stop() if end == "stopped" else first.kill()
    second = SYSTEMS[reader](tmp_path / "second", WITH_RECALLS, store_dir=first.store_dir, ports=first.ports)
    with second, Wire(second.broker_addr) as wire:
        servers.until(lambda: len(delivered(wire)) > len(expected))
        assert time.time_ns() // 1_000_000 >= due_ms + 3000
        assert sorted(delivered(wire)) == [-1, *expected]
        second.stop()


def saved(store_dir: Path) -> TimerCheckpoint:
    return TimerCheckpoint.read(OsDisk(), f"{store_dir}/config/timercheck")
