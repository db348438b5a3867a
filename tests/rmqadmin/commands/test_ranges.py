"""Ranges of times: every command that takes one takes the same words, and refuses what cannot be meant."""

import pytest

from tests.rmqadmin.conftest import Rmqadmin

COMMANDS = [
    ("msg", "cat", "T"), ("msg", "export", "T"), ("printMsg", "-t", "T"), ("consumeMessage", "-t", "T"),
    ("printMsgByQueue", "-t", "T", "-a", "broker-a", "-i", "0"), ("queryMsgByKey", "-t", "T", "-k", "K"),
    ("queryMsgByUniqueKey", "-t", "T", "-i", "I"), ("queryMsgTraceById", "-i", "I"), ("dlq", "show", "G"),
    ("dlq", "redrive", "G"), ("spark-replay", "--topic", "T"), ("check", "dlq"), ("audit",),
]  # fmt: skip
WRONG = [
    (("--since", "1h", "--until", "2h"), "ends before it begins"),
    (("--since", "1h..2h"), "ends before it begins"),
    (("--since", "+1h"), "begins in the future"),
    (("--since", "2099-01-01 10:00"), "begins in the future"),
    (("--since", "-3600000"), "-3600000 is a negative number"),
    (("--since", "1676730526"), "write @1676730526"),
    (("--since", "yesterday"), "'yesterday' is not a time"),
    (("--until", "2h..1h"), "is a range"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_range_that_cannot_be_meant_is_refused_before_a_server_is_asked(
    run: Rmqadmin, command: tuple[str, ...]
) -> None:
    """`printMsg`, `msg cat`, `msg export` and `audit` showed nothing, with status 0."""
    for words, said in WRONG:
        ran = run(*command, *words, "-n", "127.0.0.1:1") if command != ("audit",) else run(*command, *words)
        assert said in ran.err, (words, ran)
        assert ran.status == (3 if command == ("check", "dlq") else 2), (words, ran)


@pytest.mark.parametrize("command", [("msg", "cat"), ("printMsg", "-t"), ("consumeMessage", "-t")], ids=" ".join)
@pytest.mark.parametrize("since", ["1h", "00:00:01", "-1h", "2h..1h", "90s", "1d12h", "2026-01-01 10:00"])
def test_a_duration_without_a_sign_and_a_time_of_day_are_past_and_told(
    rmqadmin: Rmqadmin, command: tuple[str, ...], since: str
) -> None:
    ran = rmqadmin(*command, "TBW102", "--since", since, status=0)
    told = [line for line in ran.err.splitlines() if "scanned" not in line]
    assert len(told) == {"2h..1h": 2, "-1h": 0, "2026-01-01 10:00": 0}.get(since, 1)
    assert all(" is 20" in line for line in told)


@pytest.mark.parametrize("command", [("msg", "cat", "T"), ("printMsg", "-t", "T")], ids=" ".join)
@pytest.mark.parametrize("words", [("--since", "2h..1h"), ("--until", "now")], ids=" ".join)
def test_what_has_an_end_is_not_followed(run: Rmqadmin, command: tuple[str, ...], words: tuple[str, ...]) -> None:
    """`msg cat --follow --since 2h..1h` waited for messages of the past."""
    ran = run(*command, "--follow", *words, "-n", "127.0.0.1:1")
    assert (ran.status, "--follow has no end" in ran.err) == (2, True)


def test_a_prefix_of_mqadmins_option_is_still_its_own(rmqadmin: Rmqadmin) -> None:
    """`--s` was --subExpression before --since came."""
    assert rmqadmin("printMsg", "-t", "TBW102", "--s", "TagA").status == 0


def test_until_of_a_range_is_not_that_of_watch(run: Rmqadmin) -> None:
    ran = run("queryMsgByKey", "-t", "T", "-k", "K", "--until", "queue_id == 0", status=2)
    assert "'queue_id == 0' is not a time" in ran.err


def test_a_reset_takes_only_minus_one_for_the_end(run: Rmqadmin) -> None:
    """`-s -3600000` skipped every message."""
    command = ("resetOffsetByTime", "-g", "G", "-t", "T", "-n", "127.0.0.1:1", "-s")
    ran = run(*command, "-3600000")
    assert (ran.status, "-3600000 is a negative number" in ran.err) == (2, True)
    assert run(*command, "1676730526").status == 2


@pytest.mark.parametrize(
    ("to", "said"),
    [("+1h", "is in the future"), ("1676730526212", "As a time it is @1676730526212"), ("1.5h", "is not a time")],
)
def test_a_destination_that_cannot_be_meant_is_refused(run: Rmqadmin, to: str, said: str) -> None:
    run("resetOffset", "-g", "G", "-t", "T", "--to", to, "-n", "127.0.0.1:1", status=2, err=said)
