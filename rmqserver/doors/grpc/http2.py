"""HTTP/2 of one connection, as the server that gRPC needs (RFC 9113), behind a small interface, so that the engine may
change. It does no I/O: bytes go in by ``received``, events come out, and ``to_send`` has the bytes for the peer.

The frames are our own, because a call of the maintained engines costs more than all that it asks for
(docs/performance-changes.md).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

import msgspec

from rmqproto.errors import ProtocolError
from rmqserver.core import HeaderDecoder
from rmqserver.core.header_blocks import FRAME_SIZE_MAX_BYTES, SIZE_UPDATE_TO_0, TABLE_SIZE_BYTES, Headers
from rmqserver.doors.grpc import http2_frames as frames
from rmqserver.doors.grpc.http2_frames import FRAME_HEAD, U32, Broken, ErrorCode, StreamEvent, frame

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


class _Stream(msgspec.Struct, gc=False):
    """``room`` is what the peer's window of the stream takes; ``uncredited_bytes`` have come, and were not given back
    to our window."""

    room: int
    has_peer_ended: bool
    uncredited_bytes: int = 0


_HELLO = (
    frame(frames.SETTINGS, 0, 0, b"".join(frames.SETTING.pack(*each) for each in (
        (frames.ENABLE_PUSH, 0), (frames.MAX_STREAMS, STREAMS_MAX), (frames.INITIAL_WINDOW, STREAM_WINDOW_BYTES),
        (frames.MAX_HEADERS, HEADER_BLOCK_MAX_BYTES),
    )))
    + frame(frames.WINDOW_UPDATE, 0, 0, U32.pack(CONNECTION_WINDOW_BYTES - frames.FIRST_WINDOW_BYTES))
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
        self._room = self._first_room = frames.FIRST_WINDOW_BYTES
        """What the peer's windows take: of the connection, and of a new stream."""
        self._uncredited_bytes = 0
        self._events: list[StreamEvent] = []
        self._gone: set[int] = set()
        self._cancelled_count = 0
        self.queued: dict[int, deque[tuple[memoryview, bytes]]] = {}
        """Data that waits for a window, by stream, and the trailers behind it, if these end the stream."""
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
        except (Broken, ProtocolError) as error:  # the latter from a header block
            code = error.code if isinstance(error, Broken) else ErrorCode.COMPRESSION_ERROR
            self.is_over = True
            self._out.append(frame(frames.GOAWAY, 0, 0, frames.TWO_U32.pack(self._last_stream, code)))
            raise ProtocolError(f"HTTP/2: {error}") from None
        if self._has_more_room:  # once, however many windows the bytes open
            self._has_more_room = False
            for stream in list(self.queued):
                self._send_queued(stream)
        events, self._events = self._events, []
        if self._gone:
            # What a client cancels with the same bytes is over before it can be answered, and is not begun.
            gone, self._gone = self._gone, set()
            left = (event for event in events if event.stream not in gone)
            events = [*(StreamEvent(stream, is_gone=True) for stream in sorted(gone)), *left]
        return events

    def _take_frames(self, data: bytes) -> int:
        """Takes whole frames, as many as one turn has; where the next one begins."""
        self.has_more = False
        at, end = self._begin_of_frames(data), len(data)
        count = settings_count = asked_count = 0
        take_call, is_plain = self._decoder.take_call_untrusted, self._has_settings
        while end - at >= FRAME_HEAD.size and self._has_preface:
            if is_plain and count + 1 < self._frames_at_once and self._block is None:
                call = take_call(data, at, self._last_stream)
                if call is not None:
                    stream, headers, body, at = call
                    count += 2
                    asked_count += body != b""
                    self._uncredited_bytes += len(body)
                    self._take_request(stream, headers, body)
                    continue
            size_and_kind, flags, stream = FRAME_HEAD.unpack_from(data, at)
            size, kind = size_and_kind >> 8, size_and_kind & 255
            if size > FRAME_SIZE_MAX_BYTES:
                text = f"a frame of {size} bytes is longer than {FRAME_SIZE_MAX_BYTES}"
                raise Broken(text, ErrorCode.FRAME_SIZE_ERROR)
            after = at + FRAME_HEAD.size + size
            if after > end:
                break
            stream &= frames.NUMBER
            if not self._has_settings and (kind != frames.SETTINGS or flags & frames.ACK):
                raise Broken("the first frame is not of settings")
            if self._block is not None and (kind != frames.CONTINUATION or stream != self._block[0]):
                raise Broken("a header block does not go on")
            if count == self._frames_at_once:
                self._end_turn(asked_count)
                break
            count += 1
            asked_count += (kind == frames.DATA and size > 0) - (kind == frames.RST_STREAM)
            settings_count += kind == frames.SETTINGS
            if settings_count > SETTINGS_AT_ONCE_MAX:
                raise Broken("so many settings at once are not taken", ErrorCode.ENHANCE_YOUR_CALM)
            frames.check_shape(kind, stream, size)
            take = _TAKE.get(kind)
            if take is not None:  # else a priority, a farewell, or an extension
                take(self, flags, stream, data[at + FRAME_HEAD.size : after])
            at = after
        if self._uncredited_bytes > CONNECTION_WINDOW_BYTES // 2:
            self._out.append(frame(frames.WINDOW_UPDATE, 0, 0, U32.pack(self._uncredited_bytes)))
            self._uncredited_bytes = 0
        return at

    def _begin_of_frames(self, data: bytes) -> int:
        if self._has_preface:
            return 0
        if not frames.PREFACE.startswith(data[: len(frames.PREFACE)]):
            raise Broken("the connection does not begin with its preface")
        self._has_preface = len(data) >= len(frames.PREFACE)
        return len(frames.PREFACE) if self._has_preface else 0

    def _end_turn(self, asked_count: int) -> None:
        """More is left. ``asked_count``: of the frames of this turn, those of data less those that cancel."""
        self.has_more = True
        # While an answer waits, its client may open windows by many small frames.
        self.asks_little = 4 * asked_count < self._frames_at_once and not self.queued
        self._frames_at_once = FRAMES_AT_ONCE_MIN if self.asks_little else FRAMES_AT_ONCE_MAX

    def _take_headers(self, flags: int, stream: int, payload: bytes) -> None:
        if flags & frames.PADDED:
            payload = frames.unpadded(payload)
        if flags & frames.HAS_PRIORITY:
            frames.check_size(len(payload) >= frames.PRIORITY_SIZE_BYTES)
            payload = payload[frames.PRIORITY_SIZE_BYTES :]
        self._block = stream, bool(flags & frames.END_STREAM), bytearray()
        self._take_continuation(flags, stream, payload)

    def _take_continuation(self, flags: int, stream: int, payload: bytes) -> None:
        if self._block is None:
            raise Broken("no header block goes on")
        _, is_last, block = self._block
        block += payload
        self._block_bytes += FRAME_HEAD.size + len(payload)
        if self._block_bytes > HEADER_BLOCK_MAX_BYTES:
            raise Broken(f"header blocks of more than {HEADER_BLOCK_MAX_BYTES} bytes", ErrorCode.ENHANCE_YOUR_CALM)
        if flags & frames.END_HEADERS:
            self._block, self._block_bytes = None, 0
            self._take_request(stream, self._decoder.decode_untrusted(bytes(block)), b"" if is_last else None)

    def _take_request(self, stream: int, headers: Headers, data: bytes | None) -> None:
        """``data`` is the whole body; None if it is still to come."""
        found = self._streams.get(stream)
        if found is not None:  # trailers
            if found.has_peer_ended or data is None:
                code = ErrorCode.STREAM_CLOSED if found.has_peer_ended else ErrorCode.PROTOCOL_ERROR
                self._break_stream(stream, code)
            else:
                found.has_peer_ended = True
                self._events.append(StreamEvent(stream, is_last=True))
            return
        if not stream & 1 or stream <= self._last_stream:
            raise Broken(f"stream {stream} cannot be opened now")
        self._last_stream = stream
        if len(self._streams) >= STREAMS_MAX:
            self._tell_reset(stream, ErrorCode.REFUSED_STREAM)
        elif (metadata := frames.metadata_of(headers)) is None:
            self._tell_reset(stream, ErrorCode.PROTOCOL_ERROR)
        else:
            is_whole = data is not None
            self._streams[stream] = _Stream(self._first_room, is_whole)
            self._events.append(StreamEvent(stream, metadata, data or b"", is_whole))

    def _take_data(self, flags: int, stream: int, payload: bytes) -> None:
        """Windows open again as soon as data has come: the caller limits how much it keeps."""
        size = len(payload)
        self._uncredited_bytes += size
        found = self._streams.get(stream)
        if found is None:
            self._check_known(stream)
            self._tell_reset(stream, ErrorCode.STREAM_CLOSED)
            return
        if found.has_peer_ended:
            self._break_stream(stream, ErrorCode.STREAM_CLOSED)
            return
        if flags & frames.PADDED:
            payload = frames.unpadded(payload)
        found.has_peer_ended = bool(flags & frames.END_STREAM)
        if payload or found.has_peer_ended:
            self._events.append(StreamEvent(stream, None, payload, found.has_peer_ended))
        found.uncredited_bytes += size
        if found.uncredited_bytes > STREAM_WINDOW_BYTES // 2 and not found.has_peer_ended:
            self._out.append(frame(frames.WINDOW_UPDATE, 0, stream, U32.pack(found.uncredited_bytes)))
            found.uncredited_bytes = 0

    def _take_reset(self, flags: int, stream: int, payload: bytes) -> None:
        self._check_known(stream)
        if stream in self._streams:
            self._lose(stream)
        elif U32.unpack(payload)[0] == ErrorCode.CANCEL:  # it crosses the end of the answer, which nobody reads
            self._events.append(StreamEvent(stream, is_gone=True))

    def _take_settings(self, flags: int, stream: int, payload: bytes) -> None:
        if flags & frames.ACK:
            frames.check_size(not payload)
            return
        self._has_settings, said = True, frames.settings_of(payload)
        first_room = said.get(frames.INITIAL_WINDOW, self._first_room)
        if first_room != self._first_room:
            more, self._first_room = first_room - self._first_room, first_room
            for each in self._streams.values():
                each.room += more
            if max([first_room, *(each.room for each in self._streams.values())]) > frames.WINDOW_MAX_BYTES:
                raise Broken("a window is too wide", ErrorCode.FLOW_CONTROL_ERROR)
            self._has_more_room = True
        if said.get(frames.HEADER_TABLE_SIZE, TABLE_SIZE_BYTES) < TABLE_SIZE_BYTES:
            self._before_block = SIZE_UPDATE_TO_0
        self._out.append(frame(frames.SETTINGS, frames.ACK, 0, b""))

    def _take_ping(self, flags: int, stream: int, payload: bytes) -> None:
        if not flags & frames.ACK:
            self._out.append(frame(frames.PING, frames.ACK, 0, payload))

    def _take_window(self, flags: int, stream: int, payload: bytes) -> None:
        more = U32.unpack(payload)[0] & frames.NUMBER
        self._has_more_room = True
        if not stream:
            self._room += more
            if not more or self._room > frames.WINDOW_MAX_BYTES:
                raise Broken("a window opens by nothing, or is too wide", _window_error(more))
            return
        self._check_known(stream)
        found = self._streams.get(stream)
        if found is not None:
            found.room += more
            if not more or found.room > frames.WINDOW_MAX_BYTES:
                self._break_stream(stream, _window_error(more))

    def _check_known(self, stream: int) -> None:
        if not stream & 1 or stream > self._last_stream:
            raise Broken(f"there is no stream {stream}")

    def _break_stream(self, stream: int, code: ErrorCode) -> None:
        """The peer has broken the rules of one stream."""
        self._lose(stream)
        self._tell_reset(stream, code)

    def _lose(self, stream: int) -> None:
        self._forget(stream)
        self._gone.add(stream)
        self._cancelled_count += 1
        if self._cancelled_count > CANCELLED_MAX:
            raise Broken("so many calls are cancelled", ErrorCode.ENHANCE_YOUR_CALM)

    # --- bytes out ---------------------------------------------------------------------------------------------------

    def put(self, stream: int, head: bytes = b"", data: bytes = b"", trailers: bytes = b"") -> None:
        """Sends what is given of an answer, as the peer's windows allow; the trailers' block ends it."""
        found, size = self._streams.get(stream), len(data)
        if found is None:
            return
        fits = size <= found.room and size <= self._room and size <= FRAME_SIZE_MAX_BYTES
        if head and trailers and fits and found.has_peer_ended and not self._before_block:  # nearly every answer
            self._room -= size
            self._out += (
                FRAME_HEAD.pack(len(head) << 8 | frames.HEADERS, frames.END_HEADERS, stream), head,
                FRAME_HEAD.pack(size << 8 | frames.DATA, 0, stream), data,
                FRAME_HEAD.pack(len(trailers) << 8 | frames.HEADERS, frames.END_ALL, stream), trailers,
            )  # fmt: skip
            self._ended_well(stream)
            return
        if head:
            self._put_headers(stream, head)
        if data or stream in self.queued:
            # What is cut off is not copied.
            self.queued.setdefault(stream, deque()).append((memoryview(data), trailers))
            self.queued_bytes += size
            self._send_queued(stream)
        elif trailers:
            self._put_trailers(stream, trailers)

    def unanswered(self) -> list[int]:
        """The streams of which no end of an answer was given."""
        return [stream for stream in self._streams if stream not in self.queued]

    def go_away(self) -> None:
        """Tells the peer to take another connection for what it asks from now on, and for what was not read here."""
        self._out.append(frame(frames.GOAWAY, 0, 0, frames.TWO_U32.pack(self._last_stream, ErrorCode.NO_ERROR)))

    @property
    def held_bytes(self) -> int:
        """Of frames that were not taken, or are not whole."""
        return len(self._rest) + self._block_bytes

    def close(self) -> None:
        """Forgets what it holds; the connection is gone."""
        self._rest, self._block, self._block_bytes = b"", None, 0
        self._out.clear()
        self._streams.clear()
        self.queued.clear()

    def to_send(self) -> bytes:
        """The bytes for the peer, which are then forgotten."""
        out, self._out = self._out, []
        return b"".join(out)

    def _put_headers(self, stream: int, block: bytes, flags: int = frames.END_HEADERS) -> None:
        block, self._before_block = self._before_block + block, b""
        self._out.append(frame(frames.HEADERS, flags, stream, block))

    def _put_trailers(self, stream: int, block: bytes) -> None:
        self._put_headers(stream, block, frames.END_ALL)
        if not self._streams[stream].has_peer_ended:  # it need not send the rest of its request
            self._tell_reset(stream, ErrorCode.NO_ERROR)
        self._ended_well(stream)

    def _ended_well(self, stream: int) -> None:
        self._forget(stream)
        self._cancelled_count -= self._cancelled_count > 0

    def _tell_reset(self, stream: int, code: ErrorCode) -> None:
        self._out.append(frame(frames.RST_STREAM, 0, stream, U32.pack(code)))

    def _send_queued(self, stream: int) -> None:
        queue, found = self.queued[stream], self._streams[stream]
        while queue:
            data, trailers = queue.popleft()
            while data:
                room = min(found.room, self._room, FRAME_SIZE_MAX_BYTES)
                if room <= 0:
                    queue.appendleft((data, trailers))
                    return
                part, data = data[:room], data[room:]
                self._out.append(frame(frames.DATA, 0, stream, part))
                found.room -= len(part)
                self._room -= len(part)
                self.queued_bytes -= len(part)
            if trailers:
                del self.queued[stream]
                self._put_trailers(stream, trailers)
                return
        del self.queued[stream]

    def _forget(self, stream: int) -> None:
        del self._streams[stream]
        if stream in self.queued:
            self.queued_bytes -= sum(len(data) for data, _ in self.queued.pop(stream))


def _window_error(more: int) -> ErrorCode:
    return ErrorCode.FLOW_CONTROL_ERROR if more else ErrorCode.PROTOCOL_ERROR


# Bound to each connection, they would keep it until the garbage collector comes.
_TAKE: dict[int, Callable[[Http2, int, int, bytes], None]] = {
    frames.DATA: Http2._take_data, frames.HEADERS: Http2._take_headers, frames.CONTINUATION: Http2._take_continuation,
    frames.RST_STREAM: Http2._take_reset, frames.SETTINGS: Http2._take_settings, frames.PING: Http2._take_ping,
    frames.WINDOW_UPDATE: Http2._take_window,
}  # fmt: skip
