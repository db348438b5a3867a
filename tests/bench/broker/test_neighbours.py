"""Producers beside others that take more than their share."""

import socket

import pytest

from bench.broker.neighbours import figures, half_frames, send_ms
from bench.harness.servers import ours


@pytest.mark.slow
def test_a_producer_is_served_beside_half_frames() -> None:
    with ours() as broker, socket.create_connection(broker.host_port, timeout=30) as producer, half_frames(broker):
        assert all(send_ms(producer) > 0 for _ in range(3))


def test_the_bar_is_twice_what_it_is_alone() -> None:
    found_ms = {"alone": [1.0], "half": [1.9], "hostile": [2.0], "limited": [2.1], "unlimited": [9.0]}
    half, hostile, limited, unlimited = figures(found_ms)
    assert (half.ratio, half.is_reached) == (1.9, True)
    assert (hostile.ratio, hostile.is_reached) == (2.0, True)
    assert (limited.ratio, limited.is_reached) == (2.1, False)
    assert (unlimited.ratio, unlimited.is_reached) == (9.0, None)
