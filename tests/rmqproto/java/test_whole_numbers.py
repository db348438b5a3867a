"""Numbers that users write."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.java.whole_numbers import decimal_number, signed_number, whole_number

PYTHONS_OWN = ["5_000", "\u0665", "nan", "inf", "-Infinity", "0x10", "1e999", "", " ", "+", ".", "1 0", "\uff11"]


@pytest.mark.parametrize("text", PYTHONS_OWN)
def test_what_only_python_takes_is_no_number(text: str) -> None:
    assert (decimal_number(text), signed_number(text), whole_number(text)) == (None, None, None)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_decimal_number_is_read(number: float) -> None:
    assert decimal_number(f" {number!r} ") == number


@given(st.integers(-(10**18), 10**18))
def test_a_whole_number_is_read(number: int) -> None:
    assert signed_number(f" {number} ") == number
    assert decimal_number(str(number)) == float(number)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    found = decimal_number(text)
    assert found is None or math.isfinite(found)
