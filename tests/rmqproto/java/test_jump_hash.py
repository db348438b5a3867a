"""The queue of a lite topic, against values of Guava's ``Hashing.consistentHash`` applied to Java's ``hashCode``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.java.java_hash import java_hash, jump_hash

PLACES = (1, 2, 4, 8, 16, 100, 1000)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("session-1", (0, 0, 3, 3, 10, 98, 98)),
        ("session-2", (0, 0, 2, 4, 9, 92, 501)),
        ("a", (0, 0, 0, 0, 0, 29, 346)),
        ("order_7", (0, 1, 2, 6, 6, 57, 431)),
        ("Zz-9", (0, 1, 3, 7, 7, 66, 675)),
        ("x", (0, 1, 1, 4, 12, 36, 36)),
        ("device-000001", (0, 0, 0, 5, 5, 37, 611)),
    ],
)
def test_places_are_those_of_guava(text: str, expected: tuple[int, ...]) -> None:
    assert tuple(jump_hash(java_hash(text), count) for count in PLACES) == expected


@given(st.integers(-(2**31), 2**31 - 1), st.integers(1, 1000))
def test_one_more_place_moves_a_key_there_or_nowhere(key: int, count: int) -> None:
    assert 0 <= jump_hash(key, count) < count
    assert jump_hash(key, count + 1) in (jump_hash(key, count), count)
