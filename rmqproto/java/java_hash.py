"""Java's ``String.hashCode``, which RocketMQ uses for tags (consume queues, subscriptions) and for index slots.

``h = 31 * h + unit`` over the UTF-16 code units, wrapped to signed 32 bits. ASCII is read as two numbers in base 31,
one of the high and one of the low nibbles, because ``int`` does that loop in C."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, repeat

# The tables are made in few Python steps, because every start waits for them. A byte's high and low nibble as digits of
# base 31 (0-9, a-f); two lookups with bytes.translate.
_DIGITS = b"0123456789abcdefghijklmnopqrstu"
_HIGH = b"".join(_DIGITS[high : high + 1] * 16 for high in range(16))
_LOW = _DIGITS[:16] * 16

_INT_DIGITS_MAX = 4000  # the interpreter refuses int() of more than 4,300 digits
_MASK = 0xFFFFFFFF
SIGN = 0x80000000
_POWERS_COUNT = 256
_POWERS = list(accumulate(repeat(31, _POWERS_COUNT - 1), lambda power, base: power * base & _MASK, initial=1))

# Bytes from "0" on as single digits of base 31. All others become something that int() refuses.
_CAPITALS = (b"!" * 48 + _DIGITS).ljust(256, b"!")
# The hash of a text of n characters "0", at index n.
_ZEROS = list(accumulate(_POWERS[:-1], lambda zeros, power: zeros + 48 * power & _MASK, initial=0))


def extend_hash(prefix_hash: int, text: str) -> int:
    """Unsigned 32-bit hash of ``prefix + text``, given the unsigned hash of ``prefix`` (0 for an empty one)."""
    if not text:
        return prefix_hash
    if text.isascii() and len(text) <= _INT_DIGITS_MAX:
        raw = text.encode("ascii")
        own = int(raw.translate(_HIGH), 31) * 16 + int(raw.translate(_LOW), 31)
        return (prefix_hash * pow(31, len(raw), 1 << 32) + own) & _MASK
    units = text.encode("utf-16-be", "surrogatepass")
    value = prefix_hash
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & _MASK
    return value


def extend_hash_utf8(prefix_hash: int, raw: bytes) -> int:
    """As ``extend_hash`` for UTF-8 bytes, and twice as fast for short ASCII: an index needs three keys per message."""
    size = len(raw)
    if 0 < size < _POWERS_COUNT and raw.isascii():
        own = int(raw.translate(_HIGH), 31) * 16 + int(raw.translate(_LOW), 31)
        return (prefix_hash * _POWERS[size] + own) & _MASK
    return extend_hash(prefix_hash, raw.decode("utf-8", "replace"))


def extend_hashes_id(prefix_hashes: Sequence[int], raws: Sequence[bytes]) -> list[int]:
    """``extend_hash_utf8`` of each pair, and twice as fast for the characters of unique keys: digits and capital
    letters up to N are single digits of base 31 after 48 is subtracted from each."""
    try:
        return [
            (prefix_hash * _POWERS[len(raw)] + _ZEROS[len(raw)] + int(raw.translate(_CAPITALS), 31)) & _MASK
            for prefix_hash, raw in zip(prefix_hashes, raws, strict=True)
        ]
    except (ValueError, IndexError):  # one of them has other characters, or none
        return list(map(extend_hash_utf8, prefix_hashes, raws))


def abs_hash(unsigned_hash: int) -> int:
    """``Math.abs`` of the hash, as in Java; 0 for the one number that has no absolute value
    (``IndexFile.indexKeyHashMethod``, 5.5.0)."""
    return unsigned_hash if unsigned_hash < SIGN else (1 << 32) - unsigned_hash & 0x7FFFFFFF


def java_hash(text: str) -> int:
    """``String.hashCode`` as Java gives it: signed 32 bits."""
    value = extend_hash(0, text)
    return value - (1 << 32) if value & SIGN else value


def place_by_hash(key: str, place_count: int) -> int:
    """The place from 0 to ``place_count`` - 1 of a key among a topic's queues (``SelectMessageQueueByHash``, 5.5.0).
    Java's remainder has the sign of the hash."""
    return abs(java_hash(key)) % place_count


def tag_code(tags: str | None) -> int:
    """The tags code of a consume queue unit: the hash of the whole TAGS text, 0 without TAGS."""
    return java_hash(tags) if tags else 0


# --- jump hash -------------------------------------------------------------------------------------------------------

_FACTOR = 2862933555777941757
_LONG_MASK = (1 << 64) - 1
_STEPS = float(1 << 31)


def jump_hash(key: int, place_count: int) -> int:
    """A place from 0 to ``place_count`` - 1 for a Java long. One more place moves as few keys as possible
    (``Hashing.consistentHash`` of Guava, which is Lamping and Veach's). Apache's proxy and broker, 5.5.0, use it to
    find the queue of a lite topic."""
    state, place = key & _LONG_MASK, 0
    while True:
        state = (_FACTOR * state + 1) & _LONG_MASK
        following = int((place + 1) / (((state >> 33) + 1) / _STEPS))
        if following >= place_count:
            return place
        place = following
