"""Numbers that do not fit into RocketMQ's fields are refused before any server is asked."""

import pytest

from rmqadmin.cli.parsing.command_building import build_command
from rmqadmin.cli.registry import ENTRIES, Effect, Entry
from rmqproto.java.java_numbers import INT_MAX, LONG_MAX
from tests.rmqadmin.conftest import Rmqadmin
from tests.support.quick import first_is_quick

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
