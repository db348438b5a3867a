"""SQL92 expressions beside Apache's own filter, with new random ones in every run, and a broker's answers to
expressions that it refuses."""

import json
import os
import re
import subprocess
from pathlib import Path
from random import Random

import pytest

from rmqproto.bodies.groups import CheckClientRequest, SubscriptionData
from rmqproto.codes import RequestCode
from rmqproto.filters.sql92 import Sql92Error, compile_sql92
from rmqproto.wire import fastjson
from tests.rmqproto.filters.sql92.expressions import expression, properties
from tests.support.wire import Wire

from ..apache import java_command
from ..cluster import Cluster

pytestmark = pytest.mark.interop

COUNT = 2000
MAPS = 10
TIMEOUT_S = 120
_SMALLEST = re.compile(r"\d\.\d+E-3\d\d")


def test_other_expressions_mean_what_they_mean_to_apache(tmp_path: Path) -> None:
    seed = int.from_bytes(os.urandom(6), "big")
    random = Random(seed)
    cases = [
        {"expression": expression(random), "properties": [properties(random) for _ in range(MAPS)]}
        for _ in range(COUNT)
    ]
    ran = subprocess.run(
        java_command(tmp_path, "Sql92", logback="tools"),
        input="".join(json.dumps(case) + "\n" for case in cases), text=True, stdout=subprocess.PIPE, check=True,
        timeout=TIMEOUT_S,
    )  # fmt: skip
    for case, line in zip(cases, ran.stdout.splitlines(), strict=True):
        mine = ours(case["expression"], case["properties"])
        assert by_value(mine) == by_value(theirs(json.loads(line))), f"seed {seed}: {case}"


def ours(text: object, maps: object) -> dict[str, str]:
    assert isinstance(text, str)
    assert isinstance(maps, list)
    try:
        matches = compile_sql92(text)
    except Sql92Error as error:
        return {"error": error.remark}
    return {"results": "".join("T" if matches(one) else "-" for one in maps)}


def by_value(answer: dict[str, str]) -> dict[str, str]:
    """With the smallest numbers as Python writes them: Java before 19 writes the number 9.9E-324 as 1.0E-323."""
    return {name: _SMALLEST.sub(lambda found: repr(float(found[0])), text) for name, text in answer.items()}


def theirs(answer: dict[str, str]) -> dict[str, str]:
    """A message is delivered only if the expression is true."""
    return {name: "".join("T" if c == "T" else "-" for c in text) if name == "results" else text
            for name, text in answer.items()}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "text", "code", "remark"),
    [
        ("SQL92", "a > 5", 0, ""),
        ("TAG", "a >", 0, ""),
        ("SQL92", "a between 5 and 1", 23,
         "java.lang.RuntimeException: Illegal values of between, left value(5) must less than or equal to right "
         "value(1)"),
        ("SQL92", "a # 5", 23,
         "org.apache.rocketmq.filter.parser.TokenMgrError: Lexical error at line 1, column 3.  "
         'Encountered: "#" (35), after : ""'),
        ("CLASS", "a > 5", 23,
         'Cannot invoke "org.apache.rocketmq.filter.FilterSpi.compile(String)" because the return value of '
         '"org.apache.rocketmq.filter.FilterFactory.get(String)" is null'),
    ],
)  # fmt: skip
def test_what_a_broker_says_to_an_expression(cluster: Cluster, kind: str, text: str, code: int, remark: str) -> None:
    wanted = SubscriptionData(topic="T", sub_string=text, expression_type=kind)
    body = fastjson.dumps(CheckClientRequest(client_id="c", group="G", subscription_data=wanted))
    with Wire(cluster.broker_addr) as wire:
        answer = wire.ask(RequestCode.CHECK_CLIENT_CONFIG, body=body)
    assert (answer.code, answer.remark or "") == (code, remark)
