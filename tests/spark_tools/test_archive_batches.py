"""What a batch of an archive leaves behind if it fails. Without Spark."""

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from rmqreplay.source.archive_manifest import STAGING, Manifest
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
