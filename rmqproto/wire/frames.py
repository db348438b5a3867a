"""Frames: the lengths around a command's header and body, and the one cutter that finds them in a stream of bytes.

Frame, all numbers big-endian:
    0  total length   u32   bytes that follow this word
    4  header codec   u8    0 JSON, 1 ROCKETMQ binary
    5  header length  u24
    8  header, then the body: what is left of the total length
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from rmqproto.errors import OtherProtocolError, ProtocolError

FRAME_SIZE_MAX_BYTES = 16_777_216
"""Apache's ``com.rocketmq.remoting.frameMaxLength``, counting the length word; a longer frame closes the connection."""

BODY_SIZE_MAX_BYTES = FRAME_SIZE_MAX_BYTES - (64 << 10)
"""The longest message that a send can carry: beside it the longest properties fit, and the other fields. Up to here it
is for the broker to decide (``maxMessageSize``)."""

_TOTAL_MAX_BYTES = FRAME_SIZE_MAX_BYTES - 4

_HEAD = struct.Struct(">II")
HEAD_SIZE_BYTES = _HEAD.size

# total size u32 | header codec u8, header size u24 | {"code": (8 bytes) | the four bytes with the code of a JSON
# request (b'310,' or b'11,"'), as a number: that costs a third of cutting them out
_PEEKING_HEAD = struct.Struct(">II8xI")
_PEEKING_SIZE_BYTES = _PEEKING_HEAD.size

_TLS_RECORDS = range(0x1403, 0x1804, 0x100)
"""The first two bytes of a TLS record, a hello or an alert: its type and 3, the major version."""

_HTTP_METHODS = frozenset(
    int.from_bytes(method, "big")
    for method in (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"CONN", b"OPTI", b"TRAC", b"PATC", b"PRI ", b"HTTP")
)
"""The first four bytes of an HTTP or HTTP/2 request, or of an HTTP answer."""

_HTTP_2 = int.from_bytes(b"PRI ", "big")

OnFrame = Callable[[Any, int, int, bytes, bytes], None]
"""Takes the cutter's owner, the header codec, bytes 8 to 11 of the header as a number, header and body. The number
means nothing if header and body together are shorter."""


def frame(header: bytes, body: bytes = b"", codec: int = 0) -> bytes:
    """Header and body with their lengths in front."""
    return _HEAD.pack(4 + len(header) + len(body), codec << 24 | len(header)) + header + body


def head_untrusted(data: bytes | bytearray | memoryview) -> tuple[int, int, int]:
    """Total length, header codec and header length of a frame that has at least its head. ProtocolError if they
    cannot be those of a frame."""
    total, mark = _HEAD.unpack_from(data)
    check_lengths_untrusted(total, mark & 0xFFFFFF)
    return total, mark >> 24, mark & 0xFFFFFF


def check_lengths_untrusted(total: int, header_size: int, data: bytes = b"") -> None:
    """ProtocolError if these cannot be the lengths of a frame. ``data`` begins with them."""
    if total >> 16 in _TLS_RECORDS:
        raise OtherProtocolError("these are bytes of TLS, and TLS is not spoken here", protocol="TLS", data=data)
    if total in _HTTP_METHODS:
        kind = "HTTP/2" if total == _HTTP_2 else "HTTP"
        raise OtherProtocolError(f"these are bytes of {kind}, and no frame of RocketMQ", protocol=kind, data=data)
    if total > _TOTAL_MAX_BYTES:
        raise ProtocolError(f"frame of {4 + total} bytes is longer than {FRAME_SIZE_MAX_BYTES}")
    if header_size > total - 4:
        raise ProtocolError(f"header of {header_size} bytes does not fit a frame of {4 + total}")


class FrameCutter:
    """Cuts a stream, which comes in any pieces, into frames, and calls ``on_frame`` with ``owner`` and each frame, in
    order. It does no I/O.

    ``held_bytes`` are kept for a later call: the beginning of one frame, at most FRAME_SIZE_MAX_BYTES. The owner may
    set ``is_stopped``. Then no more frames are cut, and the held bytes may include whole frames. The next call cuts
    them, even one without data.

    ``takers`` are for the native twin of this class (``rmqserver.core``): a list, which may change, of its objects. It
    offers them each JSON frame first; what one of them takes does not come to ``on_frame``.
    """

    __slots__ = ("_begun", "_is_closed", "_on_frame", "_owner", "_wanted_bytes", "held_bytes", "is_stopped")

    def __init__(self, on_frame: OnFrame, owner: object, takers: Sequence[Any] = ()):
        self._on_frame = on_frame
        self._owner = owner
        self._is_closed = False
        self._begun = bytearray()
        self._wanted_bytes = 0  # the size needed for the frame, or at least its head
        self.held_bytes = 0
        self.is_stopped = False

    def feed_untrusted(self, data: bytes) -> None:
        """Cuts the frames that ``data`` completes. ProtocolError if the data is not a frame; errors of ``on_frame`` are
        raised. The stream is then unusable."""
        self.is_stopped = self._is_closed
        if self.held_bytes:
            self._begun += data
            self.held_bytes = len(self._begun)
            if self.held_bytes < self._wanted_bytes:
                return
            data, self._begun, self.held_bytes = bytes(self._begun), bytearray(), 0
        # Cutting bytes, not a view: a view costs three times as much.
        at, end, wanted = 0, len(data), HEAD_SIZE_BYTES
        while end - at >= HEAD_SIZE_BYTES and not self.is_stopped:
            if end - at >= _PEEKING_SIZE_BYTES:
                total, mark, peeked = _PEEKING_HEAD.unpack_from(data, at)
            else:
                (total, mark), peeked = _HEAD.unpack_from(data, at), 0
            header_size = mark & 0xFFFFFF
            if total > _TOTAL_MAX_BYTES or header_size + 4 > total:
                check_lengths_untrusted(total, header_size, data[at:])
            frame_end = at + 4 + total
            if frame_end > end:
                wanted = 4 + total
                break
            body_at = at + 8 + header_size
            self._on_frame(self._owner, mark >> 24, peeked, data[at + 8 : body_at], data[body_at:frame_end])
            at = frame_end
        if at < end and not self._is_closed:
            self._begun += data[at:]
            self._wanted_bytes, self.held_bytes = wanted, len(self._begun)

    def hand_to(self, on_frame: OnFrame, takers: Sequence[Any] = ()) -> None:
        """Sets who gets frames, from the next one on."""
        self._on_frame = on_frame

    def close(self) -> None:
        """Cuts no more frames, not even in a call that is under way. Drops the owner and the held bytes."""
        self.is_stopped = self._is_closed = True
        self._owner = None
        self._begun, self.held_bytes = bytearray(), 0
