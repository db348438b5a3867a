"""SQL92 filters: what they are compiled to, and what Apache's said of the same."""

import contextlib
import json
import lzma
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.filters.sql92 import Sql92Error, compile_sql92
from rmqproto.filters.sql92.parser import LENGTH_MAX, NESTING_MAX, TOKEN_COUNT_MAX, parse
from tests.rmqproto.filters.sql92 import interpreter
from tests.rmqproto.filters.sql92.expressions import expression, properties


@given(st.integers(0, 1 << 62))
def test_the_function_says_what_an_interpreter_of_the_tree_says(seed: int) -> None:
    random = Random(seed)
    text = expression(random)
    try:
        tree = parse(text)
    except Sql92Error:
        return
    matches = compile_sql92(text)
    for _ in range(10):
        message = properties(random)
        assert matches(message) is interpreter.matches(tree, message), (text, message)


@given(st.text())
def test_any_text_compiles_or_is_refused(text: str) -> None:
    with contextlib.suppress(Sql92Error):
        assert compile_sql92(text)({"a": "5"}) in (True, False)


def test_an_error_behind_a_null_counts_though_the_and_is_decided() -> None:
    """``kind = 'x'`` is null, so Apache goes on to ``price > 5``, fails there and never reaches TRUE."""
    matches = compile_sql92("(kind = 'x' AND price > 5) OR TRUE")
    assert not matches({"price": "dear"})
    assert matches({"price": "dear", "kind": "y"})
    assert matches({"price": "6"})


def test_names_and_text_are_quoted_in_the_generated_function() -> None:
    value = "'); import os; ("
    matches = compile_sql92(f"a = '{value.replace(chr(39), chr(39) * 2)}'")
    assert matches({"a": value})
    assert not matches({"a": "x"})


# --- hostile ---------------------------------------------------------------------------------------------------------


NESTED = {
    "brackets": lambda depth: "(" * depth + "a = 1" + ")" * depth,
    "nots": lambda depth: "NOT " * depth + "a",
    "pluses": lambda depth: "+" * depth + "a = '1'",
    "minuses": lambda depth: "- " * depth + "a = '1'",
    "equalities": lambda depth: "a" + " = b" * depth,
    "null tests": lambda depth: "a" + " IS NULL" * depth,
    "contains": lambda depth: "a" + " CONTAINS 'x'" * depth,
    "right ands and ors": lambda depth: "(a = 1 AND b > 2 OR NOT " * depth + "c" + ")" * depth,
    "brackets full of chains": lambda depth: "(" * depth + "a" + " IS NULL IS NULL IS NULL)" * depth,
}


@pytest.mark.parametrize("shape", NESTED)
def test_the_deepest_that_is_taken_compiles_and_runs(shape: str) -> None:
    depth = 1
    with contextlib.suppress(Sql92Error):
        while depth <= NESTING_MAX:
            compile_sql92(NESTED[shape](depth))({"a": "1", "b": "3"})
            depth += 1
    assert depth > NESTING_MAX // 7
    with pytest.raises(Sql92Error, match="nested more than"):
        compile_sql92(NESTED[shape](1500))


@pytest.mark.parametrize(
    "text",
    [
        " OR ".join(["a=1"] * 2000),
        " AND ".join(["NOT (+a > -b)"] * 900),
        " AND ".join(f"p{number} > {number} OR q{number} IS NULL" for number in range(800)),
        "a IN (" + ",".join(f"'{number}'" for number in range(4000)) + ")",
        "a = '" + "x" * (LENGTH_MAX - 10) + "'",
        "a = 5 " + "/**/" * 10_000,
    ],
    ids=range(6),
)
def test_long_ones_within_the_limits_compile(text: str) -> None:
    assert compile_sql92(text)({}) in (True, False)


@pytest.mark.parametrize(
    "text",
    [
        "a" * (LENGTH_MAX + 1), " OR ".join(["a=1"] * TOKEN_COUNT_MAX), "'" + "''" * 30_000, "/*" + "*" * 60_000,
        "+(" * 20_000, ".5" * 20_000, "-" * 60_000, "5" * 60_000, "a IN (" * 10_000,
    ],
    ids=range(9),
)  # fmt: skip
def test_hostile_ones_are_refused(text: str) -> None:
    with pytest.raises(Sql92Error):
        compile_sql92(text)


FILE = Path(__file__).parents[3] / "golden/sql92/filter.jsonl.xz"


def test_every_expression_means_what_it_means_to_apache() -> None:
    with lzma.open(FILE, "rt") as lines:
        maps = json.loads(next(lines))
        count = 0
        for line in lines:
            expression, remark, *results = json.loads(line)
            count += 1
            if remark is not None:
                with pytest.raises(Sql92Error) as caught:
                    compile_sql92(expression)
                assert caught.value.remark == remark, expression
                continue
            matches = compile_sql92(expression)
            for properties, result in zip(maps, results[0], strict=True):
                assert matches(properties) is (result == "T"), (expression, properties, result)
    assert count > 3000
