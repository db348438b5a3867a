"""Offsets that consumers commit to a slave, until its master has them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqproto.bodies.base import DataVersion
from rmqproto.bodies.statistics import ConsumerOffsetsBody
from rmqserver.broker.replicas.slave_offsets import Noted, SlaveOffsets, forget_notes
from rmqserver.broker.tables.offsets import ConsumerOffsets
from rmqserver.store.disk.config_files import ConfigFiles
from rmqserver.store.disk.disk import OsDisk

MASTER = DataVersion(counter=9, state_version=0, timestamp=5)


def far(topic: str, queue_id: int) -> int:
    """A queue's end, further than any offset here."""
    return 100


def table(*queue_offsets: int) -> ConsumerOffsetsBody:
    """The master's offsets of one group, by queue."""
    return ConsumerOffsetsBody(data_version=MASTER, offset_table={"T@G": dict(enumerate(queue_offsets))})


@pytest.fixture
def files(tmp_path: Path) -> Iterator[ConfigFiles]:
    made = ConfigFiles(str(tmp_path), OsDisk(), background=False)
    yield made
    made.close()


@pytest.fixture
def offsets(files: ConfigFiles) -> SlaveOffsets:
    made = SlaveOffsets(files, lambda: 1000)
    made.load()
    made.take_over(table(5, 5, 5))
    return made


def test_what_was_committed_stays_until_the_master_has_it(offsets: SlaveOffsets) -> None:
    offsets.commit("G", "T", 1, 8)
    offsets.commit("G", "T", 2, 3)
    assert list(offsets.ahead_of(table(5, 5, 5), far)) == [Noted("G", "T", 1, 8)]
    offsets.take_over(table(6, 6, 6))
    assert offsets.queues("G", "T") == {0: 6, 1: 8, 2: 6}
    offsets.forget_until(table(6, 8, 6))
    assert list(offsets.ahead_of(table(0, 0, 0), far)) == []
    offsets.take_over(table(6, 2, 6))
    assert offsets.queues("G", "T") == {0: 6, 1: 2, 2: 6}, "an operator has set it back at the master"


def test_an_apache_master_finds_the_table_newer_than_its_own(offsets: SlaveOffsets) -> None:
    assert offsets.data_version == MASTER
    offsets.commit("G", "T", 1, 8)
    assert (offsets.data_version.state_version, offsets.data_version.counter) == (1, 10)
    offsets.commit("G", "T", 1, 9)
    assert offsets.data_version.counter == 10


def test_it_survives_a_new_start_but_not_a_time_as_the_master(files: ConfigFiles, offsets: SlaveOffsets) -> None:
    offsets.commit("G", "T", 7, 8)
    offsets.save()
    files.wait_until_saved()
    again = SlaveOffsets(files, lambda: 1000)
    again.load()
    assert list(again.ahead_of(table(), far)) == [Noted("G", "T", 7, 8)]
    forget_notes(files)
    files.wait_until_saved()
    again.load()
    assert list(again.ahead_of(table(), far)) == []


def test_a_master_takes_what_is_further_and_nothing_else(files: ConfigFiles) -> None:
    master = ConsumerOffsets(files, lambda: 1000)
    for queue_id, queue_offset in enumerate((5, 5)):
        master.commit("G", "T", queue_id, queue_offset)
    version = master.data_version
    assert master.catch_up(table(7, 3, 0), far) == 2
    assert master.queues("G", "T") == {0: 7, 1: 5, 2: 0}
    assert master.catch_up(table(7, 3, 0), far) == 0
    assert master.data_version == version


def test_nothing_is_taken_that_lies_beyond_the_log(files: ConfigFiles, offsets: SlaveOffsets) -> None:
    """A master that lost its power may lack messages that a consumer has read. Other messages will get their
    offsets."""
    offsets.commit("G", "T", 0, 9)
    offsets.commit("G", "T", 1, 9)
    assert list(offsets.ahead_of(table(5, 8, 5), lambda topic, queue_id: 7)) == [Noted("G", "T", 0, 7)]
    offsets.forget_until(table(7, 8, 5))
    assert list(offsets.ahead_of(table(5, 5, 5), far)) == []
    master = ConsumerOffsets(files, lambda: 1000)
    master.commit("G", "T", 0, 4)
    assert master.catch_up(table(9, 9), lambda topic, queue_id: (6, 0)[queue_id]) == 2
    assert master.queues("G", "T") == {0: 6, 1: 0}
