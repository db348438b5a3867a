"""The file of a recording: it reads back as written, and a torn or damaged file is reported."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqadmin.tui.recording import recording_file
from rmqadmin.tui.recording.recording_file import (
    MAGIC,
    Event,
    Head,
    PartTaken,
    RecordedAnswer,
    RecordingReader,
    RecordingWriter,
    packed,
    question_of,
)
from rmqproto.errors import UsageError

HEAD = Head("192.0.2.1:9876", 1000)
MS = st.integers(0, 2**53)
ANSWERS = st.builds(
    RecordedAnswer, MS, st.binary(max_size=9), st.none() | st.integers(0, 400), st.none() | st.text(max_size=9),
    st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3), st.binary(max_size=30),
    st.none() | st.integers(1, 400),
)  # fmt: skip
STEPS = st.lists(st.lists(ANSWERS | st.builds(PartTaken, MS, st.text(max_size=5)), max_size=5), min_size=1, max_size=5)


def written(path: Path, steps: list[list[Event]]) -> bytes:
    data = MAGIC + packed(HEAD) + b"".join(map(packed, steps))
    path.write_bytes(data)
    return data


@given(STEPS)
def test_what_is_packed_is_read(tmp_path_factory: pytest.TempPathFactory, steps: list[list[Event]]) -> None:
    path = tmp_path_factory.mktemp("recording") / "file"
    written(path, steps)
    reader = RecordingReader(path)
    assert (reader.head, steps_of(reader), reader.torn) == (HEAD, steps, None)
    reader.close()


def steps_of(reader: RecordingReader) -> list[list[Event]]:
    return [reader.events(step) for step in range(reader.step_count)]


def events(count: int) -> list[Event]:
    return [RecordedAnswer(at, b"%d" % at, 0, body=os.urandom(40)) for at in range(count)]


def test_every_torn_end_leaves_the_steps_before_it(tmp_path: Path) -> None:
    steps = [events(2), [PartTaken(5, "brokers")]]
    path = tmp_path / "file"
    data = written(path, steps)
    begins = [len(MAGIC + packed(HEAD)), len(MAGIC + packed(HEAD) + packed(steps[0])), len(data)]
    for size in range(begins[1], len(data)):
        path.write_bytes(data[:size])
        reader = RecordingReader(path)
        whole_count = sum(end <= size for end in begins[1:])
        assert steps_of(reader) == steps[:whole_count]
        assert (reader.torn is None) == (size in begins)
        reader.close()
    for size in range(begins[0]):
        path.write_bytes(data[:size])
        with pytest.raises(UsageError):
            RecordingReader(path)
    for size in range(begins[0], begins[1]):  # the dashboard would have no step to show
        path.write_bytes(data[:size])
        with pytest.raises(UsageError, match="it ended before its first step"):
            RecordingReader(path)


def read_first(path: Path) -> list[Event]:
    reader = RecordingReader(path)
    try:
        return reader.events(0)
    finally:
        reader.close()


def test_a_flipped_bit_is_found(tmp_path: Path) -> None:
    path = tmp_path / "file"
    data = written(path, [events(1)])
    begin = len(MAGIC + packed(HEAD))
    for at in range(begin, len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(UsageError, match=r"step 1 is damaged|it ended before its first step"):
            read_first(path)


def test_an_answer_that_is_as_it_was_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "file"
    writer = RecordingWriter(path, HEAD)
    question = question_of("a:1", 28, {"b": "1", "a": "2"}, b"")
    assert question == question_of("a:1", 28, {"a": "2", "b": "1"}, b"")
    for at_ms, body in ((1, b"x"), (2, b"x"), (3, b"y")):
        writer.answered(RecordedAnswer(at_ms, question, 0, body=body))
        writer.end_step(at_ms)
    writer.close()
    reader = RecordingReader(path)
    assert [[type(one).__name__ for one in step] for step in steps_of(reader)] == [
        ["RecordedAnswer", "PartTaken"],
        ["PartTaken"],
        ["RecordedAnswer", "PartTaken"],
    ]
    reader.close()
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(UsageError, match="File exists"):
        RecordingWriter(path, HEAD)


def test_what_is_no_recording(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello\n")
    with pytest.raises(UsageError, match="is not a recording"):
        RecordingReader(tmp_path / "text")
    with pytest.raises(UsageError, match="No such file"):
        RecordingReader(tmp_path / "none")
    with pytest.raises(UsageError, match="No such file"):
        RecordingWriter(tmp_path / "none" / "file", HEAD)


def test_a_full_disk_ends_the_recording_and_is_said(tmp_path: Path) -> None:
    writer = RecordingWriter(tmp_path / "file", HEAD)
    writer._file.close()
    writer._file = open("/dev/full", "wb", buffering=0)  # noqa: SIM115
    writer.end_step(1)
    assert writer.error is not None
    assert "No space left on device; nothing is recorded any more" in writer.error
    writer.end_step(2)
    writer.close()


def test_a_writer_makes_no_block_that_a_reader_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of any size was written, and the reader refused it."""
    monkeypatch.setattr(recording_file, "WRITTEN_MAX_BYTES", 2000)
    monkeypatch.setattr(recording_file, "UNPACKED_MAX_BYTES", 4000)
    writer = RecordingWriter(tmp_path / "file", HEAD)
    answers = [RecordedAnswer(at_ms, b"question %d" % at_ms, 0, None, {}, os.urandom(1000)) for at_ms in range(20)]
    for answer in answers:
        writer.answered(answer)
    writer.end_step(21)
    writer.close()
    reader = RecordingReader(tmp_path / "file")
    assert reader.torn is None
    assert reader.step_count > 5
    assert [event for step in steps_of(reader) for event in step] == [*answers, PartTaken(21, "brokers")]
    reader.close()
