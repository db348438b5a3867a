"""HTTP/2 of one connection, as the server that gRPC needs (RFC 9113), behind a small interface, so that the engine may
change. It does no I/O: bytes go in by ``received``, events come out, and ``to_send`` has the bytes for the peer.

The frames are our own, because a call of the maintained engines costs more than all that it asks for
(docs/performance-changes.md).
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterable
from enum import IntEnum
from operator import itemgetter
from typing import NamedTuple

from rmqproto.errors import ProtocolError
from rmqserver.core import HeaderDecoder
from rmqserver.core.header_blocks import FRAME_SIZE_MAX_BYTES, SIZE_UPDATE_TO_0, TABLE_SIZE_BYTES, Headers

STREAM_WINDOW_BYTES = 1 << 20
CONNECTION_WINDOW_BYTES = 16 << 20
"""How much a client may send ahead. The initial 65,535 would stop a body of 4 MiB for every round trip."""
STREAMS_MAX = 4096
"""A push consumer has a poll open for every broker and topic, beside its telemetry and its sends. What is beyond waits
in the client until a poll ends, be it an acknowledgement."""
HEADER_BLOCK_MAX_BYTES = 32 << 10
"""Of one request, with the heads of its frames: even empty ones come to an end."""
FRAMES_AT_ONCE_MIN, FRAMES_AT_ONCE_MAX = 16, 64
"""Frames that are taken in one turn. A client that sends without end holds up others for half a millisecond, and only
if it asks something: otherwise it gets few frames, and rests after them (``asks_little``)."""
SETTINGS_AT_ONCE_MAX = 12
"""Frames of settings among them: each changes the windows of all streams."""
CANCELLED_MAX = STREAMS_MAX
"""How many calls more than it lets end a client may cancel: each costs more to take than to ask. At its end it cancels
all that it has."""

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
WINDOW_MAX_BYTES = (1 << 31) - 1
_FIRST_WINDOW_BYTES = 65_535
_NUMBER = 0x7FFF_FFFF
"""The bits of a stream or a window; the one above is reserved."""

# length u24, as u16 and u8 | type u8 | flags u8 | stream u32
_HEAD = struct.Struct(">HBBBI")
_DATA, _HEADERS, _PRIORITY, _RST_STREAM, _SETTINGS, _PUSH_PROMISE, _PING, _GOAWAY = range(8)
_WINDOW_UPDATE, _CONTINUATION = 8, 9
_END_STREAM, _ACK, _END_HEADERS, _PADDED, _HAS_PRIORITY = 1, 1, 4, 8, 32
_HEADER_TABLE_SIZE, _ENABLE_PUSH, _MAX_STREAMS, _INITIAL_WINDOW, _MAX_FRAME, _MAX_HEADERS = range(1, 7)
_PSEUDO_NEEDED = {b":method", b":scheme", b":path"}
_PSEUDO = {*_PSEUDO_NEEDED, b":authority"}
_PING_SIZE_BYTES, _PRIORITY_SIZE_BYTES = 8, 5
_U32, _TWO_U32 = struct.Struct(">I"), struct.Struct(">II")
_SETTING = struct.Struct(">HI")


class _Error(IntEnum):
    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    FLOW_CONTROL_ERROR = 3
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


Metadata = dict[bytes, bytes]
"""The headers of a request; of several with one name, the last."""


class StreamAsked(NamedTuple):
    """A request begins. ``data`` is its whole body, if that has come with it: the client sends no more on this
    stream."""

    stream: int
    metadata: Metadata
    data: bytes | None = None


class StreamData(NamedTuple):
    """Bytes of a request's body."""

    stream: int
    data: bytes


class StreamEnded(NamedTuple):
    """The client sends no more on this stream; it may still read."""

    stream: int


class StreamGone(NamedTuple):
    """The client has cancelled the stream, or broken its rules."""

    stream: int


StreamEvent = StreamAsked | StreamData | StreamEnded | StreamGone


class _Broken(Exception):
    """The connection cannot go on."""

    def __init__(self, code: _Error, text: str):
        super().__init__(text)
        self.code = code


