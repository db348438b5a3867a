"""What a broker does at its start after a crash, also when a start in between has failed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rmqproto.errors import StorageError
from rmqserver.broker.broker import Broker
from rmqserver.command_line import store_paths
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.remoting.loop import Loop
from tests.rmqserver.store.conftest import put_many


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


def test_groups_are_set_back_if_the_end_of_the_log_is_gone_after_a_clean_stop(tmp_path: Path) -> None:
    """They used to stay ahead: they would never have seen the next messages, which got the same queue offsets."""
    with made(tmp_path) as broker:
        broker.open()
        appended = put_many(broker.store, 10)
        broker.offsets.commit("G", "T", 0, 10)
    with (tmp_path / "commitlog/00000000000000000000").open("r+b") as log:
        log.seek(appended[4].log_offset)
        log.write(bytes(10_000))
    with made(tmp_path) as broker:
        assert broker.open().was_clean
        assert broker.store.max_offset("T", 0) == 4
        assert broker.offsets.committed("G", "T", 0) == 4
