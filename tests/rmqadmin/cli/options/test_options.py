"""Options that commands share are declared once; and what no option or word can mean is refused before any server is
asked: numbers that do not fit into RocketMQ's fields, and values without a letter, as of a variable that a script has
not set."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

import rmqadmin
from rmqadmin.cli.options.common_options import Value
from rmqadmin.cli.parsing.command_building import build_command
from rmqadmin.cli.registry import ENTRIES, Effect, Entry
from rmqadmin.core.contexts.settings import EffectiveSettings
from rmqproto.errors import UsageError
from rmqproto.java.java_numbers import INT_MAX, LONG_MAX
from tests.rmqadmin.conftest import Rmqadmin
from tests.support import servers
from tests.support.quick import first_is_quick
from tests.support.servers import Server
from tests.support.source_trees import tree_of

NAMES = {Value.TOPIC, Value.GROUP, Value.CLUSTER, Value.BROKER_ADDR, Value.BROKER_NAME, Value.ADDRESSES, Value.CONTEXT}
LONGS = {
    "audit": {"--limit"},
    "brokerConsumeStats": {"--level"},
    "consumeMessage": {"--offset", "--MessageNumber"},
    "dlq redrive": {"--limit"},
    "dlq show": {"--limit"},
    "electMaster": {"--brokerId"},
    "msg cat": {"--limit"},
    "msg export": {"--limit"},
    "printMsg": {"--limit"},
    "printMsgByQueue": {"--limit"},
    "queryCq": {"--index"},
    "queryMsgByOffset": {"--offset"},
    "resetMasterFlushOffset": {"--offset"},
    "resetOffsetByTime": {"--offset"},
    "spark-replay": {"--limit"},
    "store dump": {"--from", "--to", "--limit"},
    "updateColdDataFlowCtrGroupConfig": {"--threshold"},
    "updateSubGroup": {"--brokerId", "--whichBrokerWhenConsumeSlowly"},
}
"""Options whose numbers have 64 bits. The others have 32."""

broker = servers.of_module()


def test_no_option_is_declared_twice() -> None:
    """An option of two commands belongs in ``command_options.py`` or ``message_options.py``. Otherwise one copy could
    change without the other."""
    places: dict[str, list[str]] = defaultdict(list)
    root = Path(rmqadmin.__file__).parent
    for path in (path for path in sorted(root.rglob("*.py")) if "option(" in path.read_text()):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Subscript) and getattr(node.value, "id", "") == "Annotated":
                text = ast.unparse(node)
                if "option(" in text:
                    places[text].append(f"{path.relative_to(root)}:{node.lineno}")
    assert len(places) > 50
    assert {text: where for text, where in places.items() if len(where) > 1} == {}


@pytest.mark.parametrize("entry", first_is_quick(ENTRIES, 40), ids=lambda entry: entry.name)
def test_a_number_that_no_field_can_hold_is_a_usage_error(run: Rmqadmin, entry: Entry) -> None:
    """Servers used to answer with an error of their own code, such as Java's "For input string"."""
    command = build_command(entry)
    assert command.long_options == LONGS.get(entry.name, set())
    for param in command.params:
        if param.param_type_name != "option" or not param.type.name.startswith("int"):
            continue
        option = param.opts[-1]
        most = LONG_MAX if option in command.long_options else INT_MAX
        for number, said in ((most + 1, f"large: the most is {most}"), (-most - 2, f"small: the least is {-most - 1}")):
            ran = run(*entry.name.split(), f"{option}={number}")
            is_check = entry.effect is Effect.CHECK
            assert (ran.status, bool(ran.out)) == ((3, True) if is_check else (2, False))
            assert f"error: {option} {number} is too {said}" in ran.err


def test_the_largest_number_reaches_the_server(rmqadmin: Rmqadmin) -> None:
    ran = rmqadmin("queryMsgByOffset", "-t", "T", "-b", "broker-a", "-i", str(INT_MAX), "-o", str(LONG_MAX))
    assert "TOPIC_NOT_EXIST" in ran.err


@pytest.mark.parametrize(
    ("args", "status", "said"),
    [
        ("resetOffsetByTime -g G -t T -s 9223372036854775808", 2, "the time 9223372036854775808 is too large"),
        ("resetOffsetByTime -g G -t T -s 253402300800000", 5, "TOPIC_NOT_EXIST"),  # after the year 9999
        ("resetOffset -g G -t T --to " + "9" * 5000 + "h", 2, "is not a time"),
        ("updateTopicPerm -t T -p " + "9" * 5000, 2, "is invalid"),
        ("removeBroker -c h:1 -b a:b:" + "9" * 5000, 2, "does not name a broker"),
        ("cleanBrokerMetadata -a h:1 -bn b -c c -b 1;9223372036854775808", 2, "is not a list of ids"),
        ("dlq redrive G --max-failures " + "9" * 5000, 2, "is neither a number"),
        ("explain ²", 5, "nothing is known"),
        ("explain " + "9" * 5000, 5, "nothing is known"),
    ],
)
def test_so_is_one_within_a_text(rmqadmin: Rmqadmin, args: str, status: int, said: str) -> None:
    """Some of these used to be defects: Python reads at most 4,300 digits, and no date after 9999."""
    rmqadmin(*args.split(), status=status, out="", err=said)


@pytest.mark.parametrize("entry", first_is_quick(ENTRIES, 40), ids=lambda entry: entry.name)
def test_an_option_that_names_something_is_not_empty(run: Rmqadmin, entry: Entry) -> None:
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
