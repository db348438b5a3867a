"""Ordered POP: only one pop at a time holds messages of a queue."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqproto.codes import ResponseCode
from rmqproto.java.java_numbers import LONG_MAX
from rmqserver.operation import Refused
from tests.rmqserver.broker.consuming.pop.bench import GROUP, TOPIC, Bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path, queue_nums=1)
    for number in range(4):
        made.send(b"%d" % number)
    yield made
    made.close()


def bodies(bench: Bench, count: int = 2, **more: object) -> list[bytes]:
    return [taken.body for taken in bench.take(count, order=True, **more)]


def test_the_next_come_when_the_first_are_acknowledged(bench: Bench) -> None:
    first, second = bench.take(2, order=True)
    assert bodies(bench) == []
    bench.ack(second.handle)
    assert (bodies(bench), bench.parts.offsets.committed(GROUP, TOPIC, 0)) == ([], 0)
    bench.ack(first.handle)
    assert bench.parts.offsets.committed(GROUP, TOPIC, 0) == 2
    assert bodies(bench) == [b"2", b"3"]


def test_when_its_time_is_over_the_same_come_again(bench: Bench) -> None:
    assert bodies(bench) == [b"0", b"1"]
    bench.clock.now_ms += 10_000
    popped = bench.try_pop(2, order=True)
    assert popped.order_counts == [(("0", 0), {0: 1, 1: 1}, 1)]


def test_the_same_attempt_gets_the_same(bench: Bench) -> None:
    assert bodies(bench, attempt_id="a") == [b"0", b"1"]
    assert bodies(bench, attempt_id="b") == []
    assert bodies(bench, attempt_id="a") == [b"0", b"1"]


def test_a_message_that_is_hidden_longer_blocks_the_queue(bench: Bench) -> None:
    first, second = bench.take(2, order=True)
    bench.ack(second.handle)
    bench.change(first.handle, 60_000)
    bench.clock.now_ms += 59_999
    popped = bench.try_pop(2, order=True)
    assert (popped.chunks, popped.free_at_ms) == ([], bench.clock.now_ms + 1)
    bench.clock.now_ms += 1
    assert bodies(bench, 1) == [b"0"]


def test_what_is_out_is_kept_over_a_restart(bench: Bench) -> None:
    first, _ = bench.take(2, order=True)
    bench.restart()
    assert bodies(bench) == []
    bench.ack(first.handle)
    assert bench.parts.offsets.committed(GROUP, TOPIC, 0) == 1


def test_a_message_that_is_hidden_for_ever_can_be_kept(bench: Bench) -> None:
    """Nothing refuses so long a time. The file used to hold a number that its reader refused, and the broker did not
    start."""
    first, _ = bench.take(2, order=True)
    bench.change(first.handle, LONG_MAX)
    bench.restart()
    assert bench.try_pop(2, order=True).free_at_ms == LONG_MAX


def test_a_message_that_is_not_out_is_refused(bench: Bench) -> None:
    first, _ = bench.take(2, order=True)
    with pytest.raises(Refused, match="offset is illegal") as refused:
        bench.ack(first.handle._replace(queue_offset=3))
    assert refused.value.code == ResponseCode.MESSAGE_ILLEGAL
