"""Bit positions as Apache's brokers compute them."""

from __future__ import annotations

import pytest

from rmqserver.broker.tables.bloom import Bloom, murmur3_low64


def test_default_filter_of_a_recorded_group() -> None:
    """The filter is from the ``consumerFilter.json`` of a real 5.5.0."""
    bloom = Bloom.of(error_percent=20, name_count=32)
    assert (bloom.bit_count, bloom.hash_count) == (112, 3)
    assert bloom.positions("SqlGroup", "NormalTopic") == [48, 92, 24]


@pytest.mark.parametrize(
    ("error_percent", "name_count", "bit_count", "hash_count"),
    [(10, 128, 616, 4), (20, 64, 216, 3), (1, 100, 960, 7), (99, 1, 8, 1)],
)
def test_sizes(error_percent: int, name_count: int, bit_count: int, hash_count: int) -> None:
    assert Bloom.of(error_percent, name_count) == Bloom(bit_count, hash_count)


@pytest.mark.parametrize(
    ("data", "hash"),
    [
        (b"", 0),
        (b"hello", 0xCBD8A7B341BD9B02),
        (b"The quick brown fox jumps over the lazy dog", 0xE34BBC7BBC071B6C),
    ],
)
def test_murmur3(data: bytes, hash: int) -> None:
    assert murmur3_low64(data) == hash
