"""Header blocks of HTTP/2 (HPACK, RFC 7541): decodes those of a peer, and encodes ours, which use no table and so are
the same on every connection. The decoder has a twin in C."""

from __future__ import annotations

import struct
from collections import deque

from rmqproto.errors import ProtocolError

Headers = list[tuple[bytes, bytes]]

TABLE_SIZE_BYTES = 4096
"""Of what a peer may have us remember: the value of RFC 9113, which no setting of ours changes."""
LIST_SIZE_MAX_BYTES = 32 << 10
"""Of one request's headers. A block of a few bytes can name the longest entry of the table again and again."""
ENTRY_SIZE_BYTES = 32
"""What a header counts beside its name and value."""

SIZE_UPDATE_TO_0 = b"\x20"
"""Must begin our first block after a peer has made its table smaller; ours never put anything into it."""

_STATIC_TEXT = """
:authority | :method GET | :method POST | :path / | :path /index.html | :scheme http | :scheme https | :status 200 |
:status 204 | :status 206 | :status 304 | :status 400 | :status 404 | :status 500 | accept-charset | accept-encoding
gzip, deflate | accept-language | accept-ranges | accept | access-control-allow-origin | age | allow | authorization |
cache-control | content-disposition | content-encoding | content-language | content-length | content-location |
content-range | content-type | cookie | date | etag | expect | expires | from | host | if-match | if-modified-since |
if-none-match | if-range | if-unmodified-since | last-modified | link | location | max-forwards | proxy-authenticate |
proxy-authorization | range | referer | refresh | retry-after | server | set-cookie | strict-transport-security |
transfer-encoding | user-agent | vary | via | www-authenticate
"""
"""The static table: names, and what they have as a value."""

_SIZES = """
13 23 28 28 28 28 28 28 28 24 30 28 28 30 28 28 28 28 28 28 28 28 30 28 28 28 28 28 28 28 28 28 6 10 10 12 13 6 8 11
10 10 8 11 8 6 6 6 5 5 5 6 6 6 6 6 6 6 7 8 15 6 12 10 13 6 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 8 7 8 13 19 13
14 6 15 5 6 5 6 5 6 6 6 5 7 7 6 6 6 5 6 7 6 5 5 6 7 7 7 7 7 15 11 14 13 28 20 22 20 20 22 22 22 23 22 23 23 23 23 23
24 23 24 24 22 23 24 23 23 23 23 21 22 23 22 23 23 24 22 21 20 22 22 23 23 21 23 22 22 24 21 22 23 23 21 21 22 21 23
22 23 23 20 22 22 22 23 22 22 23 26 26 20 19 22 23 22 25 26 26 26 27 27 26 24 25 19 21 26 27 27 26 27 24 21 21 26 26
28 27 27 27 20 24 20 21 22 21 21 23 22 22 25 25 24 24 26 23 26 27 26 26 27 27 27 27 27 28 27 27 27 27 27 26 30
"""
CODE_SIZES = bytes(map(int, _SIZES.split()))
"""How many bits the Huffman code of each byte has, and of the end. Codes of one size follow each other in the order of
bytes, and shorter ones come first."""

STATIC_HEADERS = (
    (b"", b""),
    *(
        (name.encode(), value.encode())
        for name, _, value in (each.strip().partition(" ") for each in _STATIC_TEXT.replace("\n", " ").split(" | "))
    ),
)
"""They count from 1."""
_STATIC_MAX = len(STATIC_HEADERS) - 1

FRAME_SIZE_MAX_BYTES = 16_384
# length u24, as u16 and u8 | type u8 | flags u8 | stream u32
_FRAME_HEAD = struct.Struct(">HBBBI")
_WHOLE_HEADERS, _LAST_DATA = (1, 4), (0, 1)
"""Type and flags: HEADERS with END_HEADERS, DATA with END_STREAM."""
_STREAM = 0x7FFF_FFFF

_EOS = 256


def _huffman_codes() -> dict[tuple[int, int], int]:
    """The symbols by the size and the bits of their codes."""
    found: dict[tuple[int, int], int] = {}
    code = size_before = 0
    for size, symbol in sorted((size, symbol) for symbol, size in enumerate(CODE_SIZES)):
        code <<= size - size_before
        found[size, code] = symbol
        code, size_before = code + 1, size
    return found


_SYMBOLS = _huffman_codes()
_SIZES_OF_CODES = sorted({*CODE_SIZES})


def encode_block(headers: Headers) -> bytes:
    """Each header spelled out, for nobody to remember."""
    return b"".join(b"\0" + _encode_text(name) + _encode_text(value) for name, value in headers)


def _encode_text(text: bytes) -> bytes:
    size = len(text)
    if size < 127:
        return bytes((size,)) + text
    head, size = bytearray((127,)), size - 127
    while size > 127:
        head.append(size & 127 | 128)
        size >>= 7
    head.append(size)
    return bytes(head) + text


