"""The table of commands, and that mqadmin's commands are kept: names, options, helps."""

import json
import re

import pytest

from rmqadmin.cli import registry
from rmqadmin.cli.parsing import meant_names
from rmqadmin.cli.parsing.command_building import build_command
from rmqadmin.cli.parsing.command_tree import describe
from rmqadmin.cli.parsing.mqadmin_argv import normalise
from rmqadmin.cli.parsing.registry_command import option_specs
from rmqadmin.cli.registry import ENTRIES, Effect, Entry
from rmqadmin.core.results import columns
from tests.interop.tools import calls
from tests.rmqadmin.conftest import GOLDEN, Rmqadmin
from tests.support.quick import in_one_test

MQADMIN: dict[str, list[tuple[str | None, str | None, bool]]] = json.loads((GOLDEN / "options.json").read_text())

of_each_command = in_one_test(*ENTRIES)


def test_no_name_stands_twice_in_any_case() -> None:
    names = [entry.name.lower() for entry in ENTRIES]
    assert len(set(names)) == len(names)


@of_each_command
def test_mqadmins_commands_are_marked_and_spelled_as_its_own(entry: Entry) -> None:
    assert entry.is_mqadmin == (entry.name in MQADMIN)


@of_each_command
def test_every_option_of_mqadmins_command_is_taken(entry: Entry) -> None:
    """C18: a script written for mqadmin finds every option by both names, and with a value if mqadmin's takes one."""
    specs = option_specs(build_command(entry))
    for short, long, takes_value in MQADMIN.get(entry.name, []):
        given = [["-" + short] if short else [], ["--" + long] if long and " " not in long else []]
        for spelling in filter(None, given):
            found = normalise([*spelling, *(["1"] if takes_value else [])], specs)
            assert len(found.options) == 1, f"{entry.name} {spelling}"
            assert found.words == [], f"{entry.name} {spelling}"


@pytest.mark.parametrize(
    ("command", "prefix", "meant"),
    [
        ("statsAll", "--a", "--activeTopic"),  # not --all
        ("printMsg", "--l", "--lmqParentTopic"),  # not --limit
        ("printMsg", "--s", "--subExpression"),  # not --sql92
    ],
)
def test_a_prefix_that_mqadmin_takes_is_not_made_ambiguous_by_options_of_ours(
    command: str, prefix: str, meant: str
) -> None:
    entry = registry.find(command)
    assert entry is not None
    assert normalise([prefix, "x"], option_specs(build_command(entry))).seen == {meant}


def test_the_inventory_is_whole() -> None:
    """mqadmin 5.5.0 lists 96 commands. Each is found regardless of case."""
    assert len(MQADMIN) == 96
    for name in MQADMIN:
        assert registry.find(name.upper()) is registry.find(name.lower()) is not None


def test_every_command_of_mqadmins_has_a_recorded_text() -> None:
    assert {folder.name for folder in GOLDEN.iterdir() if folder.is_dir()} == MQADMIN.keys()


def test_every_command_and_option_is_tried_on_a_real_broker_or_there_is_a_reason() -> None:
    """``tests/interop/tools/test_every_command.py`` calls them, with mqadmin and with rmqadmin."""
    given: dict[str, set[str]] = {}
    for part in calls.CALLS:
        for name, *words in calls.words_of(part):
            entry = registry.find(name)
            assert entry is not None, name
            given.setdefault(entry.name, set()).update(word for word in words if word.startswith("-"))
    assert MQADMIN.keys() - given.keys() == calls.ELSEWHERE.keys()
    untried = {
        f"{name} {'-' + short if short else '--' + str(long)}"
        for name, options in MQADMIN.items()
        for short, long, _ in options
        if name in given and short not in ("h", "n") and not {f"-{short}", f"--{long}"} & given[name]
    }
    assert untried == calls.ELSEWHERE_OPTIONS.keys()


