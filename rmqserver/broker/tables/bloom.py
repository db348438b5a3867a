"""The bits of a group's subscription to a topic in the bit maps of consume queue extensions (``BloomFilter``,
``BloomFilterData``, 5.5.0). We write no such extensions. But the positions are part of ``consumerFilter.json``, and an
Apache broker that reads other positions there drops the whole file."""

from __future__ import annotations

import math
from dataclasses import dataclass

_MASK = (1 << 64) - 1
_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F
_BLOCK_BYTES = 16


@dataclass(frozen=True, slots=True)
class Bloom:
    """``bit_count`` bits, of which each name sets ``hash_count``."""

    bit_count: int
    hash_count: int

    @classmethod
    def of(cls, error_percent: int, name_count: int) -> Bloom:
        """A filter for this number of names (``expectConsumerNumUseFilter``) and this percentage of false positives
        (``maxErrorRateOfBloomFilter``)."""
        error_rate = min(max(error_percent, 1), 99) / 100
        hash_count = math.ceil(math.log(error_rate) / math.log(0.5))
        bit_count = math.ceil(max(name_count, 1) * math.log2(1 / error_rate) * math.log2(math.e))
        return cls(bit_count=(bit_count + 7) // 8 * 8, hash_count=hash_count)

    def positions(self, group: str, topic: str) -> list[int]:
        """The bits of a group's subscription."""
        both = murmur3_low64(f"{group}#{topic}".encode())
        low, high = both & 0xFFFFFFFF, both >> 32
        found = []
        for step in range(1, self.hash_count + 1):
            combined = (low + step * high) & 0xFFFFFFFF
            if combined >> 31:  # negative in Java, which flips all bits then
                combined ^= 0xFFFFFFFF
            found.append(combined % self.bit_count)
        return found


def murmur3_low64(data: bytes) -> int:
    """The first 64 of the 128 bits of MurmurHash3_x64_128 with seed 0 (Guava's ``murmur3_128``), unsigned."""
    h1 = h2 = 0
    whole = len(data) // _BLOCK_BYTES * _BLOCK_BYTES
    for start in range(0, whole, _BLOCK_BYTES):
        h1 ^= _mix1(int.from_bytes(data[start : start + 8], "little"))
        h1 = (_rotated(h1, 27) + h2) * 5 + 0x52DCE729 & _MASK
        h2 ^= _mix2(int.from_bytes(data[start + 8 : start + 16], "little"))
        h2 = (_rotated(h2, 31) + h1) * 5 + 0x38495AB5 & _MASK
    tail = data[whole:]
    h2 ^= _mix2(int.from_bytes(tail[8:], "little"))
    h1 ^= _mix1(int.from_bytes(tail[:8], "little"))
    h1 ^= len(data)
    h2 ^= len(data)
    h1 = h1 + h2 & _MASK
    h2 = h2 + h1 & _MASK
    return _final(h1) + _final(h2) & _MASK


def _mix1(block: int) -> int:
    return _rotated(block * _C1 & _MASK, 31) * _C2 & _MASK


def _mix2(block: int) -> int:
    return _rotated(block * _C2 & _MASK, 33) * _C1 & _MASK


def _rotated(value: int, count: int) -> int:
    return (value << count | value >> 64 - count) & _MASK


def _final(value: int) -> int:
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & _MASK
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return value ^ value >> 33
