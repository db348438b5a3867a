"""Bodies from words, files and standard input, and what the program says about the topic."""

import io
import json
import random
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import SendResult
from tests.rmqadmin.conftest import CLUSTER, Rmqadmin, Terminal, status
from tests.support.servers import Fresh, Server, create_topic, until


@pytest.fixture
def topic(server: Server, fresh: Fresh) -> str:
    return create_topic(server, fresh("SendingTopic"), 2)


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


def test_without_a_message_no_topic_is_said_to_be_made(rmqadmin: Rmqadmin, type_in: Callable[[bytes], None]) -> None:
    """It said that the broker makes the topic for this message."""
    type_in(b"")
    ran = rmqadmin("msg", "send", "TopicOfNothing", "--lines")
    assert (ran.status, ran.err) == (0, "rmqadmin: there was no message to send\n")


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
    rmqadmin: Rmqadmin, topic: str, fresh: Fresh, type_in: Callable[[bytes], None]
) -> None:
    written = b"".join(len(body).to_bytes(4, "big") + body for body in (b"one\0\n", b"x" * (1 << 16), b"text"))
    type_in(written)
    assert len(rmqadmin("-o", "json", "msg", "send", topic, "--sized").items) == 3
    assert rmqadmin("msg", "cat", topic, "-f", "%R%s").out.encode() == written
    for cut, words in ((written[:-1], "ends inside message 3"), (b"\xff" * 4, "would have 4,294,967,295 bytes")):
        type_in(cut)
        ran = rmqadmin("msg", "send", topic, "--sized", "--dry-run", err=words)
        assert ran.status in (1, 2)


