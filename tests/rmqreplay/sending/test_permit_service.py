import socket
import time

import pytest

from rmqproto.errors import ConnectError
from rmqreplay.sending.permit_service import Address, PermitClient, PermitService
from rmqreplay.sending.permits import Denied, Entered, Granted, PermitBook, Wait


@pytest.fixture
def service():
    running = PermitService(PermitBook(time.monotonic, settle_s=60.0))
    running.open_wave(3, recovering=False)
    yield running
    running.close()


def test_an_attempt_enters_asks_and_is_overtaken(service):
    first, second = (PermitClient(service.address, 3, 0, attempt) for attempt in (1, 2))
    assert first.enter() == Entered(must_look=False)
    assert first.ask(10, 1000) == Granted(10, 2.0)
    assert first.extend() == Granted(0, 2.0)
    answer = second.enter()
    assert isinstance(answer, Wait)
    assert answer.seconds > 50
    assert isinstance(first.ask(1, 1), Denied)
    assert isinstance(first.extend(), Denied)
    service.close_wave()
    assert isinstance(second.enter(), Denied)
    first.close()
    second.close()


@pytest.mark.parametrize("guess", ["guess", "gu\u00e9ss", ""])
def test_a_wrong_secret_gets_nothing(service, guess):
    stranger = PermitClient(Address(service.address.host, service.address.port, guess), 3, 0, 1)
    assert stranger.enter() == Denied("wrong secret")
    assert stranger.ask(1, 1) == Denied("wrong secret")
    stranger.close()


def test_what_is_no_question_ends_the_connection_and_not_the_service(service):
    with socket.create_connection((service.address.host, service.address.port)) as peer:
        peer.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert peer.recv(100) == b""
    client = PermitClient(service.address, 3, 0, 1)
    assert isinstance(client.enter(), Entered)
    client.close()


def test_a_dead_driver_stops_everybody(service):
    client = PermitClient(service.address, 3, 0, 1)
    client.enter()
    client.close()
    service.close()
    with pytest.raises(ConnectError, match="driver"):
        client.ask(1, 1)
    service.close = lambda: None
