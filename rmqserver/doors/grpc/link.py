"""One connection of gRPC: its streams, the frames in them, and the calls that they are.

It stands in the place of a connection's frame cutter. Everything runs in the loop's thread; a call answers at once or
later, and its bytes leave at the end of the round.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from google.protobuf.message import DecodeError

from rmqserver.doors.grpc import call_bytes
from rmqserver.doors.grpc.call_checks import BODY_TOO_LARGE
from rmqserver.doors.grpc.codes import CallRefused, GrpcStatus
from rmqserver.doors.grpc.http2 import Http2
from rmqserver.doors.grpc.messages import CLASSES

if TYPE_CHECKING:
    from rmqproto.codes import RequestCode
    from rmqserver.doors.grpc.http2_frames import Metadata, StreamEvent
    from rmqserver.operation import GoOn
    from rmqserver.remoting.connection import Connection

LEFT_MAX = 16
"""Answers that have left whole, and that a cancel may still cross."""

_OTHER_ROLE = "the broker has another role now"


class CallKind:
    """A call of the service. ``code`` is of the request that does its work in the older protocol; telemetry has none:
    there the client sends any number of messages, and each is taken as it comes. ``take`` gets a message of the client,
    and answers now or later; ``refuse`` answers what was refused."""

    def __init__(
        self, name: str, code: RequestCode | None, take: Callable[[GrpcCall, Any], None],
        refuse: Callable[[GrpcCall, CallRefused], None] | None = None,
    ):  # fmt: skip
        self.name, self.code, self.take, self.is_stream = name, code, take, code is None
        self.request = CLASSES["TelemetryCommand" if self.is_stream else f"{name}Request"]
        self._response = CLASSES["TelemetryCommand" if self.is_stream else f"{name}Response"]
        self.refuse = refuse or self.refuse_at_once

    def refuse_at_once(self, call: GrpcCall, refusal: CallRefused) -> None:
        """With the status alone, even where the call's own refusals say more."""
        call.answer(self._response(status=refusal.status))


class CallTable(Protocol):
    """``GrpcService``, which says what each of these does."""

    def kind_of(self, path: bytes) -> CallKind | str: ...

    def plain_calls(self) -> Any: ...

    def take(self, call: GrpcCall, message: Any) -> None: ...

    def refuse(self, call: GrpcCall, error: Exception) -> None: ...