class HeaderDecoder:
    """The table of one peer. After an error it is of no more use."""

    def __init__(self) -> None:
        self._entries: deque[tuple[bytes, bytes]] = deque()
        """The newest first."""
        self._size_bytes = 0
        self._size_max_bytes = TABLE_SIZE_BYTES

    def decode_untrusted(self, block: bytes) -> Headers:
        """The headers of a whole block. ProtocolError if it is none, or if they are too long."""
        try:
            return self._decode(block)
        except IndexError:
            raise ProtocolError("a header block ends too early, or names an entry that is not there") from None

    def take_call_untrusted(self, data: bytes, at: int, last_stream: int) -> tuple[int, Headers, bytes, int] | None:
        """A call that comes whole: two plain frames, its headers and its only data, on a stream that begins behind
        ``last_stream``. Returns the stream, the headers, the data, and where the next frame begins. None, with nothing
        done, if anything else begins there; ProtocolError as ``decode_untrusted``."""
        block_at = at + _FRAME_HEAD.size
        if len(data) < block_at + _FRAME_HEAD.size:
            return None
        high, low, kind, flags, stream = _FRAME_HEAD.unpack_from(data, at)
        size, stream = high << 8 | low, stream & _STREAM
        after = block_at + size
        if (kind, flags) != _WHOLE_HEADERS or size > FRAME_SIZE_MAX_BYTES or len(data) < after + _FRAME_HEAD.size:
            return None
        high, low, kind, flags, of_stream = _FRAME_HEAD.unpack_from(data, after)
        size, body_at = high << 8 | low, after + _FRAME_HEAD.size
        if (kind, flags) != _LAST_DATA or size > FRAME_SIZE_MAX_BYTES or len(data) < body_at + size:
            return None
        if of_stream & _STREAM != stream or not stream & 1 or stream <= last_stream:
            return None
        headers = self.decode_untrusted(data[block_at:after])
        return stream, headers, data[body_at : body_at + size], body_at + size

    def _decode(self, block: bytes) -> Headers:
        found: Headers = []
        entries = self._entries
        at, end, size_bytes = 0, len(block), 0
        while at < end:
            byte = block[at]
            at += 1
            if byte & 0x80:  # a header of a table
                index = byte & 0x7F
                if index == 0x7F:
                    index, at = _integer(block, at, index)
                header = STATIC_HEADERS[index] if index <= _STATIC_MAX else entries[index - _STATIC_MAX - 1]
                if not index:
                    raise IndexError
            elif byte & 0xE0 == 0x20:
                size, at = _integer(block, at, byte & 0x1F) if byte == 0x3F else (byte & 0x1F, at)
                if found or size > TABLE_SIZE_BYTES:
                    raise ProtocolError("a header table cannot have this size, or not here")
                self._size_max_bytes = size
                self._evict()
                continue
            else:
                mask = 0x3F if byte & 0x40 else 0x0F
                index = byte & mask
                if index == mask:
                    index, at = _integer(block, at, mask)
                if index:
                    name = (STATIC_HEADERS[index] if index <= _STATIC_MAX else entries[index - _STATIC_MAX - 1])[0]
                else:
                    name, at = _text(block, at)
                value, at = _text(block, at)
                header = name, value
                if byte & 0x40:
                    entries.appendleft(header)
                    self._size_bytes += len(name) + len(value) + ENTRY_SIZE_BYTES
                    if self._size_bytes > self._size_max_bytes:
                        self._evict()
            size_bytes += len(header[0]) + len(header[1]) + ENTRY_SIZE_BYTES
            if size_bytes > LIST_SIZE_MAX_BYTES:
                raise ProtocolError(f"headers of more than {LIST_SIZE_MAX_BYTES} bytes are not taken")
            found.append(header)
        return found

    def _evict(self) -> None:
        while self._size_bytes > self._size_max_bytes:
            name, value = self._entries.pop()
            self._size_bytes -= len(name) + len(value) + ENTRY_SIZE_BYTES


def _integer(block: bytes, at: int, value: int) -> tuple[int, int]:
    """A number past its prefix, and where it ends."""
    for shift in range(0, 28, 7):
        byte = block[at]
        at += 1
        value += (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ProtocolError("a number in a header block is too long")


def _text(block: bytes, at: int) -> tuple[bytes, int]:
    byte = block[at]
    size, at = byte & 0x7F, at + 1
    if size == 0x7F:
        size, at = _integer(block, at, size)
    after = at + size
    if after > len(block):
        raise IndexError
    return (_unpacked(block[at:after]) if byte & 0x80 else block[at:after]), after


def _unpacked(packed: bytes) -> bytes:
    """The text of Huffman codes, which ends with up to seven bits of padding."""
    found = bytearray()
    bits, left = int.from_bytes(packed, "big"), 8 * len(packed)
    while left:
        for size in _SIZES_OF_CODES:
            symbol = _SYMBOLS.get((size, bits >> left - size & (1 << size) - 1)) if size <= left else None
            if symbol is not None:
                break
        else:
            break
        if symbol == _EOS:
            raise ProtocolError("a header is no Huffman code")
        found.append(symbol)
        left -= size
    if left >= 8 or ~bits & (1 << left) - 1:
        raise ProtocolError("a header ends amid a Huffman code")
    return bytes(found)
