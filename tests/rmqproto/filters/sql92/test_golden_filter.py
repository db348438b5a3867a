"""Results of Apache's own filter for handwritten and thousands of random expressions: ours gives the same result for
every message, and the same message for every refused expression."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest

from rmqproto.filters.sql92 import Sql92Error, compile_sql92

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