class _Stream:
    """``room`` is what the peer's window of the stream takes; ``uncredited_bytes`` have come, and were not given back
    to our window."""

    __slots__ = ("has_peer_ended", "room", "uncredited_bytes")

    def __init__(self, room: int):
        self.room = room
        self.uncredited_bytes = 0
        self.has_peer_ended = False


def _frame(kind: int, flags: int, stream: int, payload: bytes | memoryview) -> bytes:
    size = len(payload)
    return _HEAD.pack(size >> 8, size & 255, kind, flags, stream) + payload


_HELLO = (
    _frame(_SETTINGS, 0, 0, b"".join(_SETTING.pack(*each) for each in (
        (_ENABLE_PUSH, 0), (_MAX_STREAMS, STREAMS_MAX), (_INITIAL_WINDOW, STREAM_WINDOW_BYTES),
        (_MAX_HEADERS, HEADER_BLOCK_MAX_BYTES),
    )))
    + _frame(_WINDOW_UPDATE, 0, 0, _U32.pack(CONNECTION_WINDOW_BYTES - _FIRST_WINDOW_BYTES))
)  # fmt: skip


class Http2:
    """Headers to send are blocks of ``encode_block``, at most a frame long. ``queued_bytes`` wait for the peer's
    windows; the caller limits them. What is sent on a stream that has ended is dropped."""

    def __init__(self) -> None:
        self._out = [_HELLO]
        self._rest = b""
        """What was not taken yet."""
        self.has_more = False
        """Whether whole frames are left for the next turn, which begins by ``received(b"")``."""
        self._frames_at_once = FRAMES_AT_ONCE_MIN
        self.asks_little = False
        """Whether more are left, though those of this turn hardly brought data: a flood of pings, of calls that are
        cancelled or of pieces of headers."""
        self._has_preface = self._has_settings = False
        self._streams: dict[int, _Stream] = {}
        """Those that one side or both have not ended."""
        self._last_stream = 0
        self._decoder = HeaderDecoder()
        self._block: tuple[int, bool, bytearray] | None = None
        """The stream, whether it ends, and the header block that goes on in the next frame."""
        self._block_bytes = 0
        self._room = self._first_room = _FIRST_WINDOW_BYTES
        """What the peer's windows take: of the connection, and of a new stream."""
        self._uncredited_bytes = 0
        self._events: list[StreamEvent] = []
        self._gone: set[int] = set()
        self._cancelled_count = 0
        self._queued: dict[int, deque[tuple[bytes | memoryview, bool]]] = {}
        """Data that waits for a window, by stream; what is True is the trailers' block, which ends the stream."""
        self._has_more_room = False
        self._before_block = b""
        self.queued_bytes = 0
        self.is_over = False
        """Whether the peer has broken the rules of the connection."""

    # --- bytes in ----------------------------------------------------------------------------------------------------

    def received(self, data: bytes | memoryview) -> Iterable[StreamEvent]:
        """What the bytes say. ProtocolError if they are no HTTP/2, or break its rules; ``to_send`` then has what the
        peer is to be told before the connection is closed."""
        data = self._rest + data if self._rest else bytes(data)
        try:
            self._rest = data[self._take_frames(data) :]
        except (_Broken, ProtocolError) as error:  # the latter from a header block
            code = error.code if isinstance(error, _Broken) else _Error.COMPRESSION_ERROR
            self.is_over = True
            self._out.append(_frame(_GOAWAY, 0, 0, _TWO_U32.pack(self._last_stream, code)))
            raise ProtocolError(f"HTTP/2: {error}") from None
        if self._has_more_room:  # once, however many windows the bytes open
            self._has_more_room = False
            for stream in list(self._queued):
                self._send_queued(stream)
        events, self._events = self._events, []
        if self._gone:
            # What a client cancels with the same bytes is over before it can be answered, and is not begun.
            gone, self._gone = self._gone, set()
            events = [*map(StreamGone, sorted(gone)), *(event for event in events if event.stream not in gone)]
        return events

    def _take_frames(self, data: bytes) -> int:
        """Takes whole frames, as many as one turn has; where the next one begins."""
        self.has_more = False
        at, end = self._begin_of_frames(data), len(data)
        count = settings_count = asked_count = 0
        take_call, is_plain = self._decoder.take_call_untrusted, self._has_settings
        while end - at >= _HEAD.size and self._has_preface:
            if is_plain and count + 1 < self._frames_at_once and self._block is None:
                call = take_call(data, at, self._last_stream)
                if call is not None:
                    stream, headers, body, at = call
                    count += 2
                    asked_count += body != b""
                    self._give_back(len(body))
                    self._take_request(stream, headers, body)
                    continue
            high, low, kind, flags, stream = _HEAD.unpack_from(data, at)
            size = high << 8 | low
            if size > FRAME_SIZE_MAX_BYTES:
                text = f"a frame of {size} bytes is longer than {FRAME_SIZE_MAX_BYTES}"
                raise _Broken(_Error.FRAME_SIZE_ERROR, text)
            after = at + _HEAD.size + size
            if after > end:
                break
            stream &= _NUMBER
            if not self._has_settings and (kind != _SETTINGS or flags & _ACK):
                raise _Broken(_Error.PROTOCOL_ERROR, "the first frame is not of settings")
            if self._block is not None and (kind != _CONTINUATION or stream != self._block[0]):
                raise _Broken(_Error.PROTOCOL_ERROR, "a header block does not go on")
            if count == self._frames_at_once:
                self._end_turn(asked_count)
                break
            count += 1
            asked_count += (kind == _DATA and size > 0) - (kind == _RST_STREAM)
            settings_count += kind == _SETTINGS
            if settings_count > SETTINGS_AT_ONCE_MAX:
                raise _Broken(_Error.ENHANCE_YOUR_CALM, "so many settings at once are not taken")
            take = _TAKE.get(kind)
            if take is not None:  # else a farewell, or an extension
                take(self, flags, stream, data[at + _HEAD.size : after])
            at = after
        return at

    def _begin_of_frames(self, data: bytes) -> int:
        if self._has_preface:
            return 0
        if not PREFACE.startswith(data[: len(PREFACE)]):
            raise _Broken(_Error.PROTOCOL_ERROR, "the connection does not begin with its preface")
        self._has_preface = len(data) >= len(PREFACE)
        return len(PREFACE) if self._has_preface else 0

    def _end_turn(self, asked_count: int) -> None:
        """More is left. ``asked_count``: of the frames of this turn, those of data less those that cancel."""
        self.has_more = True
        # While an answer waits, its client may open windows by many small frames.
        self.asks_little = 4 * asked_count < self._frames_at_once and not self._queued
        self._frames_at_once = FRAMES_AT_ONCE_MIN if self.asks_little else FRAMES_AT_ONCE_MAX

    def _take_headers(self, flags: int, stream: int, payload: bytes) -> None:
        if flags & _PADDED:
            payload = _unpadded(payload)
        if flags & _HAS_PRIORITY:
            _check_size(len(payload) >= _PRIORITY_SIZE_BYTES)
            payload = payload[_PRIORITY_SIZE_BYTES:]
        if flags & _END_HEADERS:
            self._take_block(stream, bool(flags & _END_STREAM), payload)
        else:
            self._block, self._block_bytes = (stream, bool(flags & _END_STREAM), bytearray(payload)), len(payload)

    def _take_continuation(self, flags: int, stream: int, payload: bytes) -> None:
        if self._block is None:
            raise _Broken(_Error.PROTOCOL_ERROR, "no header block goes on")
        _, is_last, block = self._block
        block += payload
        self._block_bytes += _HEAD.size + len(payload)
        if self._block_bytes > HEADER_BLOCK_MAX_BYTES:
            raise _Broken(_Error.ENHANCE_YOUR_CALM, f"header blocks of more than {HEADER_BLOCK_MAX_BYTES} bytes")
        if flags & _END_HEADERS:
            self._block, self._block_bytes = None, 0
            self._take_block(stream, is_last, bytes(block))

    def _take_block(self, stream: int, is_last: bool, block: bytes) -> None:
        self._take_request(stream, self._decoder.decode_untrusted(block), b"" if is_last else None)

    def _take_request(self, stream: int, headers: Headers, data: bytes | None) -> None:
        """``data`` is the whole body; None if it is still to come."""
        found = self._streams.get(stream)
        if found is not None:  # trailers
            if found.has_peer_ended or data is None:
                self._break_stream(stream, _Error.STREAM_CLOSED if found.has_peer_ended else _Error.PROTOCOL_ERROR)
            else:
                self._peer_ended(stream, found)
            return
        if not stream & 1 or stream <= self._last_stream:
            raise _Broken(_Error.PROTOCOL_ERROR, f"stream {stream} cannot be opened now")
        self._last_stream = stream
        if len(self._streams) >= STREAMS_MAX:
            self._tell_reset(stream, _Error.REFUSED_STREAM)
        elif (metadata := _metadata_of(headers)) is None:
            self._tell_reset(stream, _Error.PROTOCOL_ERROR)
        else:
            self._streams[stream] = found = _Stream(self._first_room)
            found.has_peer_ended = data is not None
            self._events.append(StreamAsked(stream, metadata, data))

    def _take_data(self, flags: int, stream: int, payload: bytes) -> None:
        """Windows open again as soon as data has come: the caller limits how much it keeps."""
        size = len(payload)
        self._give_back(size)
        found = self._streams.get(stream)
        if found is None:
            self._check_known(stream)
            self._tell_reset(stream, _Error.STREAM_CLOSED)
            return
        if found.has_peer_ended:
            self._break_stream(stream, _Error.STREAM_CLOSED)
            return
        if flags & _PADDED:
            payload = _unpadded(payload)
        if payload:
            self._events.append(StreamData(stream, payload))
        if flags & _END_STREAM:
            self._peer_ended(stream, found)
            return
        found.uncredited_bytes += size
        if found.uncredited_bytes > STREAM_WINDOW_BYTES // 2:
            self._out.append(_frame(_WINDOW_UPDATE, 0, stream, _U32.pack(found.uncredited_bytes)))
            found.uncredited_bytes = 0

    def _give_back(self, size_bytes: int) -> None:
        """To the window of the connection."""
        self._uncredited_bytes += size_bytes
        if self._uncredited_bytes > CONNECTION_WINDOW_BYTES // 2:
            self._out.append(_frame(_WINDOW_UPDATE, 0, 0, _U32.pack(self._uncredited_bytes)))
            self._uncredited_bytes = 0

    def _peer_ended(self, stream: int, found: _Stream) -> None:
        found.has_peer_ended = True
        self._events.append(StreamEnded(stream))

    def _take_reset(self, flags: int, stream: int, payload: bytes) -> None:
        _check_size(len(payload) == _U32.size)
        self._check_known(stream)
        if stream in self._streams:
            self._lose(stream)
        elif _U32.unpack(payload)[0] == _Error.CANCEL:  # it crosses the end of the answer, which nobody reads
            self._events.append(StreamGone(stream))

    def _take_settings(self, flags: int, stream: int, payload: bytes) -> None:
        if stream:
            raise _Broken(_Error.PROTOCOL_ERROR, "settings are not a stream's")
        if flags & _ACK:
            _check_size(not payload)
            return
        _check_size(len(payload) % _SETTING.size == 0)
        self._has_settings = True
        said = dict(_SETTING.iter_unpack(payload))
        if said.get(_ENABLE_PUSH, 0) > 1 or not FRAME_SIZE_MAX_BYTES <= said.get(_MAX_FRAME, 1 << 14) < 1 << 24:
            raise _Broken(_Error.PROTOCOL_ERROR, "a setting has a value that it cannot have")
        first_room = said.get(_INITIAL_WINDOW, self._first_room)
        if first_room != self._first_room:
            more, self._first_room = first_room - self._first_room, first_room
            widest = first_room
            for each in self._streams.values():
                each.room += more
                if each.room > widest:
                    widest = each.room
            if widest > WINDOW_MAX_BYTES:
                raise _Broken(_Error.FLOW_CONTROL_ERROR, "a window is too wide")
            self._has_more_room = True
        if said.get(_HEADER_TABLE_SIZE, TABLE_SIZE_BYTES) < TABLE_SIZE_BYTES:
            self._before_block = SIZE_UPDATE_TO_0
        self._out.append(_frame(_SETTINGS, _ACK, 0, b""))

    def _take_ping(self, flags: int, stream: int, payload: bytes) -> None:
        if stream:
            raise _Broken(_Error.PROTOCOL_ERROR, "a ping is not a stream's")
        _check_size(len(payload) == _PING_SIZE_BYTES)
        if not flags & _ACK:
            self._out.append(_frame(_PING, _ACK, 0, payload))

    def _take_window(self, flags: int, stream: int, payload: bytes) -> None:
        _check_size(len(payload) == _U32.size)
        more = _U32.unpack(payload)[0] & _NUMBER
        self._has_more_room = True
        if not stream:
            self._room += more
            if not more or self._room > WINDOW_MAX_BYTES:
                code = _Error.FLOW_CONTROL_ERROR if more else _Error.PROTOCOL_ERROR
                raise _Broken(code, "a window opens by nothing, or is too wide")
            return
        self._check_known(stream)
        found = self._streams.get(stream)
        if found is not None:
            found.room += more
            if not more or found.room > WINDOW_MAX_BYTES:
                self._break_stream(stream, _Error.FLOW_CONTROL_ERROR if more else _Error.PROTOCOL_ERROR)

    def _take_priority(self, flags: int, stream: int, payload: bytes) -> None:
        if not stream:
            raise _Broken(_Error.PROTOCOL_ERROR, "a priority is a stream's")
        _check_size(len(payload) == _PRIORITY_SIZE_BYTES)

    def _take_push(self, flags: int, stream: int, payload: bytes) -> None:
        raise _Broken(_Error.PROTOCOL_ERROR, "clients push nothing")

    def _check_known(self, stream: int) -> None:
        if not stream & 1 or stream > self._last_stream:
            raise _Broken(_Error.PROTOCOL_ERROR, f"there is no stream {stream}")

    def _break_stream(self, stream: int, code: _Error) -> None:
        """The peer has broken the rules of one stream."""
        self._lose(stream)
        self._tell_reset(stream, code)

    def _lose(self, stream: int) -> None:
        self._forget(stream)
        self._gone.add(stream)
        self._cancelled_count += 1
        if self._cancelled_count > CANCELLED_MAX:
            raise _Broken(_Error.ENHANCE_YOUR_CALM, "so many calls are cancelled")

    # --- bytes out ---------------------------------------------------------------------------------------------------

    def begin(self, stream: int, block: bytes, *, is_all: bool = False) -> None:
        """Sends the head of an answer; ``is_all``: nothing follows."""
        if stream in self._streams:
            self._put_headers(stream, block, is_last=is_all)

    def send(self, stream: int, data: bytes) -> None:
        """Sends a part of an answer, as the peer's windows allow."""
        if stream not in self._streams:
            return
        self._queued.setdefault(stream, deque()).append((memoryview(data), False))  # what is cut off is not copied
        self.queued_bytes += len(data)
        self._send_queued(stream)

    def end(self, stream: int, block: bytes) -> None:
        """Sends the trailers, behind all data of the stream."""
        if stream in self._queued:
            self._queued[stream].append((block, True))
        elif stream in self._streams:
            self._put_headers(stream, block, is_last=True)

    def answer(self, stream: int, head: bytes, data: bytes, trailers: bytes) -> None:
        """Sends a whole answer, if nothing was sent on the stream before."""
        found, size = self._streams.get(stream), len(data)
        if found is None:
            return
        fits = size <= found.room and size <= self._room and size <= FRAME_SIZE_MAX_BYTES
        if not fits or not found.has_peer_ended or self._before_block:
            self.begin(stream, head)
            self.send(stream, data)
            self.end(stream, trailers)
            return
        self._room -= size
        self._out += (
            _frame(_HEADERS, _END_HEADERS, stream, head),
            _frame(_DATA, 0, stream, data),
            _frame(_HEADERS, _END_HEADERS | _END_STREAM, stream, trailers),
        )
        self._ended_well(stream)

    def unanswered(self) -> list[int]:
        """The streams of which no end of an answer was given."""
        return [stream for stream in self._streams if stream not in self._queued]

    def is_waiting(self, stream: int) -> bool:
        """Whether a part of the answer waits for the peer's windows."""
        return stream in self._queued

    def go_away(self) -> None:
        """Tells the peer to take another connection for what it asks from now on, and for what was not read here."""
        self._out.append(_frame(_GOAWAY, 0, 0, _TWO_U32.pack(self._last_stream, _Error.NO_ERROR)))

    @property
    def held_bytes(self) -> int:
        """Of frames that were not taken, or are not whole."""
        return len(self._rest) + self._block_bytes

    def close(self) -> None:
        """Forgets what it holds; the connection is gone."""
        self._rest, self._block, self._block_bytes = b"", None, 0
        self._out.clear()
        self._streams.clear()
        self._queued.clear()

    def to_send(self) -> bytes:
        """The bytes for the peer, which are then forgotten."""
        out, self._out = self._out, []
        return b"".join(out)

    def _put_headers(self, stream: int, block: bytes | memoryview, *, is_last: bool) -> None:
        block, self._before_block = self._before_block + block, b""
        self._out.append(_frame(_HEADERS, _END_HEADERS | is_last, stream, block))
        if is_last:
            if not self._streams[stream].has_peer_ended:  # it need not send the rest of its request
                self._tell_reset(stream, _Error.NO_ERROR)
            self._ended_well(stream)

    def _ended_well(self, stream: int) -> None:
        self._forget(stream)
        self._cancelled_count -= self._cancelled_count > 0

    def _tell_reset(self, stream: int, code: _Error) -> None:
        self._out.append(_frame(_RST_STREAM, 0, stream, _U32.pack(code)))

    def _send_queued(self, stream: int) -> None:
        queue, found = self._queued[stream], self._streams[stream]
        while queue:
            part, is_block = queue[0]
            if is_block:
                del self._queued[stream]
                self._put_headers(stream, part, is_last=True)
                return
            room = min(found.room, self._room, FRAME_SIZE_MAX_BYTES)
            if room <= 0:
                return
            data, rest = part[:room], part[room:]
            self._out.append(_frame(_DATA, 0, stream, data))
            found.room -= len(data)
            self._room -= len(data)
            self.queued_bytes -= len(data)
            if rest:
                queue[0] = rest, False
            else:
                queue.popleft()
        del self._queued[stream]

    def _forget(self, stream: int) -> None:
        del self._streams[stream]
        if stream in self._queued:
            self.queued_bytes -= sum(len(part) for part, is_block in self._queued.pop(stream) if not is_block)


