"""A value without a letter, as of a variable that a script has not set: nobody's default is meant by it."""

import pytest

from rmqadmin.cli import registry
from rmqadmin.cli.options.common_options import Value
from rmqadmin.cli.parsing.command_building import build_command
from rmqadmin.core.contexts.settings import EffectiveSettings
from rmqproto.errors import UsageError
from tests.rmqadmin.conftest import Rmqadmin
from tests.support import servers
from tests.support.quick import first_is_quick
from tests.support.servers import Server

NAMES = {Value.TOPIC, Value.GROUP, Value.CLUSTER, Value.BROKER_ADDR, Value.BROKER_NAME, Value.ADDRESSES, Value.CONTEXT}

broker = servers.of_module()


@pytest.mark.parametrize("entry", first_is_quick(registry.ENTRIES, 40), ids=lambda entry: entry.name)
def test_an_option_that_names_something_is_not_empty(run: Rmqadmin, entry: registry.Entry) -> None:
    command = build_command(entry)
    for param in command.params:
        if command.values.get(param.name) in NAMES and param.param_type_name == "option":
            for empty in ("", " ", "\u00a0"):
                ran = run(*entry.name.split(), f"{param.opts[-1]}={empty}")
                assert ran.status == (3 if entry.name.startswith("check ") else 2)
                assert f"{param.opts[-1]} has no value: nothing was done" in ran.err


def test_a_word_that_names_something_is_not_empty(run: Rmqadmin) -> None:
    for words in (("topic", "delete", "T", ""), ("dlq", "redrive", ""), ("user", "rm", " "), ("msg", "cat", "")):
        ran = run(*words, "--yes") if words[0] != "msg" else run(*words)
        assert (ran.status, "has no value" in ran.err) == (2, True)


def test_nothing_is_deleted_from_the_cluster_of_an_unset_variable(
    run: Rmqadmin, broker: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", broker.namesrv_addr)
    assert run("updateTopic", "-t", "Kept", "-c", "DefaultCluster").status == 0
    assert run("deleteTopic", "-t", "Kept", "-c", "").status == 2
    assert run("topic", "delete", "Kept", "-c", "", "--yes").status == 2
    assert run("topicRoute", "-t", "Kept").status == 0


def test_an_empty_context_is_not_the_one_in_use(run: Rmqadmin) -> None:
    for words in (("--context", "", "topicList"), ("topicList", "--context", ""), ("topicList", "--context= ")):
        ran = run(*words)
        assert (ran.status, "--context has no value" in ran.err) == (2, True)
    with pytest.raises(UsageError):
        EffectiveSettings({}, context_flag="", environment={})


def test_a_reset_of_one_queue_is_not_one_of_all(run: Rmqadmin) -> None:
    line = ("resetOffsetByTime", "-g", "g", "-t", "T", "-s", "now")
    for half in (("-b", "127.0.0.1:10911"), ("-q", "0"), ("-o", "5"), ("-b", "127.0.0.1:10911", "-q", "-1")):
        ran = run(*line, *half)
        assert (ran.status, "-b and -q choose one queue together" in ran.err) == (2, True)
