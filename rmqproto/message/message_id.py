"""The two ids of a message, by its place in the store and by its maker (``MessageDecoder.createMessageId`` and
``MessageClientIDSetter``, 5.5.0). Both are upper-case hex of big-endian fields."""

from __future__ import annotations

import binascii
import ipaddress
import os
import struct
import time
from collections.abc import Callable
from threading import Lock

import msgspec

from rmqproto.errors import ProtocolError
from rmqproto.hosts import join

# offset id: store address (4 or 16) | port i32 | log offset i64
_OFFSET_ID_TAIL = struct.Struct(">iq")
# unique id: address (4) | process id u16 | class loader hash i32 | ms since the month began i32 | counter u16
_UNIQUE_ID = struct.Struct(">4sHIIH")


class OffsetId(msgspec.Struct, frozen=True):
    """A decoded offset message id: the broker that stores the message, and its commit log offset."""

    host: str
    port: int
    log_offset: int

    @property
    def address(self) -> str:
        return join(self.host, self.port)


def offset_id(store_host: bytes, log_offset: int) -> str:
    """An offset message id. ``store_host`` is 4 or 16 address bytes and the port as i32, as in a record."""
    return (store_host + log_offset.to_bytes(8, "big", signed=True)).hex().upper()


def parse_offset_id_untrusted(text: str) -> OffsetId:
    """ProtocolError for anything but 32 (IPv4) or 56 (IPv6) hex digits."""
    if len(text) not in (32, 56):
        raise ProtocolError(f"{text!r} is not an offset message id: 32 or 56 hex digits are needed, not {len(text)}")
    try:
        raw = binascii.unhexlify(text)  # not bytes.fromhex, which ignores white space
    except ValueError:
        raise ProtocolError(f"{text!r} is not an offset message id: not hex") from None
    address, tail = raw[:-12], raw[-12:]
    port, log_offset = _OFFSET_ID_TAIL.unpack(tail)
    return OffsetId(str(ipaddress.ip_address(address)), port, log_offset)


class UniqueIds:
    """Makes unique keys (property UNIQ_KEY). One per process and address; safe to use from any thread."""

    def __init__(self, address: bytes = b"\x7f\0\0\1", clock_s: Callable[[], float] = time.time):
        assert len(address) == 4
        self._address = address
        self._clock_s = clock_s
        # Java hashes its class loader here. It only matters that two makers in one process differ.
        self._maker = int.from_bytes(os.urandom(4), "big")
        self._counter = int.from_bytes(os.urandom(2), "big")
        self._month_start_s, self._month_end_s = 0.0, 0.0
        self._lock = Lock()

    def next(self) -> str:
        with self._lock:
            now_s = self._clock_s()
            if not self._month_start_s <= now_s < self._month_end_s:
                self._start_month(now_s)
            self._counter = (self._counter + 1) & 0xFFFF
            since_ms = int((now_s - self._month_start_s) * 1000)
            fields = (self._address, os.getpid() & 0xFFFF, self._maker, since_ms & 0xFFFFFFFF, self._counter)
        return _UNIQUE_ID.pack(*fields).hex().upper()

    def _start_month(self, now_s: float) -> None:
        today = time.localtime(now_s)
        first = (today.tm_year, today.tm_mon, 1, 0, 0, 0, 0, 0, -1)
        following = (today.tm_year, today.tm_mon + 1, 1, 0, 0, 0, 0, 0, -1)  # mktime accepts month 13
        self._month_start_s, self._month_end_s = time.mktime(first), time.mktime(following)