class GrpcCall:
    """One call: a peer of operations for as long as it lasts. ``closed`` once it has ended, or its client has cancelled
    it."""

    __slots__ = (
        "_begun", "_came_s", "_has_begun", "_stream", "address", "born_host", "closed", "is_answer_lost", "is_taken",
        "kind", "link", "local_addr", "local_host", "metadata", "on_lost", "real_address", "user",
    )  # fmt: skip

    def __init__(self, link: Link, stream: int, kind: CallKind, metadata: Metadata):
        connection = link.connection
        self.link, self.kind, self.metadata = link, kind, metadata
        self.address, self.born_host = connection.address, connection.born_host
        self.real_address = connection.real_address
        self.local_addr, self.local_host = connection.local_addr, connection.local_host
        self.user = ""
        """Who has signed the call; empty if nobody has to."""
        self.closed = False
        self.is_answer_lost = False
        """Whether the client is to wait for an answer in vain."""
        self.on_lost: Callable[[], None] | None = None
        """Called if the client goes away, or cancels, without its whole answer. To be set before that is given."""
        self._stream = stream
        self._came_s = time.monotonic()
        self._begun = bytearray()
        self._has_begun = False
        self.is_taken = False
        """Whether a message of the client was taken."""

    @property
    def client_id(self) -> str:
        return call_bytes.client_id_of(self.metadata)

    def left_ms(self) -> int | None:
        """Until the client's deadline; None if it waits for ever, or for more than a day."""
        wait_s = call_bytes.wait_s_of(self.metadata.get(b"grpc-timeout"))
        return int((self._came_s + wait_s - time.monotonic()) * 1000) if wait_s is not None else None

    # --- what the client sends ---------------------------------------------------------------------------------------

    def received(self, event: StreamEvent) -> None:
        if event.is_gone:
            self.cancelled()
            return
        self._begun += event.data
        self.link.message_bytes += len(event.data)
        self._take_messages()
        if event.is_last and not self.closed:
            self._client_is_done()

    def _take_messages(self) -> None:
        """Takes those that have come whole."""
        while not self.closed and len(self._begun) >= call_bytes.FRAME.size:
            compressed, size = call_bytes.FRAME.unpack_from(self._begun)
            after = call_bytes.FRAME.size + size
            if size > call_bytes.MESSAGE_SIZE_MAX_BYTES:
                return self.link.service.refuse(self, BODY_TOO_LARGE)
            if compressed and self.metadata.get(b"grpc-encoding") != b"gzip":
                return self.fail(GrpcStatus.UNIMPLEMENTED, "messages may only be compressed by gzip")
            if len(self._begun) < after:
                return None
            message = bytes(self._begun[call_bytes.FRAME.size : after])
            del self._begun[:after]
            self.link.message_bytes -= after
            self._take(message, is_packed=bool(compressed))
        return None

    def _client_is_done(self) -> None:
        """A unary call that brought no message has none; a stream ends with its client."""
        if self._begun:
            self.fail(GrpcStatus.INVALID_ARGUMENT, "the stream ends in the middle of a message")
        elif self.kind.is_stream:
            self.finish()
        elif not self.is_taken:
            self.fail(GrpcStatus.INVALID_ARGUMENT, "the call has no message")

    def _take(self, message: bytes, *, is_packed: bool) -> None:
        self.is_taken = True
        try:
            plain = call_bytes.unpacked_untrusted(message) if is_packed else message
            self.link.service.take(self, self.kind.request.FromString(plain))
        except (DecodeError, zlib.error):
            self.fail(GrpcStatus.INVALID_ARGUMENT, f"these bytes are no {self.kind.request.DESCRIPTOR.name}")
        except Exception as error:
            self.link.service.refuse(self, error)

    # --- what it gets ------------------------------------------------------------------------------------------------

    def send(self, message: Any) -> None:
        """Sends a message of a stream."""
        self._put(call_bytes.packed(message))

    def finish(self) -> None:
        """Ends a stream well."""
        self._put(end=call_bytes.DONE)

    def answer(self, message: Any) -> None:
        """Ends the call well, with this message."""
        self.answer_packed(call_bytes.packed(message))

    def answer_packed(self, data: bytes) -> None:
        """The same with whole messages, each behind its head."""
        self._put(data, call_bytes.DONE)

    def fail(self, code: GrpcStatus, text: str) -> None:
        """Ends the call with a status of gRPC."""
        self._put(end=call_bytes.status_block(code, text))

    def _put(self, data: bytes = b"", end: bytes = b"") -> None:
        """Does nothing once the call has ended. One whose answer is lost gets none, and ends with it."""
        if end and self.is_answer_lost:
            self.cancelled()
        if self.closed or self.is_answer_lost:
            return
        head, self._has_begun = b"" if self._has_begun else call_bytes.HEAD, True
        if data:
            self.link.http2.put(self._stream, head, data, end)
        else:
            self.link.http2.put(self._stream, trailers=head + end)
        if end:
            self._end()
        self.link.changed()

    def guarded(self, go_on: GoOn) -> None:
        """Goes on later, if the client still waits; what is raised becomes its answer."""
        if not self.closed:
            try:
                go_on()
            except Exception as error:
                self.link.service.refuse(self, error)

    def cancelled(self) -> None:
        """The client no longer waits."""
        if not self.closed:
            self._end()
            self.link.changed()

    def _end(self) -> None:
        self.closed = True
        self.link.message_bytes -= len(self._begun)
        self._begun.clear()
        self.link.ended(self._stream)

    # --- as a peer of operations -------------------------------------------------------------------------------------

    is_listening = False

    def notify(self, code: int, header: Any, body: bytes = b"") -> None:
        """A call is told nothing beside its answer."""

    def ask(self, code: int, header: Any, body: bytes, on_answer: Callable[[None], None], timeout_s: float) -> None:
        on_answer(None)

    def flush(self) -> None:
        self.link.connection.flush()

    def close(self, reason: str) -> None:
        self.fail(GrpcStatus.UNAVAILABLE, reason)


