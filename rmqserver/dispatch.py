"""From a connection's bytes to handlers and back: the one place where requests are split, decoded and refused.

Most requests are JSON with ``code`` in front, as Java, Go and Node write it: the code is peeked, and one typed decoder
reads envelope and ext fields in half a microsecond. Whatever that decoder does not take - another codec, another order
of keys, a boolean that is none - goes the forgiving way through ``rmqproto`` and ends in the same handler.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from rmqproto import header_msgpack
from rmqproto.codes import RESPONSE_FLAG, ResponseCode
from rmqproto.command import (
    FRAME_SIZE_MAX_BYTES,
    Command,
    HeaderCodec,
    check_head_untrusted,
    decode_header_untrusted,
)
from rmqproto.errors import ProtocolError
from rmqproto.headers import REQUEST_HEADERS, Header, NoFields, from_ext
from rmqserver.answer import MSGPACK_OFFERED, Deferred, Refused, Request, refusal, send_answer
from rmqserver.connection import Connection

log = logging.getLogger(__name__)

Handler = Callable[[Request[Any], Connection], "bytes | Deferred"]

# total size u32 | header codec u8, header size u24 | the header: {"code": | four bytes that tell a JSON request's code
# (b'310,' or b'11,"'), as a number: that is a third of the cost of cutting them out
_HEAD = struct.Struct(">II8xI")
_SHORT_HEAD = struct.Struct(">II")
_TOTAL_MAX_BYTES = FRAME_SIZE_MAX_BYTES - 4
# To look an enum's member up costs as much as all else that is done with it.
_JSON, _MSGPACK = int(HeaderCodec.JSON), int(HeaderCodec.MSGPACK)


class Service:
    """A dispatch table over connections: the broker or the nameserver. Subclasses fill ``handlers``."""

    def __init__(self, name: str, handlers: Mapping[int, Handler]):
        self.name = name
        self.handlers = dict(handlers)
        self._typed: dict[int, tuple[Callable[[bytes], Request[Any]], Handler]] = {}
        self._typed_msgpack: dict[bytes, tuple[Callable[[bytes], Request[Any]], Handler]] = {}
        for code, handler in self.handlers.items():
            header = REQUEST_HEADERS.get(code)
            if header is not None and 10 <= code <= 999:
                peeked = int.from_bytes(f'{code},"'[:4].encode(), "big")
                typed = Request[header]  # type: ignore[valid-type]
                self._typed[peeked] = (msgspec.json.Decoder(typed, strict=False).decode, handler)
                decode = msgspec.msgpack.Decoder(typed, strict=False).decode
                self._typed_msgpack[header_msgpack.peeked(code)] = (decode, handler)

    def end_round(self) -> None:
        """Called when all that came in this wake-up is handled and nothing is sent yet."""

    def idle(self) -> None:
        """Called while the next request is on its way: a moment for ten microseconds of work that was put off."""

    def connection_closed(self, connection: Connection) -> None:
        """Called once when a connection is gone."""

    def process_untrusted(self, connection: Connection, data: bytes) -> int:
        """Handles the complete frames in ``data``, up to one after which the connection ``is_stopped``; returns how
        many bytes they took.

        ProtocolError for what is no frame: the connection is of no use any more.
        """
        at, end = 0, len(data)
        while end - at >= 8:
            if end - at >= _HEAD.size:
                total, mark, peeked = _HEAD.unpack_from(data, at)
            else:
                (total, mark), peeked = _SHORT_HEAD.unpack_from(data, at), 0
            header_size = mark & 0xFFFFFF
            if total > _TOTAL_MAX_BYTES or header_size + 4 > total:
                check_head_untrusted(total, header_size)
            frame_end = at + 4 + total
            if frame_end > end:
                break
            body_at = at + 8 + header_size
            self._handle_untrusted(connection, mark >> 24, peeked, data[at + 8 : body_at], data[body_at:frame_end])
            at = frame_end
            if connection.is_stopped:
                break
        return at

    def _handle_untrusted(self, connection: Connection, codec: int, peeked: int, header: bytes, body: bytes) -> None:
        if codec == _JSON:
            typed = self._typed.get(peeked)
        elif codec == _MSGPACK:
            typed = self._typed_msgpack.get(header[header_msgpack.CODE_AT : header_msgpack.CODE_END])
        else:
            typed = None
        if typed is not None:
            decode, handler = typed
            try:
                request = decode(header)
            except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
                pass
            else:
                if not request.flag & RESPONSE_FLAG:
                    request.body, request.codec = body, codec
                    self._call(handler, request, connection)
                    return
        command = decode_header_untrusted(codec, header, body)
        if command.is_answer:
            connection.answered(command)
        else:
            self._handle_command(connection, command)

    def _handle_command(self, connection: Connection, command: Command) -> None:
        """The forgiving way: any codec, any order of keys, any spelling of a boolean."""
        header_type = REQUEST_HEADERS.get(command.code, NoFields)
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
        if request.codec == _JSON and header_msgpack.is_offered(command.ext):
            request.codec = MSGPACK_OFFERED
        handler = self.handlers.get(command.code)
        if handler is None:
            text = f" request type {command.code} not supported"
            send_answer(request, connection, refusal(request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, text))
            return
        try:
            request.header = from_ext(command.ext, header_type)
        except ProtocolError as error:
            send_answer(request, connection, refusal(request, ResponseCode.SYSTEM_ERROR, str(error)))
            return
        self._call(handler, request, connection)

    def _call(self, handler: Handler, request: Request[Any], connection: Connection) -> None:
        try:
            answer = handler(request, connection)
            if isinstance(answer, Deferred):
                return
        except Refused as refused:
            answer = refusal(request, refused.code, refused.remark, refused.header)
        except ProtocolError as error:
            answer = refusal(request, ResponseCode.SYSTEM_ERROR, str(error))
        except Exception as error:
            log.exception("service=%s code=%d peer=%s", self.name, request.code, connection.peer)
            answer = refusal(request, ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
        send_answer(request, connection, answer)
