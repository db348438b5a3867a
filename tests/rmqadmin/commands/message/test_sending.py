"""Bodies from words, files and standard input, and what the program says about the topic."""

from __future__ import annotations

import io
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.rmqadmin.conftest import CLUSTER, Rmqadmin


@pytest.fixture
def topic(rmqadmin: Rmqadmin, fresh: Callable[[str], str]) -> str:
    name = fresh("SendingTopic")
    assert rmqadmin("updateTopic", "-c", CLUSTER, "-t", name, "-r", "2", "-w", "2").status == 0
    return name


@pytest.fixture
def type_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    return lambda data: monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def bodies(rmqadmin: Rmqadmin, topic: str) -> list[str]:
    rows = rmqadmin("-o", "json", "printMsg", "-t", topic).items
    return [row["body"] for row in sorted(rows, key=lambda row: int(row["log_offset"]))]


def test_a_body_that_no_command_line_holds_comes_from_standard_input(
    rmqadmin: Rmqadmin, topic: str, type_in: Callable[[bytes], None]
) -> None:
    """200 KB after -p used to fail, and -p - to send a minus sign. In mqadmin's format -p - still does."""
    type_in(b"a" * 200_000)
    assert rmqadmin("sendMessage", "-t", topic, "-p", "-").status == 0
    assert rmqadmin("-o", "mqadmin", "sendMessage", "-t", topic, "-p", "-").status == 0
    assert rmqadmin("sendMessage", "-t", topic, "-p", "@home").status == 0
    assert bodies(rmqadmin, topic) == ["a" * 200_000, "-", "@home"]


def test_words_files_and_standard_input_are_bodies(
    rmqadmin: Rmqadmin, topic: str, tmp_path: Path, type_in: Callable[[bytes], None]
) -> None:
    file = tmp_path / "order.json"
    file.write_bytes(b'{"order": 1}\n')
    type_in(b"typed\n")
    ran = rmqadmin("-o", "json", "msg", "send", topic, "a word", f"@{file}", "-", "-k", "K1 K2", "-c", "paid")
    assert [row["status"] for row in ran.items] == ["SEND_OK"] * 3
    first, second, third = (row["queue_id"] for row in ran.items)
    assert first == third != second
    assert bodies(rmqadmin, topic) == ["a word", '{"order": 1}\n', "typed\n"]
    row = rmqadmin("-o", "json", "printMsg", "-t", topic).items[0]
    assert (row["keys"], row["tags"]) == ("K1 K2", "paid")


