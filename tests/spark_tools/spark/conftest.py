"""One Spark session for all tests of this folder: starting one costs more than most of them."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_tools.session import SessionOptions, spark_session
from tests.spark_tools.spark.replay_driver import QUICK_JVM

GOLDEN = Path(__file__).parents[2] / "golden" / "store"


@pytest.fixture(scope="package")
def spark() -> Iterator[Any]:
    """With task retries, which ``local[2]`` has not."""
    with spark_session(SessionOptions(master="local[2,4]", settings=QUICK_JVM)) as session:
        log = Path(session.conf.get("spark.rmqadmin.log"))
        assert log.read_text().startswith("Java: ")
        yield session
    assert not log.exists(), "a temporary log is for errors"


@pytest.fixture(scope="package")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Written by a real broker; nothing here changes it."""
    directory = tmp_path_factory.mktemp("store")
    with tarfile.open(GOLDEN / "clean.tar.xz") as archive:
        archive.extractall(directory, filter="data")
    return str(directory / "store")
