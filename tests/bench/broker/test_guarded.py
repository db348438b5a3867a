"""A broker that authenticates every client, under load."""

import socket

import pytest

from bench.broker.guarded import USER, guarded, pull, request, send
from bench.broker.long_polls import answer_code
from bench.harness.measure import put_all
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.headers.base import NoFields


@pytest.mark.slow
def test_the_load_is_served_when_it_is_signed_and_only_then() -> None:
    with guarded() as broker:
        for frame in (send(USER), pull(USER)):  # pulls do not find messages that are sent in the same write
            put_all(broker, [frame] * 3)
        with socket.create_connection(broker.host_port, timeout=30) as stranger:
            for frame in (send(None), pull(None), request(RequestCode.GET_BROKER_CONFIG, NoFields(), b"", None)):
                stranger.sendall(frame)
                assert answer_code(stranger) == ResponseCode.NO_PERMISSION
