from __future__ import annotations

from typing import Any

import h2.config
import h2.connection
import h2.settings
import pytest

from rmqproto.errors import ProtocolError
from rmqserver.doors.grpc.http2 import Headers, Http2, StreamAsked, StreamData, StreamEnded, StreamGone

ASKED: Headers = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/x"), (b":authority", b"a")]
HEAD: Headers = [(b":status", b"200")]


class Peer:
    """A client, and our side of its connection."""

    def __init__(self) -> None:
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding=None))
        self.h2.initiate_connection()
        self.http2 = Http2()
        self.pass_on()

    def pass_on(self) -> list[Any]:
        """All that the client has said goes over in one piece."""
        events = list(self.http2.received(self.h2.data_to_send()))
        self.h2.receive_data(self.http2.to_send())
        return events


@pytest.fixture
def peer() -> Peer:
    return Peer()


def test_a_request_is_told_piece_by_piece(peer: Peer) -> None:
    peer.h2.send_headers(1, ASKED)
    peer.h2.send_data(1, b"abc", end_stream=True)
    assert peer.pass_on() == [StreamAsked(1, ASKED), StreamData(1, b"abc"), StreamEnded(1)]


def test_a_request_that_is_cancelled_with_the_same_bytes_is_not_begun(peer: Peer) -> None:
    peer.h2.send_headers(1, ASKED)
    peer.h2.send_data(1, b"abc", end_stream=True)
    peer.h2.reset_stream(1)
    peer.h2.send_headers(3, ASKED, end_stream=True)
    assert peer.pass_on() == [StreamGone(1), StreamAsked(3, ASKED), StreamEnded(3)]


def test_a_window_that_opens_for_a_cancelled_stream_takes_nothing(peer: Peer) -> None:
    peer.h2.increment_flow_control_window(1 << 20)
    peer.h2.send_headers(1, ASKED, end_stream=True)
    peer.pass_on()
    peer.http2.begin(1, HEAD)
    peer.http2.send(1, b"x" * 100_000)
    peer.pass_on()
    assert peer.http2.queued_bytes
    peer.h2.increment_flow_control_window(1 << 20, 1)
    peer.h2.reset_stream(1)
    assert peer.pass_on() == [StreamGone(1)]
    assert peer.http2.queued_bytes == 0


def test_many_windows_that_open_at_once_are_looked_at_once(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    """64 KiB of them, and a thousand answers that wait, once took seconds."""
    peer.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
    for stream in (1, 3):
        peer.h2.send_headers(stream, ASKED, end_stream=True)
    peer.pass_on()
    for stream in (1, 3):
        peer.http2.begin(stream, HEAD)
        peer.http2.send(stream, b"answer")
    looked_at: list[int] = []
    monkeypatch.setattr(peer.http2, "_send_queued", looked_at.append)
    for _ in range(100):
        peer.h2.increment_flow_control_window(1)
    peer.pass_on()
    assert looked_at == [1, 3]


def test_settings_without_end_are_not_taken(peer: Peer) -> None:
    """64 KiB of them, and a thousand streams, would take a second."""
    for size in range(10):
        peer.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: size})
    assert not peer.pass_on(), "a few are"
    for size in range(20):
        peer.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: size})
    with pytest.raises(ProtocolError, match="so many settings"):
        peer.pass_on()
