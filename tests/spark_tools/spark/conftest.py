"""Shared fixtures of this folder. Starting a Spark session costs more than most tests do."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_tools.session import SessionOptions, spark_session
from tests.rmqreplay.replay_lab import Lab
from tests.rmqserver.store import golden


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A process has room for one session, and ``spark`` ends with this folder: tests that start another come first."""
    items.sort(key=lambda item: item.path.stem != "test_cluster_faults")


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session with task retries, which plain ``local[2]`` lacks."""
    from tests.spark_tools.spark.replay_driver import QUICK_JVM  # needs the extra [spark]

    settings = QUICK_JVM | {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("tables"))}
    with spark_session(SessionOptions(master="local[2,4]", settings=settings)) as session:
        log = Path(session.conf.get("spark.rmqadmin.log"))
        assert log.read_text().startswith("Java: ")
        yield session
    assert not log.exists(), "a temporary log is for errors"


@pytest.fixture(scope="package")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store that a real broker wrote. No test here changes it."""
    return str(golden.unpack("clean", tmp_path_factory.mktemp("store")))


@pytest.fixture(scope="package")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A running lab, for tests that break a replay."""
    with Lab(tmp_path_factory.mktemp("lab")) as running:
        yield running
