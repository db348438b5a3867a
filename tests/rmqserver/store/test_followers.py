"""The list of followers, tested with one that the store does not know: it copies the log, as a replica would."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rmqserver.store.disk.checkpoint import Checkpoint
from rmqserver.store.log.scan import FoundRecord, scan
from rmqserver.store.message_store import MessageStore
from rmqserver.store.queues.round import Round, Sync

from .conftest import TINY, TINY_SYNC, MakeStore, cleaned, put, put_many


class Copier:
    """``copied`` outlives the store, as files would. A power cut leaves its first ``synced_bytes``."""

    def __init__(self) -> None:
        self.copied = bytearray()
        self.newest_record_offset = -1
        self.synced_bytes = 0
        self.behind_to = 0
        self.wants_sync = False
        self.log_start = 0

    def of(self, store: MessageStore) -> Copier:
        self._store = store
        return self

    def knows_behind(self, log_offset: int) -> bool:
        return len(self.copied) > log_offset

    def replay(self, records: list[FoundRecord]) -> None:
        self.newest_record_offset = max(self.newest_record_offset, records[-1].log_offset)
        self._copy(records[-1].log_offset + records[-1].size_bytes)

    def lacks_from(self) -> None:
        return None

    def cut(self, end_offset: int) -> None:
        del self.copied[end_offset:]
        self.newest_record_offset = min(self.newest_record_offset, end_offset - 1)

    def recovered(self, start_offset: int, end_offset: int, synced_offset: int, *, was_clean: bool) -> None:
        assert len(self.copied) == end_offset
        assert start_offset <= max(self.newest_record_offset, 0)

    def show(self, round_: Round) -> None:
        assert self._store.confirmed_offset == round_.end_offset
        self.newest_record_offset = round_.last_record_offset
        self.behind_to = round_.end_offset

    is_catching_up = False

    @property
    def is_behind(self) -> bool:
        return len(self.copied) < self.behind_to

    def work(self) -> None:
        self._copy(self.behind_to)

    def prepare(self) -> Sync:
        assert not self.is_behind
        size = len(self.copied)

        def sync(checkpoint: Checkpoint, write_checkpoint: Callable[[], None]) -> None:
            self.synced_bytes = size

        return sync

    def delete_below(self, log_offset: int) -> Iterator[None]:
        self.log_start = log_offset
        yield

    def _copy(self, end_offset: int) -> None:
        while len(self.copied) < end_offset:
            at = len(self.copied)
            self.copied += self._store.log.read(at, end_offset - at)


@pytest.fixture
def copier() -> Copier:
    return Copier()


def whole_log(store: MessageStore) -> bytes:
    files = [store.log.read(base, store.log.file_size_bytes) for base in store.log.segments.bases]
    return b"".join(files)[: store.confirmed_offset]


@pytest.mark.parametrize("options", [TINY, TINY_SYNC], ids=["async", "sync"])
def test_a_follower_is_shown_what_is_confirmed_and_synced_with_the_checkpoint(
    make_store: MakeStore, copier: Copier, options: object
) -> None:
    store = make_store(options=options, follow=[copier.of])
    put(store)
    assert not copier.is_behind
    store.commit()
    assert copier.is_behind is (options is TINY)
    put_many(store, 60)
    store.flush()
    assert copier.copied == whole_log(store)
    assert copier.synced_bytes == store.confirmed_offset
    assert store.close()


def test_a_follower_catches_up_with_what_it_lacks_whatever_it_lacks(
    make_store: MakeStore, copier: Copier, tmp_path: Path
) -> None:
    store = make_store(follow=[copier.of])
    put_many(store, 60)
    assert store.close()
    for kept in (0, 1, 30):
        others = sorted(found.log_offset for found in records_of(make_store))
        copier.newest_record_offset = others[kept - 1] if kept else -1
        del copier.copied[others[kept] :]
        again = make_store(follow=[copier.of])
        assert copier.copied == whole_log(again)
        again.close()


def records_of(make_store: MakeStore) -> list[FoundRecord]:
    store = make_store()
    found = list(scan(store.log.segments, 0))
    store.close()
    return found


def test_a_follower_forgets_what_the_log_has_lost(make_store: MakeStore, copier: Copier, tmp_path: Path) -> None:
    store = make_store(tmp_path / "live", follow=[copier.of])
    last = put_many(store, 60)[-1].log_offset
    while store.dispatch_some():
        pass
    shutil.copytree(tmp_path / "live", tmp_path / "store")
    path = tmp_path / f"store/commitlog/{last // 4096 * 4096:020d}"
    with path.open("r+b") as file:
        file.seek(last % 4096 + 90)
        file.write(b"?")
    torn = make_store(follow=[copier.of])
    assert torn.confirmed_offset == last
    assert copier.copied == whole_log(torn)


def test_followers_hear_of_retention_and_of_a_checkpoint_they_want(make_store: MakeStore, copier: Copier) -> None:
    store = make_store(follow=[copier.of])
    put_many(store, 60)
    copier.wants_sync = True
    store.on_flush_done()
    store.flush()
    assert copier.synced_bytes == store.confirmed_offset
    report = cleaned(store, at_ms=1 << 50)
    assert report.deleted_log_files > 0
    assert copier.log_start == store.log.min_offset > 0
