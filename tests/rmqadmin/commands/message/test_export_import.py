"""``msg export`` and ``msg import`` on a running server: one undoes the other, however either ends."""

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rmqadmin.core.messages.files.exported_message import ExportedMessage
from rmqadmin.core.messages.files.formats import FileFormat, format_of_content, read_untrusted
from rmqadmin.core.messages.importing import importer as importing
from rmqadmin.core.messages.importing import progress_file
from rmqadmin.core.messages.importing.send_lanes import Lanes, Load
from rmqclient.admin import AdminClient
from rmqclient.message import Message, SendResult
from rmqclient.sending import SendRequests
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import ConnectError, RefusedError
from rmqproto.wire.command import Command
from tests.rmqadmin.conftest import Ran, Rmqadmin, Terminal, status
from tests.support.servers import Fresh, Server, topic_config, until


@dataclass
class Store:
    """Topics of the running server and their messages."""

    server: Server
    admin: AdminClient
    fresh: Fresh

    def topic(self, queues: int = 2) -> str:
        name = self.fresh("CopyTopic")
        self.admin.create_topic(self.server.broker_addr, topic_config(name, queues))
        until(lambda: name in self.admin.topic_list())
        return name

    def send(
        self, topic: str, body: bytes, queue_id: int = 0, *, born_ms: int | None = None, times: int = 1, **fields: Any
    ) -> None:
        queue = MessageQueue(topic, "broker-a", queue_id)
        encoded = SendRequests(queue, "P").of_copy(
            Message(topic, body * times, **fields), born_timestamp_ms=born_ms or 1000
        )
        self.admin.send_encoded(self.server.broker_addr, queue, encoded)

    def bodies(self, topic: str, queue_id: int = 0) -> list[bytes]:
        at, found = 0, []
        while pulled := self.admin.pull_message(
            self.server.broker_addr, MessageQueue(topic, "broker-a", queue_id), at
        ).messages:
            found += [message.plain_body() for message in pulled]
            at = pulled[-1].queue_offset + 1
        return found


@pytest.fixture
def store(server: Server, admin: AdminClient, fresh: Fresh) -> Store:
    return Store(server, admin, fresh)


def export(rmqadmin: Rmqadmin, topic: str, file: Path, *args: str) -> list[ExportedMessage]:
    ran = rmqadmin("-o", "json", "msg", "export", topic, str(file), "--overwrite", *args, status=0)
    with file.open("rb") as found:
        messages = list(read_untrusted(found, format_of_content(found, None)))
    (row,) = ran.items
    assert (row["messages"], row["file_size_bytes"]) == (len(messages), file.stat().st_size)
    return messages


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
    """Above them used to stand the headings of a table of refusals without a row."""
    ran = rmqadmin("msg", "import", lines_file(tmp_path / "a.jsonl", "one"), "--to", store.topic(), "--yes", status=0)
    assert "REASON" not in ran.out
    assert ran.out.startswith("File: "), ran.out


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
    assert rmqadmin("msg", "export", topic, str(tmp_path / "no" / "a.jsonl")).status == 1


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


def lines_file(path: Path, *bodies: str) -> str:
    path.write_text("".join(f'{{"body": "{body}", "broker_name": "broker-a", "queue_id": 0}}\n' for body in bodies))
    return str(path)


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


# --- resuming ----------------------------------------------------------------------------------------------------


@pytest.fixture
def no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "SETTLE_S", 0.0)


