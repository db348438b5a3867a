"""From a connection's bytes to handlers and back: the only place where requests are split, decoded and refused.

Most requests are JSON with ``code`` in front, as Java, Go and Node write it: the code is peeked, and one typed decoder
reads envelope and ext fields in half a microsecond. Requests that this decoder does not take (another codec, another
order of keys, a boolean in an unusual spelling) go the forgiving way through ``rmqproto`` and end in the same handler.

If the service has gates, they stand before the handler. After the handler, one hook turns an exception into an answer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from rmqproto.codes import RESPONSE_FLAG, ResponseCode
from rmqproto.errors import ProtocolError
from rmqproto.headers.base import Header, NoFields, from_ext, java_bools
from rmqproto.headers.request_table import REQUEST_HEADERS
from rmqproto.wire.command import Command, HeaderCodec, decode_ext_untrusted, decode_header_untrusted
from rmqserver.logs import Seldom
from rmqserver.operation import Refused
from rmqserver.remoting.answer import Request, refusal, send_answer
from rmqserver.remoting.connection import Connection, Cutter
from rmqserver.remoting.connection_state import ConnectionLimits, NoLimits
from rmqserver.remoting.gate import AtSight, Gate, GatePlace, Undecoded

log = logging.getLogger(__name__)

Handler = Callable[[Request[Any], Connection], bytes | None]
"""Takes a request and returns the answer's frame, or None if the answer comes later, by ``connection.send``. It never
waits. Refused, or an error that ``Service.as_refused`` turns into one, becomes an answer with an error code."""

IDLE_MAX_S = 120
"""Default of a service that sets no other."""

_TURNED_AWAY = {
    "TLS": "the client has TLS on, and this server speaks none: switch it off in the client "
    "(Java: -Dtls.enable=false, and no setUseTLS(true)), or give the server a certificate (tls.server.certPath and "
    "tls.server.keyPath, or for tests tls.test.mode.enable=true)",
    "HTTP": "an HTTP request came to a port of RocketMQ's remoting protocol: /metrics, /healthz and /readyz are on the "
    "port that --metrics-port opens",
    "HTTP/2": "a client of gRPC came, such as RocketMQ 5's clients with setEndpoints: its endpoints must name a broker",
}

# Looking up an enum member costs as much as all other work on it.
_JSON = int(HeaderCodec.JSON)

_CODE_AT = len('{"code":')
_CODE_DIGITS_MAX = 11
_PEEKED_CODES = range(10, 1000)
"""Codes of two and three digits: four bytes tell them from all others. Longer codes need all of their digits."""

_Typed = tuple[Callable[[bytes], Request[Any]], Handler, int]
"""Decoder, handler and request code."""


class Service:
    """A dispatch table over connections: the broker or the nameserver. Subclasses fill ``handlers``."""

    def __init__(self, name: str, handlers: Mapping[int, Handler]):
        """Until there are gates, any peer may send any request."""
        self.name = name
        self.idle_max_s = IDLE_MAX_S
        self.limits: ConnectionLimits = NoLimits()
        self.handlers = dict(handlers)
        self.takers: list[Any] = []
        """Those of ``offer_frames_to`` that may take frames now."""
        self._takers: list[tuple[Any, Callable[[Undecoded | None], None] | None]] = []
        self.other_doors: dict[str, Callable[[Connection], Cutter]] = {}
        """By the protocol that their peers speak."""
        self._by_place: dict[GatePlace, tuple[Gate, AtSight, Undecoded | None]] = {}
        self._gates: tuple[Gate, ...] = ()
        self._is_known: AtSight = _knows_none
        self._seldom = Seldom()
        self._typed: dict[int, _Typed] = {}  # by the four bytes behind {"code":
        self._typed_by_digits: dict[bytes, _Typed] = {}  # codes that four bytes do not identify
        for code, handler in self.handlers.items():
            header = REQUEST_HEADERS.get(code, NoFields)
            code = int(code)
            decode: Callable[[bytes], Request[Any]] = _decode_bare
            if header is not NoFields:
                decode = _decoder(header)
            if code in _PEEKED_CODES:
                self._typed[int.from_bytes(f'{code},"'[:4].encode(), "big")] = (decode, handler, code)
            else:
                self._typed_by_digits[str(code).encode()] = (decode, handler, code)

    def add_handlers(self, handlers: Mapping[int, Handler]) -> None:
        """For codes whose requests have no ext fields. Call it before anything is served."""
        self.handlers.update(handlers)

    def use_gate(
        self, place: GatePlace, gate: Gate | None, at_sight: AtSight | None = None, undecoded: Undecoded | None = None
    ) -> None:
        """Puts a gate in its place, from the next request on; None leaves the place empty."""
        if gate is None:
            self._by_place.pop(place, None)
        else:
            self._by_place[place] = gate, at_sight or _knows_none, undecoded
        line = [self._by_place[each] for each in sorted(self._by_place)]
        self._gates = tuple(gate for gate, _, _ in line)
        self._is_known = line[0][1] if len(line) == 1 else _knows_none
        self._offer_frames()

    def offer_frames_to(self, taker: Any, ask: Callable[[Undecoded | None], None] | None = None) -> None:
        """A taker of the native core, such as its plain sends: frames that it takes do not come here. While there are
        gates it gets none, unless there is but one that can tell by undecoded requests: then ``ask`` is called with
        its look, which the taker must ask, and with None when nobody is to be asked any more."""
        self._takers.append((taker, ask))
        self._offer_frames()

    def _offer_frames(self) -> None:
        line = [undecoded for _, _, undecoded in self._by_place.values()]
        undecoded = line[0] if len(line) == 1 else None
        for _, ask in self._takers:
            if ask is not None:
                ask(undecoded)
        self.takers[:] = [taker for taker, ask in self._takers if not line or (undecoded and ask)]

    def gates_at(self, places: Iterable[GatePlace]) -> list[Gate]:
        """The gates that stand in these places, for another door to ask."""
        return [self._by_place[each][0] for each in places if each in self._by_place]

    def as_refused(self, error: Exception) -> Refused | None:
        """The answer to an error of a handler or a gate. None for our own mistakes, which are logged. A subclass maps
        its own errors and leaves the rest to this method."""
        return Refused(ResponseCode.SYSTEM_ERROR, str(error)) if isinstance(error, ProtocolError) else None

    def end_round(self) -> None:
        """Called when everything that came in this wake-up is handled and nothing is sent yet."""

    def idle(self) -> None:
        """Called while the next request is on its way: time for ten microseconds of deferred work."""

    def connection_closed(self, connection: Connection) -> None:
        """Called once when a connection is gone."""

    def other_door(self, connection: Connection, protocol: str) -> Cutter | None:
        """The door of a peer that speaks that protocol; None if it is turned away."""
        open_door = self.other_doors.get(protocol)
        return open_door(connection) if open_door is not None else None

    def turned_away(self, connection: Connection, protocol: str, reason: str | None = None) -> None:
        """Called after a peer was disconnected that speaks another protocol, or failed in its own. Logs ``reason``, or
        what to do about the protocol, each seldom."""
        reason = reason or _TURNED_AWAY[protocol]
        if self._seldom.is_due(reason):
            log.warning(
                "event=turned-away protocol=%s service=%s port=%s peer=%s reason=%r",
                protocol, self.name, connection.local_addr.rpartition(":")[2], connection.address, reason,
            )  # fmt: skip

    def handle_untrusted(self, connection: Connection, codec: int, peeked: int, header: bytes, body: bytes) -> None:
        """Handles one frame, as the connection's cutter found it. ProtocolError if it has no valid header: the
        connection is then of no further use."""
        if codec == _JSON:
            typed = self._typed.get(peeked)
            if typed is None:
                code_end = header.find(b",", _CODE_AT, _CODE_AT + _CODE_DIGITS_MAX)
                typed = self._typed_by_digits.get(header[_CODE_AT:code_end])
        else:
            typed = None
        if typed is not None:
            decode, handler, code = typed
            try:
                request = decode(header)
            except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
                pass
            else:
                # A header with two codes was decoded by its first and holds its last. The gates must not judge one and
                # let the other pass.
                gates = self._gates
                if not request.flag & RESPONSE_FLAG and (not gates or request.code == code):
                    request.body, request.codec, request.raw_header = body, codec, header
                    if not gates or (codec == _JSON and self._is_known(request, header, connection)):
                        self._call(handler, request, connection)
                    else:  # the typed decoders skip fields that a gate may want
                        wants_ext = any(gate.wants_ext for gate in gates)
                        ext = decode_ext_untrusted(codec, header) if wants_ext else {}
                        self._call_guarded(handler, request, ext, connection)
                    return
        command = decode_header_untrusted(codec, header, body)
        if command.is_answer:
            connection.answered(command)
        else:
            self._handle_command(connection, command)

    def _call_guarded(
        self, handler: Handler, request: Request[Any], ext: Mapping[str, str], connection: Connection
    ) -> None:
        for gate in self._gates:
            try:
                take_over = gate.admit(request, ext, connection)
            except Exception as error:
                send_answer(request, connection, self._refusal(error, request, connection))
                return
            if take_over is not None:
                take_over(lambda error: self._call(handler if error is None else _raises(error), request, connection))
                return
        self._call(handler, request, connection)

    def _handle_command(self, connection: Connection, command: Command) -> None:
        """The forgiving way: any codec, any order of keys, any spelling of a boolean."""
        request: Request[Header] = Request(
            code=command.code,
            opaque=command.opaque,
            header=NoFields(),
            flag=command.flag,
            language=command.language,
            version=command.version,
            body=command.body,
            codec=int(command.codec),
        )
        handler = self.handlers.get(command.code, _not_supported)
        if handler is not _not_supported:
            try:
                request.header = from_ext(command.ext, REQUEST_HEADERS.get(command.code, NoFields))
            except ProtocolError as error:
                handler = _raises(error)
        self._call_guarded(handler, request, command.ext, connection)

    def _call(self, handler: Handler, request: Request[Any], connection: Connection) -> None:
        try:
            answer = handler(request, connection)
            if answer is None:
                return
        except Exception as error:
            answer = self._refusal(error, request, connection)
        send_answer(request, connection, answer)

    def _refusal(self, error: Exception, request: Request[Any], connection: Connection) -> bytes:
        """The answer to an error of a handler or a gate."""
        refused = error if isinstance(error, Refused) else self.as_refused(error)
        if refused is None:
            log.error("service=%s code=%d peer=%s", self.name, request.code, connection.address, exc_info=error)
            refused = Refused(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
        # Its frames may refer to it. A flood of refusals would leave them all to the garbage collector, which would
        # then hold up everything for some tenths of a second.
        error.__traceback__ = error.__context__ = None
        return refusal(request, refused.code, refused.remark, refused.header)


def _decoder(header: type[Header]) -> Callable[[bytes], Request[Any]]:
    """The typed decoder of a whole header. It takes "1" for true, where Java reads false. So a boolean that is true in
    any but the two usual spellings goes the forgiving way."""
    decode: Callable[[bytes], Request[Any]] = msgspec.json.Decoder(Request[header], strict=False).decode  # type: ignore[valid-type]
    bools = [
        (field.name, [(spelling % field.encode_name).encode() for spelling in ('"%s":"true"', '"%s":true')])
        for field in msgspec.structs.fields(header)
        if field.encode_name in java_bools(header)
    ]
    if not bools:
        return decode

    def decode_untrusted(data: bytes) -> Request[Any]:
        request = decode(data)
        for name, spellings in bools:
            if getattr(request.header, name) and not any(spelling in data for spelling in spellings):
                raise msgspec.ValidationError(f"{name} is not spelled as usual")
        return request

    return decode_untrusted


class _Bare(Request[Any]):
    """For a code without ext fields: the request has none, null, or some that no handler asks for."""

    header: dict[str, str] | None = msgspec.field(default=None, name="extFields")


_bare_json: Callable[[bytes], Request[Any]] = msgspec.json.Decoder(_Bare, strict=False).decode


def _decode_bare(data: bytes) -> Request[Any]:
    request = _bare_json(data)
    request.header = NoFields()
    return request


def _knows_none(request: Request[Any], header: bytes, connection: Connection) -> bool:
    return False


def _not_supported(request: Request[Any], connection: Connection) -> bytes:
    raise Refused(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {request.code} not supported")


def _raises(error: Exception) -> Handler:
    def handler(request: Request[Any], connection: Connection) -> bytes:
        raise error

    return handler