def test_what_is_printed_as_json_lines_is_sent_again_as_it_was(
    rmqadmin: Rmqadmin, topic: str, fresh: Fresh, type_in: Callable[[bytes], None]
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


THREE_LINES = b'{"body": "one"}\n{"body": 2}\n{"body": "three"}\n'


def test_a_line_that_is_no_message_is_told_before_anything_is_sent(
    rmqadmin: Rmqadmin, topic: str, tmp_path: Path, type_in: Callable[[bytes], None]
) -> None:
    """The lines before it used to be sent."""
    type_in(THREE_LINES)
    (tmp_path / "lines").write_bytes(THREE_LINES)
    for source, where in (["-"], "standard input"), ([f"@{tmp_path / 'lines'}"], str(tmp_path / "lines")):
        ran = rmqadmin("msg", "send", topic, "--jsonl", *source, status=2)
        assert f"1 of 3 messages cannot be sent: {where}, line 2: not a message" in ran.err
        assert "nothing was sent" in ran.err
    assert bodies(rmqadmin, topic) == []


def test_other_messages_are_sent_if_asked_for_and_what_was_left_out_is_counted(
    rmqadmin: Rmqadmin, topic: str, type_in: Callable[[bytes], None]
) -> None:
    type_in(THREE_LINES)
    ran = rmqadmin("msg", "send", topic, "--jsonl", "--keep-going", status=1)
    assert "1 of 3 messages was not sent; the first: standard input, line 2: not a message" in ran.err
    assert bodies(rmqadmin, topic) == ["one", "three"]


@pytest.mark.parametrize(
    ("line", "problem", "hint"),
    [
        ('{"body": "x", "key": "ORDER-1"}', "there is no field 'key'", "Did you mean keys?"),
        ('{"body": "x", "tag": "paid"}', "there is no field 'tag'", "Did you mean tags?"),
        ('{"body": "x", "Keys": "ORDER-1"}', "there is no field 'Keys'", "Did you mean keys?"),
        ('{"body": "x", "delay": 3}', "there is no field 'delay'", "Known are: body, body_base64, tags, keys"),
        ('{"bdy": "x"}', "there is no field 'bdy'", "Did you mean body?"),
        ('{"body": "x", "body_base64": "eA=="}', "it has body and body_base64", "A line is an object"),
        ('{"tags": "paid"}', "the message body is empty", None),
    ],
)
def test_an_unknown_name_in_a_line_is_refused(
    rmqadmin: Rmqadmin, topic: str, tmp_path: Path, type_in: Callable[[bytes], None],
    line: str, problem: str, hint: str | None,
) -> None:  # fmt: skip
    """They were SEND_OK, without key and tag."""
    type_in(f'{{"body": "first"}}\n{line}\n'.encode())
    sent = rmqadmin("msg", "send", topic, "--jsonl")
    (tmp_path / "lines.jsonl").write_text(f"{line}\n")
    imported = rmqadmin("msg", "import", str(tmp_path / "lines.jsonl"), "--to", topic, "--yes")
    assert (sent.status, problem in sent.err, hint is None or hint in sent.err) == (2, True, True)
    assert imported.status in (1, 2)
    assert problem in imported.err + imported.out
    assert bodies(rmqadmin, topic) == []


@pytest.mark.parametrize(
    ("line", "problem", "hint"),
    [
        ('{"body": "x", "queue_id": 7}', "there is no queue with queue_id 7", "broker-a:0, broker-a:1"),
        ('{"body": "x", "broker_name": "broker-z"}', "there is no queue with broker_name broker-z", "broker-a:0"),
        ('{"body": "x", "topic": "Elsewhere"}', "it names the topic Elsewhere", "`msg import` sends each to its own"),
        ('{"body": "x", "born_ms": 1}', "it has born_ms", "`msg import` keeps born_ms"),
        ('{"body": "x", "body_compression": "zstd"}', "its body is packed (zstd)", "`msg import` sends it"),
    ],
)
def test_what_a_line_asks_for_and_cannot_have_is_refused(
    rmqadmin: Rmqadmin, topic: str, type_in: Callable[[bytes], None], line: str, problem: str, hint: str
) -> None:
    """They were SEND_OK, in any queue, under the other topic's name, as new as any."""
    type_in(f'{{"body": "first"}}\n{line}\n'.encode())
    ran = rmqadmin("msg", "send", topic, "--jsonl")
    assert (ran.status, problem in ran.err, hint in ran.err) == (2, True, True), ran.err
    assert bodies(rmqadmin, topic) == []


def test_lines_choose_their_queues_by_number_by_broker_or_by_both(
    rmqadmin: Rmqadmin, topic: str, tmp_path: Path, type_in: Callable[[bytes], None]
) -> None:
    places = ('"queue_id": 1', '"broker_name": "broker-a", "queue_id": 0', '"broker_name": "broker-a"')
    lines = "".join(f'{{"body": "{at % 3}", {places[at % 3]}}}\n' for at in range(6))
    type_in(lines.encode())
    sent = rmqadmin("-o", "json", "msg", "send", topic, "--jsonl")
    assert [row["queue_id"] for at, row in enumerate(sent.items) if at % 3 == 0] == [1, 1]
    assert [row["queue_id"] for at, row in enumerate(sent.items) if at % 3 == 1] == [0, 0]
    assert sorted(row["queue_id"] for at, row in enumerate(sent.items) if at % 3 == 2) == [0, 1]
    type_in(lines.encode())
    chosen = rmqadmin("-o", "json", "msg", "send", topic, "--jsonl", "--queue", "0")
    assert {row["queue_id"] for row in chosen.items} == {0}
    (tmp_path / "lines.jsonl").write_text('{"body": "i", "queue_id": 1}\n' * 2)
    assert rmqadmin("msg", "import", str(tmp_path / "lines.jsonl"), "--to", topic, "--yes").status == 0
    there = rmqadmin("-o", "json", "msg", "cat", topic).items
    assert [row["queue_id"] for row in there if row["body"] == "i"] == [1, 1]
    (tmp_path / "lines.jsonl").write_text('{"body": "j"}\n{"body": "j", "queue_id": 9}\n')
    ran = rmqadmin("msg", "import", str(tmp_path / "lines.jsonl"), "--to", topic, "--yes")
    assert (ran.status, "message 2: there is no queue with queue_id 9; nothing was sent" in ran.err) == (2, True)
    assert "j" not in bodies(rmqadmin, topic)


def test_printed_messages_keep_their_queues_and_their_order_in_them(
    rmqadmin: Rmqadmin, topic: str, fresh: Fresh, type_in: Callable[[bytes], None]
) -> None:
    """They went to any queue. A topic with fewer takes whole queues, as `msg import` does."""
    rmqadmin("msg", "send", topic, *"abcdefgh")
    printed = rmqadmin("-o", "jsonl", "msg", "cat", topic)
    before = {(row["queue_id"], row["queue_offset"]): row["body"] for row in map(json.loads, printed.out.splitlines())}
    for queues, wanted in (("2", before), ("1", None)):
        copy = fresh("CopyTopic")
        assert rmqadmin("updateTopic", "-c", CLUSTER, "-t", copy, "-r", queues, "-w", queues).status == 0
        type_in(printed.out.encode())
        assert rmqadmin("msg", "send", copy, "--jsonl").status == 0
        rows = rmqadmin("-o", "json", "msg", "cat", copy).items
        assert len(rows) == 8
        assert wanted in (None, {(row["queue_id"], row["queue_offset"]): row["body"] for row in rows})


def test_a_byte_order_mark_is_no_part_of_the_first_line(
    rmqadmin: Rmqadmin, topic: str, tmp_path: Path, type_in: Callable[[bytes], None]
) -> None:
    marked = b'\xef\xbb\xbf{"body": "one"}\n'
    type_in(marked)
    assert rmqadmin("msg", "send", topic, "--jsonl").status == 0
    (tmp_path / "lines.jsonl").write_bytes(marked)
    assert rmqadmin("msg", "import", str(tmp_path / "lines.jsonl"), "--to", topic, "--yes").status == 0
    type_in(b"\xef\xbb\xbfone\n")
    assert rmqadmin("msg", "send", topic, "--lines").status == 0
    assert bodies(rmqadmin, topic) == ["one"] * 3


def test_a_body_with_a_byte_order_mark_is_sent_as_it_is_and_told(
    rmqadmin: Rmqadmin, topic: str, tmp_path: Path
) -> None:  # fmt: skip
    (tmp_path / "body.json").write_bytes(b"\xef\xbb\xbf{}")
    ran = rmqadmin("msg", "send", topic, f"@{tmp_path / 'body.json'}")
    assert (ran.status, "body.json begins with a byte order mark" in ran.err) == (0, True)
    assert bodies(rmqadmin, topic) == ["\ufeff{}"]


def test_an_endless_pipe_is_sent_as_it_comes(rmqadmin: Rmqadmin, topic: str, server: Server) -> None:
    """Nothing is known of lines that are not yet written; the bad one is told with what was sent before it."""
    words = [sys.executable, "-m", "rmqadmin", "msg", "send", topic, "--jsonl", "-n", server.namesrv_addr]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as sending:
        sending.stdin.write(b'{"body": "one"}\n')
        sending.stdin.flush()
        until(lambda: bodies(rmqadmin, topic) == ["one"])
        said = sending.communicate(b'{"boddy": "two"}\n{"body": "three"}\n')[1].decode()
    assert sending.returncode == 1
    assert "standard input, line 2 was not sent, nor what comes behind it: not a message" in said
    assert "1 message before it was sent" in said
    assert bodies(rmqadmin, topic) == ["one"]


def test_an_interrupt_says_how_many_were_sent(rmqadmin: Rmqadmin, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`tail -f log | rmqadmin msg send T --lines` ends so. It said nothing."""
    send, sent = AdminClient.send_message, []

    def interrupted(admin: AdminClient, *args: Any) -> SendResult:
        if len(sent) == 2:
            raise KeyboardInterrupt
        sent.append(args)
        return send(admin, *args)

    monkeypatch.setattr(AdminClient, "send_message", interrupted)
    ran = rmqadmin("msg", "send", topic, "a", "b", "c")
    assert (ran.status, "interrupted: 2 messages were sent" in ran.err) == (130, True)


def test_what_a_pipe_gave_at_once_is_checked_though_it_goes_on(
    rmqadmin: Rmqadmin, topic: str, server: Server
) -> None:  # fmt: skip
    words = [sys.executable, "-m", "rmqadmin", "msg", "send", topic, "--jsonl", "-n", server.namesrv_addr]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as sending:
        sending.stdin.write(b'{"body": "one"}\n{"key": "two"}\n{"body":')
        sending.stdin.flush()
        said = sending.stderr.read().decode()
    assert sending.returncode == 2
    assert "1 of 2 messages cannot be sent: standard input, line 2" in said
    assert bodies(rmqadmin, topic) == []


def test_a_file_given_as_standard_input_is_checked_and_sent(
    rmqadmin: Rmqadmin, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lines").write_bytes(b'{"body": "one"}\n{"body": "two"}\n')
    with (tmp_path / "lines").open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert rmqadmin("msg", "send", topic, "--jsonl").status == 0
    assert bodies(rmqadmin, topic) == ["one", "two"]


def test_messages_go_to_the_named_queue(rmqadmin: Rmqadmin, topic: str) -> None:
    ran = rmqadmin("-o", "json", "msg", "send", topic, "x", "y", "z", "--queue", "broker-a:1")
    assert [row["queue_id"] for row in ran.items] == [1, 1, 1]
    assert rmqadmin("msg", "send", topic, "x", "--queue", "7").status == 5


def test_messages_are_delivered_later(rmqadmin: Rmqadmin, topic: str) -> None:
    assert rmqadmin("msg", "send", topic, "later", "--delay", "300ms").status == 0
    at = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
    assert rmqadmin("msg", "send", topic, "at", "--deliver-at", at).status == 0
    assert bodies(rmqadmin, topic) == []
    until(lambda: sorted(bodies(rmqadmin, topic)) == ["at", "later"])
    for wrong in (
        ["--delay", "soon"],
        ["--delay", "-5s"],
        ["--deliver-at", "@1000"],
        ["--delay", "1s", "--deliver-at", at],
    ):
        assert rmqadmin("msg", "send", topic, "x", *wrong).status == 2


def test_a_person_is_told_that_a_message_is_waited_for(terminal: Terminal, rmqadmin: Rmqadmin, topic: str) -> None:
    """It seemed to hang."""
    child = terminal("msg", "send", topic)
    child.expect("type a message; Ctrl-D")
    child.sendline("typed")
    child.sendeof()
    assert status(child) == 0
    assert bodies(rmqadmin, topic) == ["typed\n"]


def test_the_name_of_a_file_is_not_sent_unawares(
    rmqadmin: Rmqadmin, topic: str, terminal: Terminal, tmp_path: Path
) -> None:
    """mqadmin sends `@body.json` as it is written. A script is told; a person is asked for --yes."""
    file = tmp_path / "body.json"
    file.write_bytes(b"{}")
    child = terminal("sendMessage", "-t", topic, "-p", f"@{file}")
    assert status(child) == 2
    assert f"rmqadmin msg send {topic} @{file}" in " ".join((child.before or "").split())
    assert bodies(rmqadmin, topic) == []
    ran = rmqadmin("sendMessage", "-t", topic, "-p", f"@{file}")
    assert (ran.status, "the body is the text" in ran.err) == (0, True)
    assert status(terminal("sendMessage", "-t", topic, "-p", f"@{file}", "--yes")) == 0
    assert rmqadmin("sendMessage", "-t", topic, "-p", f"@{file}.gone").err == ""
    assert bodies(rmqadmin, topic) == [f"@{file}", f"@{file}", f"@{file}.gone"]


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
    rmqadmin(*command, misspelt, *body, err=f"there is no topic {misspelt}: the broker makes it")
    assert rmqadmin(*command, topic, *body).err == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--nul", "--lines"], "--lines and --nul exclude each other"),
        (["-", "-"], "standard input can be read only once"),
        (["@/no/such/file"], "/no/such/file: No such file or directory"),
    ],
)
def test_what_cannot_be_read_is_a_usage_error(rmqadmin: Rmqadmin, topic: str, words: list[str], said: str) -> None:
    rmqadmin("msg", "send", topic, *words, status=2, err=said)