DEFAULTS: dict[str, dict[str, object]] = {
    "brokerConsumeStats": {"-l": 0},
    "checkMsgSendRT": {"-a": 100, "-s": 128},
    "clusterRT": {"-a": 100, "-s": 128},
    "consumeMessage": {"-c": 128},
    "getLiteGroupInfo": {"-k": 20},
    "queryCq": {"-c": 10},
    "queryMsgByKey": {"-m": 64},
    "queryMsgTraceById": {"-c": 64, "-t": "RMQ_SYS_TRACE_TOPIC"},
    "sendMsgStatus": {"-s": 128, "-c": 50},
    "setConsumeMode": {"-q": 0},
}
"""mqadmin's defaults, by the options' short names."""


@pytest.mark.parametrize(("name", "wanted"), DEFAULTS.items())
def test_what_is_not_given_is_what_mqadmin_takes(name: str, wanted: dict[str, object]) -> None:
    entry = registry.find(name)
    assert entry is not None
    found = {param.opts[0]: param.default for param in build_command(entry).params if param.opts}
    assert {option: found[option] for option in wanted} == wanted


@of_each_command
def test_every_command_has_a_summary_and_examples_that_call_it(entry: Entry) -> None:
    assert entry.summary.endswith(".")
    assert len(entry.summary) <= 80
    command = describe(entry)
    assert command.text
    assert command.examples
    for example in command.examples:
        assert entry.name in example
        assert example.startswith("rmqadmin ")


@of_each_command
def test_the_options_that_all_commands_share_follow_from_what_a_command_does(entry: Entry) -> None:
    names = {name for option in describe(entry).options if option.is_shared for name in option.names}
    assert ("--output" in names) == (entry.effect is not Effect.SCREEN)
    assert ("-n" in names) == (entry.effect not in (Effect.LOCAL, Effect.SETTINGS))
    assert ("--watch" in names) == (entry.effect in (Effect.READ, Effect.READ_OR_CHANGE, Effect.PROBE))
    assert ("--dry-run" in names) == (entry.effect in CHANGES_SERVERS)


CHANGES_SERVERS = {Effect.CHANGE, Effect.DESTROY, Effect.READ_OR_CHANGE, Effect.PROBE}
BEFORE_AND_AFTER = ({"changes"}, {"old_offset", "new_offset"}, {"master_before", "master_addr"})
"""Columns that show the state before and after, server by server."""

_NEW = "messages are added, and nothing was there before: where they would go is shown"
WITHOUT_BEFORE = {
    **dict.fromkeys(["sendMessage", "msg send", "msg import", "queryMsgById", "queryMsgByUniqueKey"], _NEW),
    **dict.fromkeys(["checkMsgSendRT", "clusterRT", "sendMsgStatus", "bench send", "bench latency"], _NEW),
    **dict.fromkeys(["dlq redrive", "spark-replay"], _NEW),
    "wipeWritePerm": "the permission of all topics of a broker at once: how many are meant is shown",
    "addWritePerm": "as wipeWritePerm",
}
"""Commands whose dry run shows something else, with the reason."""


@of_each_command
def test_every_dry_run_shows_before_and_after_or_there_is_a_reason(entry: Entry) -> None:
    if entry.effect in CHANGES_SERVERS:
        names = [{column.name for column in columns(each.row_type)} for each in entry.result_types()]
        shows = any(wanted <= found for wanted in BEFORE_AND_AFTER for found in names)
        assert shows != (entry.name in WITHOUT_BEFORE)


def test_a_commands_function_follows_from_its_name() -> None:
    def function(name: str) -> str:
        return Entry(name, "m", Effect.READ, "s").function

    assert function("queryMsgById") == "query_msg_by_id"
    assert function("clusterRT") == "cluster_rt"
    assert function("exportMetadataInRocksDB") == "export_metadata_in_rocks_db"
    assert function("dlq list") == "dlq_list"
    assert function("spark-replay") == "spark_replay"


