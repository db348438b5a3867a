"""What a broker does by itself: next to nothing while it is idle, and nothing that stops its clients."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rmqserver.broker.broker import Broker
from rmqserver.command_line import store_paths
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.remoting.loop import Loop

HOUR_MS = 3_600_000
HOST = bytes([127, 0, 0, 1]) + (10911).to_bytes(4, "big")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    config = BrokerConfig()
    config.record({**store_paths(str(tmp_path)), "flushDiskType": "ASYNC_FLUSH", "mappedFileSizeCommitLog": "8192"})
    loop = Loop()
    made = Broker(config, loop)
    made.open(HOST)
    yield made
    made.close()
    loop.close()


def test_work_behind_is_looked_for_only_after_messages(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker used to look for it 50 times a second: 1.2 % of a core while nobody used it."""
    looked = 0
    dispatch_some = broker.store.dispatch_some

    def counted() -> bool:
        nonlocal looked
        looked += 1
        return dispatch_some()

    monkeypatch.setattr(broker.store, "dispatch_some", counted)

    async def main() -> None:
        nonlocal looked
        async with trio.open_nursery() as nursery:
            nursery.start_soon(broker.run)
            await trio.sleep(60)
            assert looked <= 1
            for _ in range(2):
                looked = 0
                broker.store.append("T", 0, 0, 0, 0, HOST, HOST, 0, b"body", b"KEYS\x01k\x02")
                broker.store.commit()
                assert broker.store.dispatch_behind_bytes > 0
                await trio.sleep(1)
                assert broker.store.dispatch_behind_bytes == 0
                await trio.sleep(60)
                assert 1 <= looked <= 3
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_the_directories_of_queues_are_listed_off_the_loop(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after a tool has had files removed: 80,000 cold directories took the loop seconds."""
    append_a_file_more(broker)
    looked_by = list[threading.Thread]()
    look, clean_some, is_clean = broker.store.look_for_old_files, broker.store.clean_some, trio.Event()

    def looked() -> None:
        looked_by.append(threading.current_thread())
        look()

    def cleaned_some() -> bool:
        goes_on = clean_some()
        if not goes_on:
            is_clean.set()
        return goes_on

    monkeypatch.setattr(broker.store, "look_for_old_files", looked)
    monkeypatch.setattr(broker.store, "clean_some", cleaned_some)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(broker.run)
            broker.store.clean_expired(broker.clock_ms() + 1000 * HOUR_MS, force=True)
            assert broker.store.has_old_files
            await is_clean.wait()
            assert not broker.store.has_old_files
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert looked_by
    assert threading.main_thread() not in looked_by


def append_a_file_more(broker: Broker) -> None:
    for _ in range(12):
        broker.store.append("T", 0, 0, 0, 0, HOST, HOST, 0, bytes(1000), b"")
        broker.store.commit()
    broker.store.flush()
    assert len(broker.store.log.segments.bases) > 1
