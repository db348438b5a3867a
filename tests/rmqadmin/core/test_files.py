"""Files of our own; and no file that a person wrote, however odd, ends a command with a defect or keeps it busy.
Times here are relative."""

import errno
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rmqadmin.core.changes import Step, WayBack
from rmqadmin.core.contexts.context import ContextSettings
from rmqadmin.core.contexts.settings_file import parse_settings
from rmqadmin.core.files import parse_toml, write_private, write_undo_file
from rmqadmin.core.manifests.undo import carry_out_undoable, write_undo
from rmqadmin.core.offsets import reset_undo
from rmqadmin.version import write_problem
from rmqproto.errors import StorageError, UsageError


def test_a_full_disk_is_told_with_the_file_and_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "kept"
    write_private(path, "before")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as caught:
        write_private(path, "after")
    assert write_problem(caught.value) == f"{path}: No space left on device"
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_files_of_one_moment_stand_beside_each_other(tmp_path: Path) -> None:
    """Commands that run at once write their undo files in the same millisecond."""
    path = tmp_path / "undo" / "20260131T120000.000Z-apply.yaml"
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda at: write_undo_file(path, str(at)), range(16)))
    assert {one.read_text() for one in found} == {str(at) for at in range(16)}
    assert {*path.parent.iterdir()} == {*found}
    assert {one.suffix for one in found} == {".yaml"}


def test_undo_files_of_one_moment_are_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    one, other = (reset_undo.write("g", "t", ["h:1"], [], 1_700_000_000_000) for _ in range(2))
    assert one != other
    assert reset_undo.read_untrusted(one) == reset_undo.read_untrusted(other)
    step = Step("h:1", "create", [], lambda: None, undo=WayBack("topics", {"T": None}))
    assert write_undo("apply", [step], 1_700_000_000_000) != write_undo("apply", [step], 1_700_000_000_000)


def test_where_no_undo_file_can_be_written_nothing_is_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error only named a directory."""
    (tmp_path / "rmqadmin").write_text("a file")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    changed: list[str] = []
    step = Step("h:1", "create", [], lambda: changed.append("h:1"), undo=WayBack("topics", {"T": None}))
    with pytest.raises(StorageError, match=r"no file to undo it can be written: .*undo: Not a directory") as caught:
        carry_out_undoable("apply", [step], 0, changed.append)
    assert (changed, str(caught.value.hint).startswith("Nothing was changed.")) == ([], True)
    with pytest.raises(StorageError, match="no file to undo it can be written"):
        reset_undo.write("g", "t", ["h:1"], [], 0)


@pytest.mark.parametrize(("text", "said"), [("x = " + "[" * 20_000, "more levels"), (f"x = {'9' * 5_000}", "digits")])
def test_what_the_parser_cannot_take_is_a_usage_error(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_toml(text)


def test_unknown_settings_are_not_looked_up_one_by_one() -> None:
    """A file of 16,000 unknown settings took 20 s: the line of each was searched for from the start of the file."""

    def seconds(text: str) -> float:
        begun = time.process_time()
        with pytest.raises(UsageError, match=r"^/x\.toml:1: there is no setting 'k0'$"):
            parse_settings(text, Path("/x.toml"), ContextSettings)
        return time.process_time() - begun

    few, many = ("\n".join(f"k{number} = 1" for number in range(count)) for count in (500, 4_000))
    assert seconds(many) < 30 * min(seconds(few) for _ in range(3))
