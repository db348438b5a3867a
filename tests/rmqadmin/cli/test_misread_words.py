"""Words that a person means as options and that are none, as pasted from a web page: no command acts without them, and
none answers about another cluster than the one that was typed."""

from pathlib import Path

import pytest

from rmqadmin.cli import registry
from rmqclient.admin import AdminClient
from tests.rmqadmin.conftest import Rmqadmin
from tests.support import servers
from tests.support.quick import first_is_quick
from tests.support.servers import Server

MQADMINS = [entry.name for entry in registry.ENTRIES if entry.is_mqadmin]
OURS = [entry.name for entry in registry.ENTRIES if not entry.is_mqadmin]


@pytest.mark.parametrize("name", first_is_quick([*OURS, *MQADMINS], 40))
def test_no_command_acts_on_a_line_with_another_dash(run: Rmqadmin, name: str) -> None:
    """The line names no server that is there: whatever is asked would end with another status."""
    ran = run(*name.split(), "–n", "127.0.0.1:1")
    unknown = 3 if name.startswith("check ") else 2  # the status of a monitoring plug-in
    assert ran.status == unknown
    assert "–n begins with en dash (U+2013), not with an ASCII minus: nothing was done" in ran.err
    assert "hint: Type the option again with -" in ran.err


broker = servers.of_module()


@pytest.fixture
def on_broker(run: Rmqadmin, broker: Server, monkeypatch: pytest.MonkeyPatch) -> Rmqadmin:
    monkeypatch.setenv("NAMESRV_ADDR", broker.namesrv_addr)
    return run


def test_a_reset_with_a_pasted_dash_does_not_act_on_the_default_cluster(on_broker: Rmqadmin) -> None:
    assert on_broker("updateTopic", "-t", "T", "-c", "DefaultCluster").status == 0
    ran = on_broker("resetOffsetByTime", "-g", "g", "-t", "T", "-s", "now", "–n", "10.0.0.9:9876")
    assert (ran.status, "en dash (U+2013)" in ran.err) == (2, True)


def test_a_topic_is_not_made_with_other_queues_than_were_typed(on_broker: Rmqadmin, broker: Server) -> None:
    line = ["updateTopic", "-t", "Typed", "-c", "DefaultCluster", "-w", "2"]
    for words in (
        ["–r", "2"],
        ["—r=2"],
        ["−r2"],
        ["2"],
        ["readQueueNums", "2"],
        ["–r\u00a02"],
        ["-r\u00a02"],
        ["–r 2"],
    ):
        assert on_broker(*line, *words).status == 2
    with AdminClient(broker.namesrv_addr) as admin:
        assert "Typed" not in admin.topic_list()


def test_a_stray_word_of_a_changing_command_is_refused_and_of_a_reading_one_told(on_broker: Rmqadmin) -> None:
    ran = on_broker("deleteTopic", "-t", "T", "-c", "DefaultCluster", "now")
    assert (ran.status, "now: belongs to no option, so nothing was done" in ran.err) == (2, True)
    for words in (["server", "reset"], ["fault", "clear"], ["cleanUnusedTopic"]):
        ran = on_broker(*words, "broker-b")
        assert (ran.status, "broker-b: belongs to no option, so nothing was done" in ran.err) == (2, True)
        assert "Is it -b broker-b or -c broker-b?" in ran.err
    ran = on_broker("topicList", "OrderTopic")  # in a script, too
    assert (ran.status, "ignored, because it belongs to no option: OrderTopic" in ran.err) == (0, True)
    ran = on_broker("topicList", "–n", "10.0.0.9:9876")  # the topics of the default cluster were listed
    assert (ran.status, ran.out, "en dash (U+2013)" in ran.err) == (2, "", True)


