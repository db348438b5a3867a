"""HTTP/2 of one connection, as the server that gRPC needs (RFC 9113), behind a small interface, so that the engine may
change. It does no I/O: bytes go in by ``received``, events come out, and ``to_send`` has the bytes for the peer.

The engine is ``h2``. Header names and values are bytes, and are not checked beyond what HTTP/2 demands.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

from rmqproto.errors import ProtocolError

Headers = list[tuple[bytes, bytes]]

STREAM_WINDOW_BYTES = 1 << 20
CONNECTION_WINDOW_BYTES = 16 << 20
"""How much a client may send ahead. The initial 65,535 would stop a body of 4 MiB for every round trip."""
STREAMS_MAX = 1024
"""A push consumer has a poll open for every broker and topic, beside its telemetry and its sends."""
HEADERS_SIZE_MAX_BYTES = 32 << 10
"""Of one request, uncompressed; longer ones are refused before they fill memory."""
FRAME_SIZE_MAX_BYTES = 16_384
PREFACE_SIZE_BYTES = 24
HEAD_SIZE_BYTES = 9
"""Of a frame: its length u24, type u8, flags u8, stream u32."""
SETTINGS_AT_ONCE_MAX = 16
"""Frames of settings in what came with one read."""
_SETTINGS = 4
_FIRST_WINDOW_BYTES = 65_535


class StreamAsked(NamedTuple):
    """A request begins."""

    stream: int
    headers: Headers


class StreamData(NamedTuple):
    """Bytes of a request's body."""

    stream: int
    data: bytes


class StreamEnded(NamedTuple):
    """The client sends no more on this stream; it may still read."""

    stream: int


class StreamGone(NamedTuple):
    """The client has cancelled the stream."""

    stream: int


StreamEvent = StreamAsked | StreamData | StreamEnded | StreamGone


