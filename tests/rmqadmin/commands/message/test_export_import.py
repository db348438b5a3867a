"""``msg export`` and ``msg import`` on a running server: one undoes the other, and what each tells."""

import io
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rmqadmin.core.messages.files.exported_message import ExportedMessage
from rmqadmin.core.messages.files.formats import FileFormat
from rmqadmin.core.messages.importing import importer as importing
from rmqadmin.core.messages.importing.send_lanes import Lanes, Load
from rmqclient.admin import AdminClient
from rmqclient.message import SendResult
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import RefusedError
from rmqproto.wire.command import Command
from tests.rmqadmin.commands.message.conftest import Store, export, lines_file
from tests.rmqadmin.conftest import Rmqadmin


def as_made(message: ExportedMessage) -> tuple[Any, ...]:
    """The parts of a message that its producer sets, without its place and its arrival."""
    return message.queue_id, message.body, message.properties, message.flag, message.born_ms


NAMES = st.text(st.characters(exclude_characters="\0\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=8)
MADE = st.fixed_dictionaries(
    {
        "body": st.binary(min_size=1, max_size=40),
        "times": st.sampled_from([1, 1, 1, 5000]),  # large bodies are compressed on the way
        "queue_id": st.integers(0, 1),
        "flag": st.integers(-(1 << 31), (1 << 31) - 1),
        "born_ms": st.integers(1, 1 << 52),
        "tags": st.none() | NAMES,
        "keys": st.just("") | NAMES,
        "properties": st.dictionaries(NAMES.map(lambda name: f"p{name}"), NAMES, max_size=3),
    }
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15)
@given(made=st.lists(MADE, min_size=1, max_size=6), format=st.sampled_from(FileFormat))
def test_import_undoes_export(
    rmqadmin: Rmqadmin, store: Store, tmp_path: Path, made: list[dict[str, Any]], format: FileFormat
) -> None:
    """Arbitrary bodies and properties, keys, tags, flags and born times survive, and so does the order in each
    queue."""
    topic, copy = store.topic(), store.topic()
    for fields in made:
        store.send(topic, **fields)
    file = tmp_path / f"messages.{format}"
    before = export(rmqadmin, topic, file)
    assert len(before) == len(made)
    ran = rmqadmin("-o", "json", "msg", "import", str(file), "--to", copy, "--yes")
    assert (ran.status, ran.document["summary"]["sent"]) == (0, len(made)), ran.err
    after = export(rmqadmin, copy, tmp_path / f"copies.{format}")
    for queue_id in (0, 1):
        there = [as_made(one) for one in before if one.queue_id == queue_id]
        assert [as_made(one) for one in after if one.queue_id == queue_id] == there


def test_an_import_without_refusals_shows_its_totals_alone(rmqadmin: Rmqadmin, store: Store, tmp_path: Path) -> None:
    """Above them stood the headings of a table of refusals without a row, and the time was said to be 0.0 ms."""
    ran = rmqadmin("msg", "import", lines_file(tmp_path / "a.jsonl", "one"), "--to", store.topic(), "--yes", status=0)
    assert "REASON" not in ran.out
    assert ran.out.startswith("File: "), ran.out
    assert "Duration: 0.0 ms" not in ran.out


def test_export_selects_as_cat_does_and_says_what_it_did(rmqadmin: Rmqadmin, store: Store, tmp_path: Path) -> None:
    topic = store.topic()
    for at in range(10):
        store.send(topic, b"%d" % at, at % 2, tags="odd" if at % 2 else "even")
    found = export(rmqadmin, topic, tmp_path / "a.jsonl", "--tag", "odd", "--grep", "[357]", "--limit", "2")
    assert [one.body for one in found] == [b"3", b"5"]
    ran = rmqadmin("msg", "export", topic, "--queue", "1")
    assert "scanned 5, matched 5, stopped because the end of that range was reached" in ran.err
    assert [line.count('"_command":"msg export"') for line in ran.out.splitlines()] == [1] * 5
    refused = rmqadmin("msg", "export", topic, str(tmp_path / "a.jsonl"))
    assert (refused.status, "exists already" in refused.err) == (2, True)
    assert rmqadmin("msg", "export", topic, str(tmp_path / "a.txt")).status == 2
    assert rmqadmin("msg", "export", topic, str(tmp_path / "no" / "a.jsonl")).status == 2


def test_a_file_that_cannot_be_finished_is_not_there(
    rmqadmin: Rmqadmin, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = store.topic()
    for at in range(5):
        store.send(topic, b"%d" % at)

    def broken(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(AdminClient, "pull_message", broken)
    ran = rmqadmin("msg", "export", topic, str(tmp_path / "a.jsonl"))
    assert (ran.status, list(tmp_path.glob("a.jsonl*"))) == (130, [])
    assert "a.jsonl is not written: scanned 0, matched 0, stopped because it was interrupted" in ran.err


def test_what_cat_prints_can_be_imported_and_standard_input_is_a_file(
    rmqadmin: Rmqadmin, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, copy = store.topic(), store.topic()
    store.send(topic, b"x" * 9000, tags="TagA")
    printed = rmqadmin("-o", "jsonl", "msg", "cat", topic).out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(printed.encode())))
    assert rmqadmin("msg", "import", "-", "--to", copy, "--yes").status == 0
    assert store.bodies(copy) == [b"x" * 9000]


def test_nothing_is_sent_before_all_was_checked(rmqadmin: Rmqadmin, store: Store, tmp_path: Path) -> None:
    copy = store.topic()
    file = tmp_path / "a.jsonl"
    name = lines_file(file, "one", "", "three")
    for args, exit_status, said in (
        ([name, "--to", copy, "--dry-run"], 1, "1 of 3 messages cannot be imported"),
        ([name, "--to", copy, "--yes"], 1, "nothing was sent; --skip-refused sends the others"),
        ([name, "--to", f"{copy}x", "--yes"], 5, f"there is no topic {copy}x"),
        ([name, "--to", "SCHEDULE_TOPIC_XXXX", "--yes"], 2, "is forbidden"),
        ([name, "--yes"], 1, "3 of 3 messages cannot be imported"),
        ([str(tmp_path / "none.jsonl"), "--yes"], 2, "No such file"),
        ([str(tmp_path), "--yes"], 2, "Is a directory"),
        ([name, "--to", copy, "--resume", "--restart"], 2, "exclude each other"),
        ([name, "--to", copy, "--resume", "--skip-refused", "--yes"], 2, "was interrupted"),
        ([name, "--to", copy, "--skip-refused"], 2, "Nobody can be asked to confirm it."),
    ):
        ran = rmqadmin("msg", "import", *args)
        assert (ran.status, said in ran.err) == (exit_status, True), ran.err
    file.write_bytes(file.read_bytes() + b"no line")
    assert "a.jsonl: line 4 is not a message" in rmqadmin("msg", "import", name, "--to", copy, "--yes").err
    assert store.bodies(copy) == []


def test_messages_that_are_refused_are_named_and_the_others_are_sent(
    rmqadmin: Rmqadmin, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some refusals are foreseen, others come only from the broker."""
    copy = store.topic()
    name = lines_file(tmp_path / "a.jsonl", "one", "", "three", "four")
    whole = Lanes.result

    def result(self: Lanes, load: Load, answer: Command | None) -> SendResult:
        if load.number == 3:
            raise RefusedError(13, "the message is illegal")
        return whole(self, load, answer)

    monkeypatch.setattr(Lanes, "result", result)
    ran = rmqadmin("-o", "json", "msg", "import", name, "--to", copy, "--skip-refused", "--yes")
    assert (ran.status, store.bodies(copy)) == (1, [b"one", b"three", b"four"])
    assert [(row["number"], row["reason"][:25]) for row in ran.items] == [
        (2, "the message body is empty"), (3, "the message is illegal"),
    ]  # fmt: skip
    summary = ran.document["summary"]
    assert (summary["sent"], summary["refused"], summary["executed"]) == (2, 2, True)


def test_a_dry_run_sends_nothing_and_a_busy_broker_is_asked_again(
    rmqadmin: Rmqadmin, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = store.topic()
    name = lines_file(tmp_path / "a.jsonl", "one", "two")
    dry = rmqadmin("-o", "json", "msg", "import", name, "--to", copy, "--dry-run")
    assert (dry.status, dry.document["summary"]["topics"], store.bodies(copy)) == (0, f"{copy} 2", [])
    answers = iter([2, 14, 0, 0])
    whole = Lanes.answers

    def answered(self: Lanes) -> list[tuple[Load, Command | None]]:
        found = whole(self)
        code = next(answers) if found else 0
        return [(load, Command(code=code, remark="busy")) if code else (load, answer) for load, answer in found]

    monkeypatch.setattr(Lanes, "answers", answered)
    monkeypatch.setattr(importing, "BUSY_PAUSE_S", 0.0)
    assert rmqadmin("msg", "import", name, "--to", copy, "--yes").status == 0
    assert store.bodies(copy) == [b"one", b"one", b"one", b"two"]  # this broker stored it each time


def test_the_rate_is_kept(rmqadmin: Rmqadmin, store: Store, tmp_path: Path) -> None:
    name = lines_file(tmp_path / "a.jsonl", *map(str, range(6)))
    ran = rmqadmin("-o", "json", "msg", "import", name, "--to", store.topic(), "--rate", "20", "--yes")
    assert ran.document["summary"]["seconds"] >= 0.2


def test_other_queues_take_whole_queues_where_the_own_ones_are_not_there(
    rmqadmin: Rmqadmin, store: Store, tmp_path: Path
) -> None:
    topic, copy = store.topic(queues=4), store.topic(queues=3)
    for at in range(40):
        store.send(topic, b"%d" % at, at % 4)
    export(rmqadmin, topic, tmp_path / "a.msgpack")
    assert rmqadmin("msg", "import", str(tmp_path / "a.msgpack"), "--to", copy, "--yes").status == 0
    queues = [[int(body) for body in store.bodies(copy, queue_id)] for queue_id in range(3)]
    assert sorted(number for queue in queues for number in queue) == list(range(40))
    for source in range(4):
        (owner,) = [queue for queue in queues if source in queue]
        assert [number for number in owner if number % 4 == source] == list(range(source, 40, 4))


def test_messages_of_different_queues_are_sent_at_once_and_those_of_one_queue_are_not(
    rmqadmin: Rmqadmin, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each message used to wait for the one before it, even in another queue."""
    topic, copy = store.topic(queues=4), store.topic(queues=4)
    for at in range(40):
        store.send(topic, b"%d" % at, at % 4)
    export(rmqadmin, topic, tmp_path / "a.jsonl")
    under_way: dict[int, MessageQueue | None] = {}
    at_once: list[int] = []
    put, answers = Lanes.put, Lanes.answers

    def noted_put(lanes: Lanes, load: Load) -> None:
        assert load.queue not in under_way.values()
        under_way[load.number] = load.queue
        put(lanes, load)

    def noted_answers(lanes: Lanes) -> list[tuple[Load, Command | None]]:
        at_once.append(len(under_way))
        found = answers(lanes)
        for load, _ in found:
            del under_way[load.number]
        return found

    monkeypatch.setattr(Lanes, "put", noted_put)
    monkeypatch.setattr(Lanes, "answers", noted_answers)
    assert rmqadmin("msg", "import", str(tmp_path / "a.jsonl"), "--to", copy, "--yes").status == 0
    assert max(at_once) == 4
    assert [store.bodies(copy, queue_id) for queue_id in range(4)] == [
        [b"%d" % at for at in range(queue_id, 40, 4)] for queue_id in range(4)
    ]


def test_a_file_without_messages_is_told(rmqadmin: Rmqadmin, tmp_path: Path) -> None:
    """It was imported, and nothing said that nothing was sent; later, it was not without ``--yes``."""
    empty = tmp_path / "empty.jsonl"
    empty.write_bytes(b"")
    ran = rmqadmin("msg", "import", str(empty))
    assert (ran.status, f"there is no message in {empty}" in ran.err) == (0, True)