def test_a_second_value_of_an_option_is_not_dropped_without_a_word(on_broker: Rmqadmin) -> None:
    """`deleteTopic -t A -t B` deleted A alone, and `topicStatus -t A -t B` showed A alone."""
    on_broker("updateTopic", "-t", "A", "-c", "DefaultCluster")
    ran = on_broker("deleteTopic", "-t", "A", "-c", "DefaultCluster", "-t", "B")
    assert (ran.status, "--topic=B: the option was given before, with another value" in ran.err) == (2, True)
    assert "`topic delete A B` take several" in ran.err
    ran = on_broker("topicStatus", "-t", "A", "-t", "B")
    assert (ran.status, "ignored, because the option was given before: --topic=B" in ran.err) == (0, True)
    assert on_broker("topicStatus", "-t", "A", "-t", "A").err == ""


def test_values_and_bodies_may_begin_with_any_dash(on_broker: Rmqadmin, broker: Server) -> None:
    assert on_broker("updateTopic", "-t", "Bodies", "-c", "DefaultCluster").status == 0
    assert on_broker("sendMessage", "-t", "Bodies", "-p", "–n", "-k", "—key").status == 0
    assert on_broker("msg", "send", "Bodies", "–5 degrees").status == 0
    assert on_broker("msg", "send", "Bodies", "--", "–n").status == 0
    ran = on_broker("msg", "cat", "Bodies", "-f", "%s|%k\n")
    assert sorted(ran.out.splitlines()) == sorted(["–n|—key", "–5 degrees|", "–n|"])
    assert on_broker("msg", "send", "Bodies", "x", "–key", "k").status == 2


def test_a_dash_before_the_command_and_in_the_shell_is_named(on_broker: Rmqadmin, tmp_path: Path) -> None:
    ran = on_broker("–o", "json", "topicList")
    assert (ran.status, "en dash (U+2013)" in ran.err) == (2, True)
    script = tmp_path / "lines"
    script.write_text("deleteTopic -t T -c DefaultCluster —yes\n")
    ran = on_broker("shell", "-c", script.read_text())
    assert (ran.status, "em dash (U+2014)" in ran.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "character"),
    [
        (["deleteTopic", "-t", "T", "--dry–run"], "en dash (U+2013)"),
        (["deleteTopic", "-t", "T", "-–yes"], "en dash (U+2013)"),
        (["deleteTopic", "-t", "T", "--clusterName\u00a0DefaultCluster"], "no-break space (U+00A0)"),
        (["sendMessage", "-t", "T", "-p", "x", "-k\u00a0ORDER-1"], "no-break space (U+00A0)"),
        (["sendMessage", "-t", "T", "-p", "x", "-topic\u200bT"], "zero width space (U+200B)"),
        (["topic", "create", "New", "–w 4"], "en dash (U+2013)"),
        (["msg", "send", "T", "–key\u00a0k"], "en dash (U+2013)"),
        (["queryMsgByKey", "-t", "T", "–k", "x"], "en dash (U+2013)"),  # not: -k is missing
        (["--context–x", "topicList"], "en dash (U+2013)"),
    ],
)
def test_what_was_pasted_inside_a_word_is_named_too(run: Rmqadmin, words: list[str], character: str) -> None:
    """The lines name no server: whoever acted would end with another status."""
    run(*words, status=2, out="", err=character)


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        ("context edit good --protected true", "--protected"),
        ("user add bob --password secret", "--password"),
        ("deleteTopic -t T -c C --dry-run true", "--dry-run"),
    ],
)
def test_a_value_behind_a_flag_is_refused_and_the_flag_named(rmqadmin: Rmqadmin, words: str, flag: str) -> None:
    ran = rmqadmin(*words.split())
    assert (ran.status, f"{words.split()[-1]}: belongs to no option, so nothing was done" in ran.err) == (2, True)
    assert f"hint: {flag} takes no value." in ran.err


@pytest.mark.parametrize(
    "words",
    [
        "resetOffset -g x -t T x",
        "resetOffset -g G -t T -- x",
        "createUser -b 127.0.0.1:1 -u U --passw=secret x",
        "createUser -b 127.0.0.1:1 -u U --passw x x",
    ],
)
def test_a_word_too_many_is_not_taken_for_the_value_of_what_is_no_flag(rmqadmin: Rmqadmin, words: str) -> None:
    ran = rmqadmin(*words.split())
    assert (ran.status, "x: belongs to no option" in ran.err) == (2, True)
    assert "takes no value" not in ran.err
