"""Numbers as Java reads and shows them."""

import math

import pytest

from rmqproto.filters.sql92.java_values import (
    ClassCastError,
    JavaError,
    Long,
    Value,
    compare,
    double,
    double_order,
    double_text,
    int32,
    int64,
)
from tests.support.quick import in_one_test


@in_one_test(
    ("5", 5), ("+5", 5), ("-0", 0), ("007", 7), ("2147483647", 2147483647), ("-2147483648", -2147483648), ("٣", 3),
    ("-" + "0" * 5000 + "5", -5), ("0" * 5000, 0),
)  # fmt: skip
def test_whole_numbers(text: str, value: int) -> None:
    assert int32(text) == int64(text) == value


@in_one_test("", "+", "-", "5.0", " 5", "5 ", "5_0", "0x5", "--5", "²", "𝟓", "2147483648", "-2147483649", "9" * 5000)
def test_what_is_no_whole_number_of_32_bits(text: str) -> None:
    with pytest.raises(JavaError):
        int32(text)


@in_one_test(
    ("5", 5.0), (" 5\t", 5.0), ("5.", 5.0), (".5", 0.5), ("5e1", 50.0), ("5d", 5.0), ("5F", 5.0),
    ("1e999", math.inf), ("-Infinity", -math.inf), ("0x1p3", 8.0), ("0X.8P1d", 1.0), ("0x1p99999", math.inf),
    ("-0x1p99999", -math.inf),
)  # fmt: skip
def test_doubles(text: str, value: float) -> None:
    assert double(text) == value


@in_one_test("", " ", "nan", "inf", "infinity", "5_0", "٣", "5dd", "0x1", "1e", ".", "\u00a05", "NaNd")
def test_what_is_no_double(text: str) -> None:
    with pytest.raises(JavaError):
        double(text)


def test_order_of_doubles() -> None:
    """-Infinity, numbers, -0.0, 0.0, Infinity, NaN."""
    ordered = [-math.inf, -1.0, -0.0, 0.0, 1.0, math.inf, math.nan]
    for left_place, left in enumerate(ordered):
        for right_place, right in enumerate(ordered):
            assert double_order(left, right) == (left_place > right_place) - (left_place < right_place)


@in_one_test(
    (5.0, "5.0"), (0.5, "0.5"), (0.001, "0.001"), (1e-4, "1.0E-4"), (9999999.0, "9999999.0"), (1e7, "1.0E7"),
    (100.0, "100.0"), (-12345678.9, "-1.23456789E7"), (1.7976931348623157e308, "1.7976931348623157E308"),
    (5e-324, "4.9E-324"),
)  # fmt: skip
def test_doubles_as_text(value: float, text: str) -> None:
    assert double_text(value) == text


@in_one_test(
    ("5", 5, 0), (5, "6", -1), ("5", 5.0, 0), (Long(5), "3000000000", -1), ("TRUE", True, 0), ("x", True, -1),
    (True, 5, -1), (5, True, -1), ("a", "b", -1), (5, 5.5, -1), (Long(1 << 60), float(1 << 60), 0),
    (True, False, 1),
)  # fmt: skip
def test_values_of_two_classes(left: Value, right: Value, order: int) -> None:
    assert compare(left, right) == order


def test_apache_cannot_compare_a_boolean_with_text() -> None:
    with pytest.raises(ClassCastError):
        compare(True, "true")
