"""What TAB offers at each place of a line."""

from pathlib import Path

import pytest

from rmqadmin.cli.prompt.candidates import LineSoFar, offer
from tests.support.quick import in_one_test

NAMES = {
    "topic": [
        "Orders",
        "orders-old",
        "%RETRY%billing",
        "with space",
        "bad\x1bname",
        "broker-a",
        "DefaultCluster",
        "TBW102",
        "OFFSET_MOVED_EVENT",
        "DefaultCluster_REPLY_TOPIC",
    ],
    "group": ["billing", "TOOLS_CONSUMER"],
    "cluster": ["DefaultCluster"],
    "broker": ["127.0.0.1:10911"],
    "broker_name": ["broker-a"],
    "context": ["dev", "live"],
    "property": ["traceOn"],
    "kv_key": ["key"],
}


def names(kind: str, _line: LineSoFar) -> list[str]:
    return NAMES[kind]


def completed(line: str) -> list[str]:
    """The lines that TAB can make of a line."""
    found = offer(line, names)
    return [line[: found.start] + each.text + each.behind for each in found.candidates]


@in_one_test(
    ("topicl", ["topicList "]),
    ("TOPICST", ["topicStatus "]),
    ("rmqadmin topicl", ["rmqadmin topicList "]),
    ("exi", ["exit "]),
    ("quERYc", ["queryCq "]),
    ("dlq r", ["dlq redrive "]),
    ("help dlq r", ["help dlq redrive "]),
    ("topicStatus -t Or", ["topicStatus -t Orders ", "topicStatus -t orders-old "]),
    ("topicStatus -t %", ["topicStatus -t %RETRY%billing "]),
    ("topicStatus -t ", ["topicStatus -t Orders ", "topicStatus -t orders-old ", "topicStatus -t 'with space' "]),
    ("topicStatus -t O", ["topicStatus -t Orders ", "topicStatus -t orders-old "]),
    ("topicStatus -t OFF", ["topicStatus -t OFFSET_MOVED_EVENT "]),
    ("topicStatus -t b", ["topicStatus -t broker-a "]),
    ("topicStatus -t Def", ["topicStatus -t DefaultCluster ", "topicStatus -t DefaultCluster_REPLY_TOPIC "]),
    ("consumerProgress -g TOO", ["consumerProgress -g TOOLS_CONSUMER "]),
    ("topicStatus -topic Orders", ["topicStatus -topic Orders ", "topicStatus -topic orders-old "]),
    ("topicStatus --topic=Orders", ["topicStatus --topic=Orders ", "topicStatus --topic=orders-old "]),
    ("topicStatus -t wi", ["topicStatus -t 'with space' "]),
    ("topicStatus -t \"wi", ['topicStatus -t "with space" ']),
    ("topicStatus -t bad", []),
    ("topicstatus -n a:1 -t Orders --out", ["topicstatus -n a:1 -t Orders --output "]),
    ("topicStatus -o js", ["topicStatus -o json ", "topicStatus -o jsonl "]),
    ("-o json topicS", ["-o json topicStatus "]),
    ("-o js", ["-o json ", "-o jsonl "]),
    ("--context l", ["--context live "]),
    ("consumerProgress --watch --unt", ["consumerProgress --watch --until "]),
    ("consumerProgress -g ", ["consumerProgress -g billing "]),
    ("msg cat Orders", ["msg cat Orders ", "msg cat orders-old "]),
    ("msg cat Orders extra Or", []),
    ("dlq show b", ["dlq show billing "]),
    ("context use ", ["context use dev ", "context use live ", "context use - ", "context use none "]),
    ("brokerStatus -b ", ["brokerStatus -b 127.0.0.1:10911 "]),
    ("wipeWritePerm -b ", ["wipeWritePerm -b broker-a "]),
    ("updateBrokerConfig -b 127.0.0.1:10911 -k tr", ["updateBrokerConfig -b 127.0.0.1:10911 -k traceOn "]),
    ("updateKvConfig -s S -k ", ["updateKvConfig -s S -k key "]),
    ("topicList --json topic,cl", ["topicList --json topic,cluster"]),
    ("! topicl", []),
    ("topicList | topicl", []),
    ("topicList # topicl", []),
    ("nosuch -t O", []),
)  # fmt: skip
def test_what_can_follow(line: str, expected: list[str]) -> None:
    assert completed(line) == expected


def test_an_option_that_was_given_is_not_offered_again() -> None:
    assert "topicList --output " in completed("topicList --")
    assert "topicList -o json --output " not in completed("topicList -o json --")


def test_behind_a_command_without_words_its_options_are_offered() -> None:
    assert {"topicList --clusterModel ", "topicList --all "} <= set(completed("topicList "))


def test_files_are_offered_where_one_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my topics.json").touch()
    (tmp_path / "more").mkdir()
    (tmp_path / "more/file").touch()
    (tmp_path / ".hidden").touch()
    line = "updateTopicList -c DefaultCluster -f "
    assert completed(line) == [f"{line}more/", f"{line}'my topics.json' "]
    assert completed(f"{line}more/") == [f"{line}more/file "]
    assert completed(f"{line}.h") == [f"{line}.hidden "]
    assert completed(f"{line}nowhere/x") == []
