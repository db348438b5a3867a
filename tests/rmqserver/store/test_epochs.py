"""The epochs of a log: two logs part where their masters parted, whatever was written and cut before."""

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rmqproto.errors import ProtocolError, StorageError
from rmqserver.store.disk.disk import OsDisk
from rmqserver.store.epochs import Epoch, EpochFile, EpochList

GOLDEN = Path(__file__).parents[2] / "golden/ha/epoch"

steps = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 1 << 40)), max_size=20)


def made(steps: list[tuple[int, int]]) -> EpochList:
    epochs, epoch, offset = EpochList(), 0, 0
    for more, size in steps:
        epoch += more
        epochs.begin(epoch, offset)
        offset += size
    return epochs


@given(steps)
def test_the_file_says_the_same_again(steps: list[tuple[int, int]]) -> None:
    epochs = made(steps)
    assert EpochList.of_text_untrusted(epochs.to_text()).entries == epochs.entries


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("epochFileCheckpoint-*")), ids=lambda path: path.name)
def test_it_is_apaches_file(path: Path) -> None:
    assert EpochList.of_text_untrusted(path.read_text()).to_text() == path.read_text()


@given(st.text(max_size=60) | st.text("0123456789-\n", max_size=60))
@example(f"0\n{'9' * 5000}\n")  # more digits than Python's int() accepts
def test_any_other_text_is_refused(text: str) -> None:
    try:
        epochs = EpochList.of_text_untrusted(text)
    except ProtocolError:
        return
    assert EpochList.of_text_untrusted(epochs.to_text()).entries == epochs.entries


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.booleans()), max_size=30), st.data())
def test_two_logs_part_where_their_bytes_do(turns: list[tuple[int, int, bool]], data: st.DataObject) -> None:
    """Three brokers take turns as masters. What each writes is copied to some others, wholly or in part, after these
    have cut what the master lacks. ``parting`` is always where the bytes of two logs differ, or before."""
    logs: list[list[tuple[int, int]]] = [[], [], []]
    lists = [EpochList(), EpochList(), EpochList()]
    for epoch, (master, size, has_slave) in enumerate(turns, 1):
        lists[master].begin(epoch, len(logs[master]))
        logs[master] += [(epoch, at) for at in range(size)]
        slave = (master + 1 + data.draw(st.integers(0, 1))) % 3
        if has_slave:
            end = len(logs[slave])
            point = lists[slave].parting(end, lists[master], len(logs[master]))
            if point is None and lists[slave].entries:
                continue
            if point is not None and point < end:
                del logs[slave][point:]
                lists[slave].cut_behind(point)
            assert logs[slave] == logs[master][: len(logs[slave])], "what stays is the master's"
            stop = data.draw(st.integers(len(logs[slave]), len(logs[master])))
            for at in range(len(logs[slave]), stop):
                entry = lists[master].at(at)
                assert entry is not None
                if entry.epoch > lists[slave].last_epoch:
                    lists[slave].begin(*entry)
                logs[slave].append(logs[master][at])
    for one in range(3):
        for other in range(3):
            point = lists[one].parting(len(logs[one]), lists[other], len(logs[other]))
            if point is not None:
                assert logs[one][:point] == logs[other][:point]


def test_an_epoch_without_a_byte_gives_way_to_the_next() -> None:
    epochs = made([(1, 100)])
    epochs.begin(4, 100)
    epochs.begin(7, 100)
    assert epochs.entries == [Epoch(1, 0), Epoch(7, 100)]
    for epoch, start in ((7, 200), (6, 200), (8, 99)):
        with pytest.raises(ProtocolError, match="cannot follow"):
            epochs.begin(epoch, start)
    assert epochs.last_epoch == 7


def test_lists_that_share_no_epoch_do_not_part_anywhere() -> None:
    assert made([(1, 5)]).parting(5, made([(2, 5)]), 5) is None
    assert EpochList().parting(5, made([(2, 5)]), 5) is None


def test_a_master_of_which_nothing_was_stored_follows_the_next_one() -> None:
    """A new set has no message yet, and the next master's epoch has replaced that of this master."""
    mine, theirs = EpochList([Epoch(1, 0)]), EpochList([Epoch(2, 0)])
    assert mine.parting(0, theirs, 0) == 0
    assert mine.parting(0, theirs, 500) == 0
    assert mine.parting(1, theirs, 500) is None


def test_expired_and_cut_epochs_are_forgotten() -> None:
    epochs = made([(1, 10), (1, 10), (1, 10)])
    assert not epochs.cut_before(9)
    assert epochs.cut_before(10)
    assert epochs.entries == [Epoch(2, 10), Epoch(3, 20)]
    assert epochs.at(9) is None
    assert not epochs.cut_behind(21)
    assert epochs.cut_behind(20)
    assert epochs.entries == [Epoch(2, 10)]
    assert epochs.cut_behind(0)
    assert epochs.last_epoch == -1


def test_a_damaged_file_gives_way_to_its_copy_and_two_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "epochFileCheckpoint"
    file = EpochFile(str(path), OsDisk())
    for epoch, start in ((1, 0), (5, 108808)):
        file.epochs.begin(epoch, start)
        file.save()
    assert path.read_text() == "2\n387562438\n1-0\n5-108808\n"
    path.write_text("2\n387562438\n1-0\n6-108808\n")
    found = EpochFile(str(path), OsDisk())
    found.load()
    assert found.epochs.entries == [Epoch(1, 0), Epoch(5, 108808)]
    (tmp_path / "epochFileCheckpoint.bak").write_text("x")
    with pytest.raises(StorageError, match="epochFileCheckpoint is damaged"):
        EpochFile(str(path), OsDisk()).load()
    assert file.epochs.cut_behind(0)
    file.save()
    assert list(tmp_path.iterdir()) == []