@pytest.mark.parametrize("spelling", ["topiclist", "TOPICLIST", "topicList"])
def test_a_command_is_found_in_any_case(run: Rmqadmin, spelling: str) -> None:
    ran = run(spelling, "--help", status=0)
    assert ran.out.startswith("Usage: rmqadmin topicList [OPTIONS]")


def test_mqadmins_way_to_ask_for_help_works(run: Rmqadmin) -> None:
    assert run("help", "topicStatus").out == run("topicStatus", "-h").out
    assert (run("help").status, run("help").out) == (0, run("--help").out)
    assert run("dlq", "help").out == run("dlq", "--help").out


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("describe topic orders", "topic describe"), ("get topics", "topic ls"), ("create topic x", "topic create"),
        ("topic orders describe", "topic describe"), ("orders topic describe", "topic describe"),
        ("msg orders send", "msg send"),
    ],
)  # fmt: skip
def test_words_in_another_order_are_understood(run: Rmqadmin, words: str, meant: str) -> None:
    """As other programs have them; the hint was to read the help."""
    ran = run(*words.split())
    assert (ran.status, ran.err.splitlines()[1]) == (2, f"hint: Did you mean {meant}?")


def test_commands_of_acl_1_are_refused_with_what_replaces_them(run: Rmqadmin) -> None:
    assert not registry.DROPPED.keys() & {entry.name.lower() for entry in ENTRIES}
    for name in registry.DROPPED:
        ran = run(name, "-n", "127.0.0.1:1", status=2, out="")
        assert ran.err.splitlines()[1] == f"hint: {registry.DROPPED[name]}"
    named = set(re.findall("create[A-Z][a-z]+|delete[A-Z][a-z]+|list[A-Z][a-z]+", str(registry.DROPPED)))
    assert named <= {entry.name for entry in ENTRIES}
    assert named


def test_all_missing_options_are_named_at_once(run: Rmqadmin) -> None:
    ran = run("queryMsgByKey", status=2)
    assert ran.err.splitlines()[0] == "rmqadmin: error: Missing required options: -t/--topic, -k/--msgKey"


def test_words_that_mqadmin_passes_over_are_passed_over(run: Rmqadmin) -> None:
    """A script gets no notice. ``test_terminal.py`` has the notice on a terminal."""
    ran = run("topicList", "-c", "true", "--output", "schema")
    assert (ran.status, ran.err) == (0, "")


def test_the_short_name_of_the_format_works_behind_commands_too(run: Rmqadmin) -> None:
    """It used to be an unrecognized option there."""
    for args in (("-o", "name"), ("-o=name",), ("-oname",)):
        assert run("explain", "17", *args).out == "TOPIC_NOT_EXIST\n"


def test_where_mqadmin_has_the_short_name_a_hint_says_how_to_write_the_format(run: Rmqadmin) -> None:
    for command in (("consumeMessage", "-t", "T"), ("updateTopic", "-t", "T"), ("cloneGroupOffset", "-t", "T")):
        ran = run(*command, "-o", "json", status=2)
        assert json.loads(ran.err)["error"]["hint"].startswith("Write --output json")


@pytest.mark.parametrize(
    "args",
    [
        ["-o", "json", "topicList", "--nope"],
        ["topicList", "--nope", "--output", "json"],
        ["topicList", "--nope", "--output=jsonl"],
        ["topicList", "--nope", "-o", "json"],
        ["-o", "json", "nope"],
        ["--output=jsonl", "nope"],
    ],
)
def test_a_command_line_that_does_not_parse_is_answered_in_json_too(run: Rmqadmin, args: list[str]) -> None:
    ran = run(*args, status=2)
    assert json.loads(ran.err)["error"]["kind"] == "usage"


