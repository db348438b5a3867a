"""Stores without ``--data``, with real processes: what kill -9 leaves behind is removed, and nothing else."""

import fcntl
import json
import os
import signal
from pathlib import Path

import pytest

from rmqserver.temporary_store import OWNER, PREFIX, TemporaryStore, sweep
from tests.support.servers import Server, until


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's directory for temporary files, replaced for each test."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    return folder


def start(log_file: Path) -> Server:
    return Server("standalone", "--port", "0", "--namesrv-port", "0", log_file=log_file)


def test_a_later_start_sweeps_what_a_killed_server_left_and_no_store_in_use(folder: Path, tmp_path: Path) -> None:
    log_file = tmp_path / "log"
    with start(log_file) as alive:
        killed = start(log_file)
        left = killed.store_dir
        killed.stop(signal.SIGKILL)
        assert (left / "commitlog").is_dir()
        with start(log_file) as later:
            until(lambda: not left.exists())
            assert sorted(folder.iterdir()) == sorted([alive.store_dir, later.store_dir])
            until(lambda: f"event=temporary-store-swept dir={left}" in log_file.read_text())
    assert list(folder.iterdir()) == []


def test_a_directory_without_a_note_is_nobodys_to_sweep(folder: Path) -> None:
    names = ("empty", "junk", "number", "no-pid")
    for name in names:
        (folder / f"{PREFIX}{name}").mkdir()
    (folder / f"{PREFIX}junk" / OWNER).write_bytes(b"\xff\x00")
    (folder / f"{PREFIX}number" / OWNER).write_text("1")
    (folder / f"{PREFIX}no-pid" / OWNER).write_text("{}")
    (folder / f"{PREFIX}file").touch()
    sweep()
    assert len(list(folder.iterdir())) == len(names) + 1


def test_a_number_that_another_process_has_now_is_no_owner(folder: Path) -> None:
    store = TemporaryStore()
    note = Path(store.path, OWNER)
    owner = json.loads(note.read_text())
    store.remove()
    for change in ({"start_ticks": owner["start_ticks"] - 1}, {"boot_id": "another boot"}):
        left = folder / f"{PREFIX}left"
        left.mkdir()
        (left / OWNER).write_text(json.dumps(owner | change))
        sweep()
        assert not left.exists()


def test_a_store_whose_owner_cannot_be_seen_and_holds_the_lock_is_left(folder: Path) -> None:
    """The owner is a process in another container, whose process id means nothing here."""
    left = folder / f"{PREFIX}other"
    left.mkdir()
    note = left / OWNER
    note.write_text(json.dumps({"pid": 2**22 + 1, "start_ticks": 1, "boot_id": "x"}))
    fd = os.open(note, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    sweep()
    assert left.exists()
    os.close(fd)
    sweep()
    assert not left.exists()