class Link:
    """Takes the place of a connection's frame cutter: ``feed_untrusted``, ``held_bytes``, ``close``."""

    def __init__(self, connection: Connection, service: CallTable):
        self.connection = connection
        self.service = service
        self.http2 = Http2()
        self.message_bytes = 0
        """Of messages that have not come whole."""
        self.is_stopped = False  # it holds no frames back: windows do that
        self._calls: dict[int, GrpcCall] = {}
        self._unread: dict[int, Callable[[], None]] = {}
        """What to call if the answer of a stream is lost, whose call has ended: it waits for the peer's windows, or a
        cancel may be on its way that crosses it."""
        self._is_feeding = False
        self._is_left = False
        """The client was told to take another connection: here it only gets the rest of its answers."""

    @property
    def held_bytes(self) -> int:
        return self.message_bytes + self.http2.held_bytes

    def has_room_for(self, size_bytes: int) -> bool:
        """Whether the client may leave so many bytes of answers more unread. A single answer always has room; others
        wait for its windows, for its socket, or for the end of the round."""
        limit_bytes = self.connection.service.limits.max_unread_bytes_per_connection
        unread_bytes = self.http2.queued_bytes + len(self.connection.unsent) + self.connection.queued_bytes
        return not unread_bytes or unread_bytes + size_bytes <= limit_bytes

    def feed_untrusted(self, data: bytes) -> None:
        """Takes bytes of the client. ProtocolError if they break the rules of HTTP/2."""
        self._is_feeding = True
        plain = None if self._is_left else self.service.plain_calls()
        try:
            for event in self.http2.received(data):
                if plain is None:
                    self.take(event)
                elif not plain.take(self, event):
                    plain.settle(self)  # what it has taken comes before the next
                    self.take(event)
                if self.connection.closed:
                    break
        finally:
            if plain is not None:
                plain.settle(self)
            self._is_feeding = False
            if self.http2.has_more:
                (self.connection.rest if self.http2.asks_little else self.connection.stop)()
            self.changed()
            if self.http2.is_over:  # the connection is closed next, and drops what has not left
                self.connection.flush()

    def take(self, event: StreamEvent) -> None:
        """Takes what belongs to a call that is not plain."""
        if event.metadata is not None and not self._is_left:
            self._begin(event.stream, event.metadata)
        call = self._calls.get(event.stream)
        if call is not None:
            call.received(event)
        elif event.is_gone and event.stream in self._unread:
            self._unread.pop(event.stream)()

    def _begin(self, stream: int, metadata: Metadata) -> None:
        kind = self.service.kind_of(metadata[b":path"])
        if not call_bytes.is_grpc(metadata):
            self.http2.put(stream, trailers=call_bytes.NO_GRPC)
        elif isinstance(kind, str):
            self.http2.put(stream, trailers=call_bytes.failure(GrpcStatus.UNIMPLEMENTED, kind))
        else:
            self._calls[stream] = GrpcCall(self, stream, kind, metadata)

    def waiting_count(self) -> int:
        """How many calls wait for their answers."""
        return sum(call.is_taken and not call.kind.is_stream for call in self._calls.values())

    def changed(self) -> None:
        """There may be bytes to send."""
        if self._is_feeding or self.connection.closed:
            return
        data = self.http2.to_send()
        if data:
            self.connection.put_out(data)
        if self.http2.queued_bytes != self.connection.waiting_bytes:
            self.connection.keeps(self.http2.queued_bytes)

    def ended(self, stream: int) -> None:
        call = self._calls.pop(stream)
        lost, call.on_lost = call.on_lost, None  # it knows the call
        if lost is not None:
            self._unread[stream] = lost
            while len(self._unread) > LEFT_MAX + len(self.http2.queued):
                del self._unread[next(each for each in self._unread if each not in self.http2.queued)]

    def answer(self, stream: int, data: bytes) -> None:
        """Sends whole messages, each behind its head, and the end of a plain call. Does nothing if it was cancelled."""
        self.http2.put(stream, call_bytes.HEAD, data, call_bytes.DONE)
        self.changed()

    def hand_to(self, on_frame: object, takers: object) -> None:
        """Another broker takes the place of this one, which has answered what it could. Calls that come too late for
        it are made anew by the clients' libraries, on a new connection."""
        for call in list(self._calls.values()):
            call.close(_OTHER_ROLE)
        for stream in self.http2.unanswered():  # plain calls, whose messages wait to be safe
            self.http2.put(stream, trailers=call_bytes.failure(GrpcStatus.UNAVAILABLE, _OTHER_ROLE))
        self.http2.go_away()
        self.changed()
        self._is_left = True

    def close(self) -> None:
        """The connection is gone, and with it every call."""
        for call in self._calls.values():
            call.closed = True
        self._calls.clear()
        self.message_bytes = 0
        for stream, lost in self._unread.items():
            if stream in self.http2.queued:
                lost()
        self._unread.clear()
        self.http2.close()
