"""What a broker does at its start after a crash, also when a start in between has failed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rmqproto.errors import StorageError
from rmqserver.broker.broker import Broker
from rmqserver.command_line import store_paths
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.remoting.loop import Loop


@contextmanager
def made(directory: Path) -> Iterator[Broker]:
    config = BrokerConfig()
    config.record(store_paths(str(directory)))
    loop = Loop()
    broker = Broker(config, loop)
    yield broker
    broker.close()
    loop.close()


def damage(directory: Path) -> None:
    for path in groups(directory):
        path.write_text("{")


def mend(directory: Path) -> None:
    for path in groups(directory):
        path.unlink()


def groups(directory: Path) -> list[Path]:
    return [*directory.glob("config/subscriptionGroup.json*")]


def test_a_start_that_fails_does_not_make_the_crash_before_it_forgotten(tmp_path: Path) -> None:
    with made(tmp_path) as broker:
        broker.open()
        broker.offsets.commit("G", "T", 0, 5)  # beyond the queue's end, as if a power cut took the messages
    (tmp_path / "abort").write_text("1\n")
    damage(tmp_path)
    with made(tmp_path) as broker, pytest.raises(StorageError, match="subscriptionGroup"):
        broker.open()
    mend(tmp_path)
    with made(tmp_path) as broker:
        assert not broker.open().was_clean
        assert broker.offsets.committed("G", "T", 0) == 0


def test_a_start_that_fails_after_a_clean_stop_leaves_no_crash(tmp_path: Path) -> None:
    with made(tmp_path) as broker:
        broker.open()
    damage(tmp_path)
    with made(tmp_path) as broker, pytest.raises(StorageError, match="subscriptionGroup"):
        broker.open()
    mend(tmp_path)
    with made(tmp_path) as broker:
        assert broker.open().was_clean