class Http2:
    """``queued_bytes`` wait for the peer's windows; the caller limits them."""

    def __init__(self) -> None:
        config = h2.config.H2Configuration(
            client_side=False, header_encoding=None, validate_inbound_headers=False, normalize_inbound_headers=False,
            validate_outbound_headers=False, normalize_outbound_headers=False,
        )  # fmt: skip
        codes = h2.settings.SettingCodes
        self._h2 = h2.connection.H2Connection(config)
        self._h2.local_settings = h2.settings.Settings(
            client=False,
            initial_values={
                codes.INITIAL_WINDOW_SIZE: STREAM_WINDOW_BYTES,
                codes.MAX_CONCURRENT_STREAMS: STREAMS_MAX,
                codes.MAX_HEADER_LIST_SIZE: HEADERS_SIZE_MAX_BYTES,
                codes.ENABLE_PUSH: 0,
            },
        )
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(CONNECTION_WINDOW_BYTES - _FIRST_WINDOW_BYTES)
        self._queued: dict[int, deque[bytes | Headers]] = {}
        """Data that waits for a window, by stream; headers behind it end the stream."""
        self.queued_bytes = 0
        self._left_bytes = PREFACE_SIZE_BYTES
        """Bytes until the next frame begins."""
        self._head = b""

    def received(self, data: bytes) -> Iterable[StreamEvent]:
        """What the bytes say. ProtocolError if they are no HTTP/2, or break its rules; ``to_send`` then has what the
        peer is to be told before the connection is closed."""
        self._check_lengths(data)
        try:
            events = self._h2.receive_data(data)
        except h2.exceptions.ProtocolError as error:
            raise ProtocolError(f"HTTP/2: {error}") from None
        return self._told(events)

    def _told(self, events: list[h2.events.Event]) -> list[StreamEvent]:
        # What a client cancels with the same bytes is over before it can be answered, and is not begun.
        gone = {event.stream_id for event in events if isinstance(event, h2.events.StreamReset)}
        for stream in gone:
            self._forget(stream)
        found: list[StreamEvent] = [StreamGone(stream) for stream in gone]
        has_more_room = False
        for event in events:
            if isinstance(event, h2.events.DataReceived) and event.flow_controlled_length:
                self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            if getattr(event, "stream_id", None) in gone:
                continue
            if isinstance(event, h2.events.RequestReceived):
                found.append(StreamAsked(event.stream_id, event.headers))
            elif isinstance(event, h2.events.DataReceived):
                found.append(StreamData(event.stream_id, event.data))
            elif isinstance(event, h2.events.StreamEnded):
                found.append(StreamEnded(event.stream_id))
            elif isinstance(event, h2.events.WindowUpdated | h2.events.RemoteSettingsChanged):
                has_more_room = True
            elif isinstance(event, h2.events.ConnectionTerminated):
                raise ProtocolError(f"HTTP/2: the peer ends the connection ({event.error_code})")
        if has_more_room:  # once, however many windows the bytes open
            for stream in list(self._queued):
                self._send_queued(stream)
        return found

    def _check_lengths(self, data: bytes) -> None:
        """Refuses a frame by its head; the engine would keep up to 16 MiB of it first. And settings without end: each
        changes the windows of all streams."""
        at, end, settings_count = self._left_bytes, len(data), 0
        while at < end or self._head:
            wanted = HEAD_SIZE_BYTES - len(self._head)
            self._head += data[at : at + wanted]
            if len(self._head) < HEAD_SIZE_BYTES:
                at = end
                break
            size = int.from_bytes(self._head[:3], "big")
            if size > FRAME_SIZE_MAX_BYTES:
                raise ProtocolError(f"HTTP/2: a frame of {size} bytes is longer than {FRAME_SIZE_MAX_BYTES}")
            settings_count += self._head[3] == _SETTINGS
            if settings_count > SETTINGS_AT_ONCE_MAX:
                raise ProtocolError("HTTP/2: so many settings at once are not taken")
            self._head, at = b"", at + wanted + size
        self._left_bytes = at - end

    def begin(self, stream: int, headers: Headers, *, is_all: bool = False) -> None:
        """Sends the head of an answer; ``is_all``: nothing follows."""
        self._h2.send_headers(stream, headers, end_stream=is_all)

    def send(self, stream: int, data: bytes) -> None:
        """Sends a part of an answer, as the peer's windows allow."""
        self._queued.setdefault(stream, deque()).append(data)
        self.queued_bytes += len(data)
        self._send_queued(stream)

    def end(self, stream: int, trailers: Headers) -> None:
        """Sends the trailers, behind all data of the stream."""
        self._queued.setdefault(stream, deque()).append(trailers)
        self._send_queued(stream)

    def is_waiting(self, stream: int) -> bool:
        """Whether a part of the answer waits for the peer's windows."""
        return stream in self._queued

    def reset(self, stream: int) -> None:
        """Cancels the stream. Does nothing if it has ended."""
        self._forget(stream)
        with contextlib.suppress(h2.exceptions.NoSuchStreamError, h2.exceptions.StreamClosedError):
            self._h2.reset_stream(stream, h2.errors.ErrorCodes.CANCEL)

    def to_send(self) -> bytes:
        """The bytes for the peer, which are then forgotten."""
        return bytes(self._h2.data_to_send())

    def _send_queued(self, stream: int) -> None:
        queue = self._queued[stream]
        while queue:
            part = queue[0]
            if isinstance(part, list):
                self._h2.send_headers(stream, part, end_stream=True)
            else:
                room = min(self._h2.local_flow_control_window(stream), self._h2.max_outbound_frame_size)
                if room <= 0:
                    return
                self._h2.send_data(stream, part[:room])
                self.queued_bytes -= min(room, len(part))
                if room < len(part):
                    queue[0] = part[room:]
                    continue
            queue.popleft()
        del self._queued[stream]

    def _forget(self, stream: int) -> None:
        parts = self._queued.pop(stream, ())
        self.queued_bytes -= sum(len(part) for part in parts if isinstance(part, bytes))