def test_what_a_script_sends_one_by_one_is_not_all_in_one_queue(
    rmqadmin: Rmqadmin, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run used to begin with queue 0 of the first broker."""
    for first in (0, 1):
        monkeypatch.setattr(random, "randrange", lambda count, first=first: first % count)
        ran = rmqadmin("-o", "json", "msg", "send", topic, "x", "y", "z")
        assert [row["queue_id"] for row in ran.items] == [first, 1 - first, first]


def test_every_line_is_a_message(rmqadmin: Rmqadmin, topic: str, type_in: Callable[[bytes], None]) -> None:
    type_in("one\n\nzwö\r\nthree".encode())
    assert len(rmqadmin("-o", "json", "msg", "send", topic, "--lines").items) == 3
    assert bodies(rmqadmin, topic) == ["one", "zwö", "three"]


def test_lines_of_a_file_end_where_those_of_standard_input_do(
    rmqadmin: Rmqadmin, topic: str, tmp_path: Path, type_in: Callable[[bytes], None]
) -> None:
    """A carriage return inside a line of a file used to begin another message."""
    lines = b"one\rstill one\r\ntwo\x0bstill two\n"
    (tmp_path / "lines").write_bytes(lines)
    type_in(lines)
    assert len(rmqadmin("-o", "json", "msg", "send", topic, "--lines", f"@{tmp_path / 'lines'}", "-").items) == 4
    assert bodies(rmqadmin, topic) == ["one\rstill one", "two\x0bstill two"] * 2


def test_a_nul_ends_a_message(
    rmqadmin: Rmqadmin, topic: str, tmp_path: Path, type_in: Callable[[bytes], None]
) -> None:  # fmt: skip
    """As `find -print0` writes names. Text after the last NUL is a message too."""
    long = "x" * 100_000
    (tmp_path / "more").write_bytes(b"four\0\0")
    type_in(f"one\ntwo\0{long}\0three".encode())
    ran = rmqadmin("-o", "json", "msg", "send", topic, "--nul", "-", f"@{tmp_path / 'more'}", "--property", "from=nul")
    assert len(ran.items) == 4
    assert bodies(rmqadmin, topic) == ["one\ntwo", long, "three", "four"]
    assert {row["properties"]["from"] for row in rmqadmin("-o", "json", "printMsg", "-t", topic).items} == {"nul"}


def test_what_msg_cat_writes_behind_sizes_is_sent_again_as_it_was(
    rmqadmin: Rmqadmin, topic: str, fresh: Callable[[str], str], type_in: Callable[[bytes], None]
) -> None:
    written = b"".join(len(body).to_bytes(4, "big") + body for body in (b"one\0\n", b"x" * (1 << 16), b"text"))
    type_in(written)
    assert len(rmqadmin("-o", "json", "msg", "send", topic, "--sized").items) == 3
    assert rmqadmin("msg", "cat", topic, "-f", "%R%s").out.encode() == written
    for cut, words in ((written[:-1], "ends inside message 3"), (b"\xff" * 4, "would have 4,294,967,295 bytes")):
        type_in(cut)
        ran = rmqadmin("msg", "send", topic, "--sized", "--dry-run")
        assert words in ran.err
        assert ran.status in (1, 2)


def test_one_way_to_cut_is_enough(rmqadmin: Rmqadmin, topic: str) -> None:
    ran = rmqadmin("msg", "send", topic, "--nul", "--lines")
    assert (ran.status, "--lines and --nul exclude each other" in ran.err) == (2, True)


def test_what_is_printed_as_json_lines_is_sent_again_as_it_was(
    rmqadmin: Rmqadmin, topic: str, fresh: Callable[[str], str], type_in: Callable[[bytes], None]
) -> None:
    type_in(b"\xff\x00 no text")
    rmqadmin("msg", "send", topic, "-", "text", "-k", "K1 K2", "-c", "paid")
    printed = rmqadmin("-o", "jsonl", "printMsg", "-t", topic)
    copy = fresh("CopyTopic")
    assert rmqadmin("updateTopic", "-c", CLUSTER, "-t", copy, "-r", "2", "-w", "2").status == 0
    type_in(printed.out.encode())
    assert rmqadmin("msg", "send", copy, "--jsonl").status == 0
    same = ("message_id", "tags", "keys", "body", "body_base64")
    sent, copied = (sorted([row[name] for name in same] for row in rows) for rows in (
        rmqadmin("-o", "json", "printMsg", "-t", topic).items, rmqadmin("-o", "json", "printMsg", "-t", copy).items,
    ))  # fmt: skip
    assert copied == sent


def test_sending_stops_at_a_line_that_is_no_message_and_says_which(
    rmqadmin: Rmqadmin, topic: str, type_in: Callable[[bytes], None]
) -> None:
    type_in(b'{"body": "one"}\n{"body": 2}\n{"body": "three"}\n')
    ran = rmqadmin("msg", "send", topic, "--jsonl")
    assert ran.status == 1
    assert "message 2 was not sent, nor what comes behind it: not a message" in ran.err
    assert bodies(rmqadmin, topic) == ["one"]


def test_a_file_that_is_not_there_is_a_usage_error(rmqadmin: Rmqadmin, topic: str) -> None:
    ran = rmqadmin("msg", "send", topic, "@/no/such/file")
    assert ran.status == 2
    assert "/no/such/file: No such file or directory" in ran.err


@pytest.mark.parametrize("command", [["sendMessage", "-p", "x", "-t"], ["msg", "send"]])
def test_a_topic_that_the_message_makes_is_named_with_the_one_that_was_meant(
    rmqadmin: Rmqadmin, topic: str, command: list[str]
) -> None:
    """A misspelt topic used to be created silently."""
    body = ["x"] if command[0] == "msg" else []
    misspelt = f"{topic}x{len(command)}"
    planned = rmqadmin(*command, misspelt, *body, "--dry-run")
    assert (
        f"there is no topic {misspelt}: the broker would make it for this message; did you mean {topic}?" in planned.err
    )
    sent = rmqadmin(*command, misspelt, *body)
    assert f"there is no topic {misspelt}: the broker makes it" in sent.err
    assert rmqadmin(*command, topic, *body).err == ""
