"""``--json FIELDS`` and ``--jq``, as in ``gh``."""

import builtins
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.rmqadmin.conftest import CLUSTER, Rmqadmin
from tests.support.servers import Fresh


def test_the_named_fields_alone_in_one_array(run: Rmqadmin) -> None:
    run("explain", "17", "--json", "name, code,code", status=0, out='[{"name":"TOPIC_NOT_EXIST","code":17}]\n')
    assert [each["code"] for each in json.loads(run("explain", "--json=code").out)] == [
        each["code"] for each in run("-o", "json", "explain").items
    ]


@pytest.mark.parametrize(
    ("program", "out"),
    [
        (".[].name", "TOPIC_NOT_EXIST\n"),
        (".[] | .code, null, true", "17\n\ntrue\n"),
        (".[0] | {code}", '{"code":17}\n'),
        ("map(select(.code > 20))", "[]\n"),
        (".[] | select(.code > 20)", ""),
    ],
)
def test_what_a_jq_program_makes_of_the_array(run: Rmqadmin, program: str, out: str) -> None:
    pytest.importorskip("jq", reason="the extra [jq] is not installed")
    run("explain", "17", "--json", "code,name", "--jq", program, status=0, out=out)


def test_a_jq_program_that_is_none_is_told_before_anything_is_asked(run: Rmqadmin) -> None:
    pytest.importorskip("jq", reason="the extra [jq] is not installed")
    ran = run("topicList", "-n", "127.0.0.1:1", "--json", "topic", "--jq", ".[")
    assert (ran.status, "--jq: syntax error" in ran.err) == (2, True)
    ran = run("explain", "17", "--json", "code", "--jq", ".code")
    assert (ran.status, "--jq: Cannot index array" in ran.err) == (2, True)


def test_without_the_package_jq_is_refused_and_json_is_not(run: Rmqadmin, monkeypatch: pytest.MonkeyPatch) -> None:
    whole: Callable[..., Any] = builtins.__import__

    def without_jq(name: str, *args: Any, **options: Any) -> Any:
        if name == "jq":
            raise ImportError(name)
        return whole(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without_jq)
    ran = run("explain", "17", "--json", "code", "--jq", ".")
    assert (ran.status, "pip install 'rmqadmin[jq]'" in ran.err) == (2, True)
    assert run("explain", "17", "--json", "code").status == 0


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--json"], "--json needs names of fields"),
        (["--json", "--timeout", "3"], "--json needs names of fields"),
        (["--json", "topic,colour"], "there is no field 'colour'"),
        (["--json", ","], "no field is named"),
        (["--jq", "."], "--jq needs --json FIELDS"),
        (["--json", "topic", "--output", "csv"], "--json is a format of its own"),
    ],
)
def test_what_makes_no_sense_names_the_fields(run: Rmqadmin, args: list[str], said: str) -> None:
    ran = run("topicList", "-n", "127.0.0.1:1", *args)
    assert (ran.status, said in ran.err) == (2, True)
    if "field" in said and "jq" not in said:
        assert "The fields are topic" in ran.err
    assert run("-o", "csv", "topicList", "--json", "topic").status == 2


def test_errors_are_json_too(run: Rmqadmin) -> None:
    ran = run("topicList", "-n", "127.0.0.1:1", "--json", "topic")
    assert json.loads(ran.err)["error"]["exit_code"] == ran.status == 3


def test_every_tick_of_a_watch_is_an_array(rmqadmin: Rmqadmin) -> None:
    ran = rmqadmin(
        "topicRoute", "-t", "TBW102", "--json", "perm,broker_name", "--watch", "1", "--until", "broker_name == broker-a"
    )
    assert ran.status == 0, ran.err
    assert json.loads(ran.out)[0]["broker_name"] == "broker-a"


def test_bytes_have_no_fields(rmqadmin: Rmqadmin, fresh: Fresh) -> None:
    topic = fresh("PickTopic")
    assert rmqadmin("updateTopic", "-c", CLUSTER, "-t", topic).status == 0
    rmqadmin("msg", "send", topic, "x")
    assert rmqadmin("msg", "cat", topic, "-f", "%s", "--json", "body").status == 2
    assert rmqadmin("msg", "cat", topic, "--follow", "--json", "body").status == 2
    assert json.loads(rmqadmin("msg", "cat", topic, "--json", "body,topic").out) == [{"body": "x", "topic": topic}]


def test_where_mqadmin_has_an_option_that_begins_so_it_is_meant(run: Rmqadmin) -> None:
    """In two commands, ``--json true`` means ``--jsonEnable true``."""
    ran = run("exportMetadataInRocksDB", "--json", "true", "-p", "/nowhere", "-t", "topics")
    assert "--json" not in ran.err
    assert "/nowhere" in ran.err or "rocksdict" in ran.err