class Stopped:
    """Ends an import at its nth send: before the message is sent, or after it is stored but before the import knows."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int, error: BaseException, *, is_stored: bool):
        whole = Lanes.put
        counts = iter(range(1, 1000))

        def put(lanes: Lanes, load: Load) -> None:
            if next(counts) != at:
                return whole(lanes, load)
            if is_stored:
                whole(lanes, load)
                lanes.answers()
            raise error

        monkeypatch.setattr(Lanes, "put", put)


@pytest.mark.usefixtures("no_wait")
@pytest.mark.parametrize("is_stored", [False, True])
@pytest.mark.parametrize(("error", "status"), [(KeyboardInterrupt(), 130), (ConnectError("gone", address="b"), 3)])
@pytest.mark.parametrize("is_killed", [False, True])
def test_an_import_goes_on_where_it_stopped_and_sends_nothing_twice(
    rmqadmin: Rmqadmin,
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    status: int,
    is_stored: bool,
    is_killed: bool,
) -> None:
    """``is_killed``: only the beginning was noted, as if the process had died at once."""
    topic, copy = store.topic(), store.topic()
    for at in range(20):
        store.send(topic, b"%d" % at, at % 2)
    file = tmp_path / "a.jsonl"
    export(rmqadmin, topic, file)
    lines = file.read_bytes().splitlines(keepends=True)
    lines[3] = b'{"body": "3", "broker_name": "broker-a", "queue_id": 1}\n'  # this message has no unique key
    file.write_bytes(b"".join(lines))
    args = ("msg", "import", str(file), "--to", copy, "--yes")
    with monkeypatch.context() as patch:
        Stopped(patch, 9, error, is_stored=is_stored)
        if is_killed:
            whole, saves = progress_file.save, iter(range(1000))
            patch.setattr(progress_file, "save", lambda *each: whole(*each) if next(saves) == 0 else None)
        stopped = rmqadmin(*args)
    assert stopped.status == status
    assert "8 of 20 messages are done; to continue: rmqadmin msg import" in stopped.err
    again = rmqadmin(*args)
    assert (again.status, f"{0 if is_killed else 8} of 20 are done" in again.err) == (2, True)
    store.send(copy, b"somebody else's")
    resumed = rmqadmin("-o", "json", *args, "--resume", status=0)
    summary = resumed.document["summary"]
    present = (8 if is_killed else 0) + is_stored
    assert (summary["sent"], summary["present"] or 0) == (20 - present, present)
    bodies = [body for queue_id in (0, 1) for body in store.bodies(copy, queue_id) if b"else" not in body]
    assert sorted(map(int, bodies)) == list(range(20))
    assert bodies == [b"%d" % at for at in (*range(0, 20, 2), *range(1, 20, 2))]
    assert rmqadmin(*args, "--resume").status == 2  # the import is complete


@pytest.mark.usefixtures("no_wait")
def test_an_import_can_begin_again(
    rmqadmin: Rmqadmin, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = store.topic()
    args = ("msg", "import", lines_file(tmp_path / "a.jsonl", "one", "two"), "--to", copy, "--yes")
    with monkeypatch.context() as patch:
        Stopped(patch, 2, KeyboardInterrupt(), is_stored=False)
        assert rmqadmin(*args).status == 130
    assert rmqadmin(*args, "--restart").status == 0
    assert store.bodies(copy) == [b"one", b"one", b"two"]


def test_standard_input_and_a_file_of_the_same_content_are_one_source(
    rmqadmin: Rmqadmin, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --format, all that came through a pipe was one source, and no file; so was a file with --to and one whose
    messages name the same topic."""
    copy = store.topic(1)

    def pipe(body: str, *more: str) -> Ran:
        text = f'{{"body": "{body}", "topic": "{copy}"}}\n'
        (tmp_path / "a.jsonl").write_text(text)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        return rmqadmin("msg", "import", *more, "--yes")

    assert pipe("one", "-", "--format", "jsonl").status == 0
    assert pipe("two", "-", "--format", "jsonl").status == 0
    for more in (("-",), ("-", "--format", "jsonl"), (str(tmp_path / "a.jsonl"),), ("-", "--to", copy)):
        again = pipe("two", *more)
        assert (again.status, "was imported before, until" in again.err) == (2, True), again.err
        assert ("standard input was imported" in again.err) == (more[0] == "-")
    assert store.bodies(copy) == [b"one", b"two"]


@pytest.mark.slow
def test_a_finished_import_is_not_repeated_by_accident(
    rmqadmin: Rmqadmin, store: Store, tmp_path: Path, terminal: Terminal
) -> None:
    """It sent all again without a word."""
    copy, name = store.topic(1), lines_file(tmp_path / "a.jsonl", "one", "two")
    args = ("msg", "import", name, "--to", copy)
    assert rmqadmin(*args, "--yes").status == 0
    told = f"{name} was imported before, until {time.strftime('%Y-')}"
    for more in (("--yes",), ("--yes", "--resume"), ("--yes", "--skip-refused")):
        again = rmqadmin(*args, *more)
        assert (again.status, told in again.err, ": 2 messages" in again.err) == (2, True, True), again.err
        assert "--restart sends them all again." in again.err
    dry = rmqadmin(*args, "--dry-run")
    assert (dry.status, told in dry.err) == (0, True)
    for answer, exit_status in (("no", 1), (copy, 0)):
        child = terminal(*args, columns=200)
        child.expect("was imported before, until .*: 2 messages. This sends 2 messages to .* again.")
        child.expect(f"Type {copy} to go on: ")
        child.sendline(answer)
        assert status(child) == exit_status
        assert len(store.bodies(copy)) == (2 if exit_status else 4)
    assert rmqadmin(*args, "--yes").status == 2
    assert rmqadmin(*args, "--yes", "--restart").status == 0
    assert len(store.bodies(copy)) == 6
    assert rmqadmin("msg", "import", name, "--to", store.topic(), "--yes").status == 0, "to another topic it is another"


