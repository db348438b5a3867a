"""What a batch of an archive leaves behind if it fails, and a file that was damaged later. Without Spark."""

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.parquet as pq

from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import StorageError
from rmqreplay.source.archive_manifest import (
    DIRECTORY,
    STAGING,
    ArchivedBatch,
    ArchivedFile,
    ArchivedRange,
    Manifest,
    commit_batch,
)
from rmqreplay.source.archive_view import ArchiveView
from rmqreplay.source.offset_ranges import OffsetRange, queue_text
from spark_tools.archive import batches
from spark_tools.replay.spark_engine import SparkJobError
from spark_tools.source_options import ReadOptions


def test_a_batch_for_which_the_disk_has_no_room_does_not_fill_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin(_: Any) -> None:
        (tmp_path / STAGING / "topic=T").mkdir(parents=True)
        (tmp_path / STAGING / "topic=T" / "half.parquet").write_bytes(b"PAR1")
        raise SparkJobError("No space left on device")

    monkeypatch.setattr(batches, "_by_topic_and_date", MagicMock())
    monkeypatch.setattr(batches, "run_spark", begin)
    with pytest.raises(SparkJobError, match="No space left"):
        batches.archive_batch(MagicMock(), Manifest(str(tmp_path)), ReadOptions(), [])
    assert list(tmp_path.iterdir()) == []


def test_a_task_or_a_whole_spark_that_was_given_up_adds_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may go on: a frozen executor, or the JVM of a driver that was killed."""
    frame, places = MagicMock(), list[Path]()

    def write(place: str, **_: Any) -> None:
        places.append(Path(place))
        for directory in ("topic=T/date=2026-11-30", "_temporary/0/_temporary/attempt_1/topic=T/date=2026-11-30"):
            (places[-1] / directory).mkdir(parents=True)
            (places[-1] / directory / "part.parquet").write_bytes(b"PAR1")

    frame.return_value.write.mode.return_value.partitionBy.return_value.parquet = write
    monkeypatch.setattr(batches, "_by_topic_and_date", frame)
    monkeypatch.setattr(batches, "_counted", lambda *_: [])
    manifest = Manifest(str(tmp_path))
    (tmp_path / DIRECTORY).mkdir()
    for number in range(2):
        (file,) = batches.archive_batch(MagicMock(), manifest, ReadOptions(), []).files
        assert file.path == f"topic=T/date=2026-11-30/000000000{number}-0.parquet"
    assert places[0] != places[1]


@pytest.mark.parametrize("at", [-4, -8], ids=["mark", "length of the footer"])
def test_a_file_with_a_damaged_end_is_an_error_that_names_it(tmp_path: Path, at: int) -> None:
    """Of damaged pages, pyarrow makes an OSError; of this, an ArrowInvalid."""
    queue, path = MessageQueue("T", "broker-a", 0), tmp_path / "T.parquet"
    pq.write_table(pa.table({"brokerName": ["broker-a"], "queueId": [0], "queueOffset": [0]}), path)
    data = bytearray(path.read_bytes())
    file = ArchivedFile(path=path.name, topic="T", size_bytes=len(data))
    archived = ArchivedRange(queue=queue_text(queue), start=0, end=1, messages=1)
    (tmp_path / DIRECTORY).mkdir()
    commit_batch(Manifest(str(tmp_path)), ArchivedBatch(number=0, archived_ms=1, ranges=[archived], files=[file]))
    with ArchiveView(str(tmp_path)) as view:
        wanted = OffsetRange(queue, 0, 1)
        assert view.rows(wanted, ["queueOffset"]) == [{"queueOffset": 0}]
        data[at] ^= 0xFF
        path.write_bytes(data)
        with pytest.raises(StorageError, match=f"read {path}"):
            view.rows(wanted, ["queueOffset"])