# Bound to each connection, they would keep it until the garbage collector comes.
_TAKE: dict[int, Callable[[Http2, int, int, bytes], None]] = {
    _DATA: Http2._take_data, _HEADERS: Http2._take_headers, _CONTINUATION: Http2._take_continuation,
    _RST_STREAM: Http2._take_reset, _SETTINGS: Http2._take_settings, _PING: Http2._take_ping,
    _WINDOW_UPDATE: Http2._take_window, _PRIORITY: Http2._take_priority, _PUSH_PROMISE: Http2._take_push,
}  # fmt: skip


def _check_size(is_right: bool) -> None:
    if not is_right:
        raise _Broken(_Error.FRAME_SIZE_ERROR, "a frame has a length that its kind cannot have")


def _unpadded(payload: bytes) -> bytes:
    if not payload or payload[0] >= len(payload):
        raise _Broken(_Error.PROTOCOL_ERROR, "a frame is all padding")
    return payload[1 : len(payload) - payload[0]]


def _metadata_of(headers: Headers) -> Metadata | None:
    """None if they are no request's, by the rules that tell a mistake of the peer (RFC 9113, 8.2 and 8.3)."""
    names = tuple(map(_NAME, headers))
    if names not in _REQUESTS:
        text = b"\n".join(names)
        pseudo_count = text.count(b":")
        pseudo = set(names[:pseudo_count])
        if not (
            _PSEUDO_NEEDED <= pseudo <= _PSEUDO
            and len(pseudo) == pseudo_count
            and text == text.lower()
            and b"" not in names
            and b"connection" not in names
        ):
            return None
        if len(text) <= _REQUEST_NAMES_MAX_BYTES:
            if len(_REQUESTS) >= _REQUESTS_MAX:
                _REQUESTS.clear()
            _REQUESTS.add(names)
    metadata = dict(headers)
    return metadata if metadata[b":path"] else None


_NAME = itemgetter(0)
_REQUESTS: set[tuple[bytes, ...]] = set()
"""Names of requests, in their order: those of one client's calls are the same each time."""
_REQUESTS_MAX, _REQUEST_NAMES_MAX_BYTES = 256, 1024