def test_an_output_format_comes_from_the_option_then_the_program_then_the_environment(
    run: Rmqadmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RMQADMIN_OUTPUT", "json")
    assert run("explain", "17").out.startswith("{\n")
    assert run("-o", "name", "explain", "17").out == "TOPIC_NOT_EXIST\n"
    assert run("-o", "name", "explain", "17", "--output", "jsonl").out.startswith('{"_command"')
    monkeypatch.setenv("RMQADMIN_OUTPUT", "jsn")
    run("explain", "17", status=2, err="RMQADMIN_OUTPUT: 'jsn' is not an output format")


def test_schema_needs_no_other_option_and_no_server(run: Rmqadmin) -> None:
    ran = run("topicStatus", "--output", "schema", status=0)
    assert "min_offset\tinteger\t" in ran.out


def test_each_noun_says_what_its_commands_are_for(run: Rmqadmin) -> None:
    """The help said "Commands about msg."."""
    nouns = {name for name in registry.top_level_names() if registry.group_members(name)}
    assert set(registry.NOUN_SUMMARIES) == nouns
    assert "  Find, read, send and copy messages.\n" in run("msg", "--help").out


def test_a_noun_alone_shows_its_commands(run: Rmqadmin) -> None:
    """It used to end in an error with the whole help in one line."""
    ran = run("dlq")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out == run("dlq", "--help").out
    assert "  dlq redrive  Redrive a group's dead letters, each message once.\n" in ran.out
    assert "`rmqadmin dlq --help` lists the commands" in run("dlq", "0123").err


def test_a_word_without_its_option_is_put_to_it(run: Rmqadmin) -> None:
    assert "hint: Is it -t OrderTopic? " in run("topicStatus", "OrderTopic").err
    assert "Is it" not in run("topicStatus", "OrderTopic", "OtherTopic").err


def test_what_typer_refuses_has_a_hint(run: Rmqadmin) -> None:
    ran = run("msg", "cat")
    assert (ran.status, "`rmqadmin msg cat --help` shows its options and arguments" in ran.err) == (2, True), ran.err


def test_words_that_are_needed_stand_in_the_usage_as_they_are(run: Rmqadmin) -> None:
    assert run("msg", "cat", "--help").out.startswith("Usage: rmqadmin msg cat [OPTIONS] TOPIC\n")
    usage = run("context", "use", "--help").out.partition("\n")[0]
    assert (
        usage.translate({ord(brace): None for brace in "{}"}) == "Usage: rmqadmin context use [OPTIONS] CONTEXT|-|none"
    )


@pytest.mark.parametrize("seconds", ["nan", "inf", "+Infinity", "1e12"])
def test_what_is_no_number_of_anything_is_refused(run: Rmqadmin, seconds: str) -> None:
    """``float`` accepts them, and they used to end as a defect: "timestamp out of range"."""
    ran = run("topicList", "--timeout", seconds)
    assert (ran.status, ran.out, "defect" in ran.err) == (2, "", False)


def test_seconds_may_be_written_as_a_duration(rmqadmin: Rmqadmin) -> None:
    """`--timeout 5s` was no number, and `--watch 10s` watched every 2 s without the word."""
    for said, seconds in (("5s", "5"), ("1500ms", "1.5"), ("2m", "120"), ("0.5", "0.5")):
        shown = rmqadmin("config", "show", "--timeout", said, "--json", "setting,value")
        assert {"setting": "timeout_s", "value": seconds} in json.loads(shown.out), shown.out
    ran = rmqadmin("topicList", "--watch", "10s", "--until", "topic != nothing", "-o", "name")
    assert (ran.status, ran.err) == (0, "")
    assert rmqadmin("topicList", "--timeout", "0s").status == 2


@pytest.mark.parametrize(("word", "instead"), meant_names.UNLISTED.items())
def test_a_command_that_mqadmin_does_not_list_says_what_to_call_instead(word: str, instead: str) -> None:
    assert registry.find(word) is None
    assert registry.find(instead) is not None
    assert meant_names.meant_command(word.upper()) == instead
