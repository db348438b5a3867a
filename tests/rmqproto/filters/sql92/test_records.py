"""Functions that look properties up in a record's bytes agree with the parser that reads all properties."""

from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rmqproto.filters.sql92 import (
    Sql92Error,
    compile_sql92,
    compile_sql92_for_records,
    compile_sql92_for_values,
    compiler,
)
from rmqproto.filters.sql92.parser import parse
from rmqproto.message import properties
from tests.rmqproto.filters.sql92 import interpreter
from tests.rmqproto.filters.sql92.expressions import NAMES, VALUES, expression

names = st.sampled_from((*NAMES, "xa", "aa", ""))
values = st.one_of(st.sampled_from(VALUES), st.text("ab5\x01", max_size=3))
entries = st.builds("{}\x01{}\x02".format, names, values).map(str.encode)
raw_properties = st.lists(st.one_of(entries, entries, st.binary(max_size=3)), max_size=8).map(b"".join)


def as_mapping(raw: bytes) -> dict[str, str]:
    return properties.parse(raw.decode("utf-8", "replace"))


@given(st.integers(0, 1 << 62), st.lists(raw_properties, min_size=1, max_size=10))
def test_a_record_is_taken_that_an_interpreter_of_the_tree_takes(seed: int, found: list[bytes]) -> None:
    text = expression(Random(seed))
    try:
        tree = parse(text)
    except Sql92Error:
        return
    matches = compile_sql92_for_records(text)
    names, matches_values = compile_sql92_for_values(text)
    for raw in found:
        wanted = interpreter.matches(tree, as_mapping(raw))
        assert matches(raw) is wanted, (text, raw)
        values = [properties.find_bytes(raw, name) or None for name in names]
        assert matches_values(*values) is wanted, (text, raw)


@pytest.mark.slow
@given(raw_properties, st.sampled_from(NAMES))
@example(b"a\x011", "a")  # the first property, and without an end
@example(b"b\x011\x02a\x012", "a")
@example(b"a\x011\x02a\x012\x02", "a")  # the last one counts
@example(b"a\x011\x02b\x012\x02a\x01\x02", "a")  # unless it is empty
@example(b"a\x01\x02", "a")
@example(b"a\x01", "a")
@example(b"b\x01\x02a\x01", "a")
@example(b"\x02a\x011\x02", "a")
@example(b"xa\x011\x02", "a")
@example(b"b\x01a\x011\x02", "a")  # inside a value
@example(b"b\x011\x02xa\x012\x02", "a")
@example(b"a\x01\xff\x02", "a")
@example(b"b\xe2\x02a\x01\xe2\x02", "a")
def test_a_property_is_found_as_in_the_whole(raw: bytes, name: str) -> None:
    value = as_mapping(raw).get(name)
    assert compile_sql92_for_records(f"{name} IS NULL")(raw) is (value is None)
    for text in {*VALUES, "\ufffd", value or ""} - {""}:
        literal = text.replace("'", "''")
        for condition in (f"= '{literal}'", f"IN ('x', '{literal}')", f"CONTAINS '{literal}'", f"ENDSWITH '{literal}'"):
            wanted = compile_sql92(f"{name} {condition}")(as_mapping(raw))
            assert compile_sql92_for_records(f"{name} {condition}")(raw) is wanted, condition


def test_all_of_many_properties_are_found() -> None:
    count = 40
    text = " AND ".join(f"p{number} = {number}" for number in range(count))
    raw = b"".join(b"p%d\x01%d\x02" % (number, number) for number in range(count))
    matches = compile_sql92_for_records(text)
    assert matches(raw)
    assert not any(matches(raw.replace(b"p%d\x01" % number, b"q%d\x01" % number)) for number in range(count))
    names, _ = compile_sql92_for_values(text)
    assert names == tuple(b"p%d\x01" % number for number in range(count))


def test_no_more_is_looked_at_than_decides() -> None:
    """An error in a term that Apache does not reach has no effect."""
    assert not compile_sql92_for_records("a = 'x' AND b > 5")(b"a\x01y\x02b\x01dear\x02")
    assert compile_sql92_for_records("a = 'x' OR b > 5")(b"a\x01x\x02b\x01dear\x02")
    assert not compile_sql92_for_records("b > 5 OR a = 'x'")(b"a\x01x\x02b\x01dear\x02")


@pytest.mark.parametrize(("condition", "taken"), [("> 5", range(6, 3000)), ("BETWEEN 7 AND 1000", range(7, 1001))])
def test_numbers_are_remembered_and_forgotten(condition: str, taken: range) -> None:
    matches = compile_sql92_for_records(f"a {condition}")
    for _ in range(2):
        assert [number for number in range(3000) if matches(b"a\x01%d\x02" % number)] == list(taken)
    numbers = compiler.NUMBERS["int32"]
    assert 0 < len(numbers) <= compiler.REMEMBERED_MAX
    assert not matches(b"a\x01dear\x02")
    assert matches(b"a\x01" + b"0" * compiler.REMEMBERED_MAX_BYTES + b"8\x02")
    assert {b"dear", b"0" * compiler.REMEMBERED_MAX_BYTES + b"8"}.isdisjoint(numbers)
