"""Rejected rows on their way from the tasks to a file of the driver, and back to a topic."""

import io
from pathlib import Path

import pytest

from rmqadmin.core.messages.files.formats import read_lines_untrusted
from rmqproto.errors import UsageError
from spark_tools.writing.rejects import KEPT_MAX_BYTES, RejectedError, RejectedRow, Rejects, check_reject_path, settle


def rejects(*bodies: bytes, task: int = 0) -> Rejects:
    found = Rejects()
    for number, body in enumerate(bodies):
        found.add(RejectedRow(task, number, "T", 13, "no", body, {"KEYS": "k1 k2", "user": "ü"}, flag=5))
    return found


def test_msg_import_reads_the_file(tmp_path: Path) -> None:
    path = str(tmp_path / "rejected.jsonl")
    settle([rejects(b"\xff\x00"), Rejects(), rejects(b"two", task=1)], 98, path)
    one, two = read_lines_untrusted(io.BytesIO(Path(path).read_bytes()))
    assert (one.topic, one.body, one.properties, one.flag) == ("T", b"\xff\x00", {"KEYS": "k1 k2", "user": "ü"}, 5)
    assert two.body == b"two"
    assert [each.name for each in tmp_path.iterdir()] == ["rejected.jsonl"]


def test_nothing_rejected_leaves_no_file(tmp_path: Path) -> None:
    settle([Rejects()], 3, str(tmp_path / "rejected"))
    assert list(tmp_path.iterdir()) == []


def test_without_a_file_the_error_says_what_is_stored() -> None:
    with pytest.raises(RejectedError) as caught:
        settle([Rejects(), rejects(b"1", b"2", task=4)], 98, None)
    assert str(caught.value) == "2 of 100 rows rejected, and 98 stored: row 0 of task 4, for T: no (13)"


def test_a_task_hands_back_a_bounded_size_and_the_write_fails_beyond_it(tmp_path: Path) -> None:
    path = tmp_path / "rejected"
    found = rejects(b"x" * (KEPT_MAX_BYTES + 1), b"small", b"y" * KEPT_MAX_BYTES)
    assert found.count == 3
    assert found.size_bytes < 1000
    with pytest.raises(RejectedError, match=r"3 of 3 rows .* row 0 of task 0.*has 1 of them.* at most 20 MiB"):
        settle([found], 0, str(path))
    (kept,) = read_lines_untrusted(io.BytesIO(path.read_bytes()))
    assert kept.body == b"small"


def test_a_full_disk_is_told_with_what_is_stored(tmp_path: Path) -> None:
    (tmp_path / "rejected.part").symlink_to("/dev/full")
    with pytest.raises(RejectedError, match=r"1 of 99 rows .*, and 98 stored: .* is not written: No space left"):
        settle([rejects(b"1")], 98, str(tmp_path / "rejected"))
    assert list(tmp_path.iterdir()) == []


def test_a_sender_that_may_send_nothing_is_told_although_there_is_a_file(tmp_path: Path) -> None:
    """Its keys may be wrong, which is no fault of the rows."""
    path = tmp_path / "rejected"
    found = Rejects()
    found.add(RejectedRow(0, 0, "T", 16, "User:u is not found.", b"1", {}))
    settle([found], 1, str(path))
    path.unlink()
    with pytest.raises(RejectedError, match=r"1 of 1 row rejected, and 0 stored: .* \(16\); .*/rejected has them"):
        settle([found], 0, str(path))
    assert len(path.read_bytes().splitlines()) == 1


def test_a_path_that_will_not_do_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    check_reject_path(None)
    check_reject_path(str(tmp_path / "new"))
    with pytest.raises(UsageError, match="exists"):
        check_reject_path(str(tmp_path))
    with pytest.raises(UsageError, match=r"cannot write to .*/missing"):
        check_reject_path(str(tmp_path / "missing" / "file"))