def test_an_import_into_what_was_made_anew_is_no_repetition(
    run: Rmqadmin, start_standalone: Callable[..., Server], tmp_path: Path
) -> None:
    """A development server at the same address gets its messages every day."""
    name = lines_file(tmp_path / "a.jsonl", "one", "two")
    ports: tuple[str, ...] = ()
    for _ in range(2):
        server = start_standalone(*ports)
        addr = server.namesrv_addr
        ports = ("--namesrv-port", addr.rpartition(":")[2], "--port", server.broker_addr.rpartition(":")[2])
        assert run("updateTopic", "-c", "DefaultCluster", "-t", "Daily", "-r", "1", "-w", "1", "-n", addr).status == 0
        run("msg", "import", name, "--to", "Daily", "--yes", "-n", addr, status=0)
        assert run("msg", "import", name, "--to", "Daily", "--yes", "-n", addr).status == 2
        server.stop()


def test_an_interrupted_import_does_not_go_on_in_what_was_made_anew(
    rmqadmin: Rmqadmin, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = store.topic(1)
    args = ("msg", "import", lines_file(tmp_path / "a.jsonl", *"abcd"), "--to", copy, "--yes")
    with monkeypatch.context() as patch:
        Stopped(patch, 3, KeyboardInterrupt(), is_stored=False)
        assert rmqadmin(*args).status == 130
    assert rmqadmin("deleteTopic", "-c", "DefaultCluster", "-t", copy, "--yes").status == 0
    assert rmqadmin("updateTopic", "-c", "DefaultCluster", "-t", copy, "-r", "1", "-w", "1").status == 0
    monkeypatch.setattr("rmqadmin.core.messages.importing.importer.SETTLE_S", 0.0)
    ran = rmqadmin(*args, "--resume")
    assert (ran.status, "it was made anew" in ran.err) == (2, True), ran.err
    assert rmqadmin(*args, "--restart").status == 0
    assert store.bodies(copy) == [b"a", b"b", b"c", b"d"]


def test_an_import_that_the_broker_refuses_altogether_leaves_nothing_behind(
    rmqadmin: Rmqadmin, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    args = ("msg", "import", lines_file(tmp_path / "a.jsonl", "one"), "--to", store.topic(), "--yes")
    with monkeypatch.context() as patch:
        Stopped(patch, 1, RefusedError(16, "no"), is_stored=False)
        ran = rmqadmin(*args)
    assert (ran.status, "to go on" in ran.err) == (4, False)
    assert rmqadmin(*args).status == 0


@pytest.mark.slow
def test_an_import_that_is_killed_goes_on_and_sends_nothing_twice(
    rmqadmin: Rmqadmin, store: Store, tmp_path: Path
) -> None:
    copy = store.topic()
    name = lines_file(tmp_path / "a.jsonl", *map(str, range(800)))
    command = [sys.executable, "-m", "rmqadmin", "msg", "import", name, "--to", copy, "--rate", "200", "--yes"]
    state = {**os.environ, "NAMESRV_ADDR": store.server.namesrv_addr, "XDG_STATE_HOME": os.environ["XDG_STATE_HOME"]}
    with subprocess.Popen(command, env=state, stdout=subprocess.DEVNULL) as process:
        until(lambda: len(store.bodies(copy)) >= 350)
        process.send_signal(signal.SIGKILL)
    resumed = rmqadmin("-o", "json", "msg", "import", name, "--to", copy, "--resume", "--yes")
    assert (resumed.status, store.bodies(copy)) == (0, [b"%d" % at for at in range(800)])
    assert resumed.document["summary"]["present"]


# --- concurrency -------------------------------------------------------------------------------------------------


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


@pytest.mark.usefixtures("no_wait")
def test_what_was_stored_behind_a_message_without_an_answer_is_not_sent_again(
    rmqadmin: Rmqadmin, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of four messages under way, the second gets no answer. One counts as done, and the import looks for three."""
    topic, copy = store.topic(queues=4), store.topic(queues=4)
    for at in range(8):
        store.send(topic, b"%d" % at, at % 4)
    export(rmqadmin, topic, tmp_path / "a.jsonl")
    args = ("msg", "import", str(tmp_path / "a.jsonl"), "--to", copy, "--yes")
    whole = Lanes.result

    def result(lanes: Lanes, load: Load, answer: Command | None) -> SendResult:
        return whole(lanes, load, None if load.number == 2 else answer)

    with monkeypatch.context() as patch:
        patch.setattr(Lanes, "result", result)
        stopped = rmqadmin(*args)
    assert (stopped.status, "1 of 8 messages are done" in stopped.err) == (3, True)
    resumed = rmqadmin("-o", "json", *args, "--resume")
    assert (resumed.status, resumed.document["summary"]["present"]) == (0, 3)
    stored = [body for queue_id in range(4) for body in store.bodies(copy, queue_id)]
    assert sorted(stored) == [b"%d" % at for at in range(8)]


def test_a_file_without_messages_is_told(rmqadmin: Rmqadmin, tmp_path: Path) -> None:
    """It was imported, and nothing said that nothing was sent."""
    empty = tmp_path / "empty.jsonl"
    empty.write_bytes(b"")
    ran = rmqadmin("msg", "import", str(empty), "--yes")
    assert (ran.status, f"there is no message in {empty}" in ran.err) == (0, True)
