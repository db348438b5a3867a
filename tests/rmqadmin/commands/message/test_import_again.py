"""``msg import`` after an end before its end: it goes on, begins again, or is no repetition."""

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqadmin.core.messages.importing import importer as importing
from rmqadmin.core.messages.importing import progress_file
from rmqadmin.core.messages.importing.send_lanes import Lanes, Load
from rmqclient.message import SendResult
from rmqproto.errors import ConnectError, RefusedError
from rmqproto.wire.command import Command
from tests.rmqadmin.commands.message.conftest import Store, export, lines_file
from tests.rmqadmin.conftest import Ran, Rmqadmin, Terminal, status
from tests.support.servers import Server, until


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
