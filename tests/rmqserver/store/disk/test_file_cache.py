"""The cache of open files, used from several threads."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event

from rmqserver.store.disk.disk import File
from rmqserver.store.disk.segments import FileCache
from tests.crash.recording_disk import RecordingDisk


class SlowDisk(RecordingDisk):
    """Opening ``slow`` waits."""

    def __init__(self) -> None:
        super().__init__()
        self.is_opening, self.may_go_on = Event(), Event()
        for name in ("slow", "other"):
            super().open(name, create_size_bytes=1)

    def open(self, path: str, *, create_size_bytes: int | None = None, read_only: bool = False) -> File:  # type: ignore[override]
        file = super().open(path, create_size_bytes=create_size_bytes, read_only=read_only)
        if path == "slow" and not self.may_go_on.is_set():
            self.is_opening.set()
            assert self.may_go_on.wait(10)
        return file


def while_slow_is_opened(act: Callable[[SlowDisk, FileCache], None]) -> tuple[FileCache, File]:
    """What the thread that waits for ``slow`` gets if another one ``act``s meanwhile."""
    disk = SlowDisk()
    cache = FileCache(disk, 4)
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(cache.open, "slow")
        try:
            assert disk.is_opening.wait(10)
            act(disk, cache)
        finally:
            disk.may_go_on.set()
        return cache, found.result(10)


def test_a_slow_open_stops_no_other_thread() -> None:
    def opens_another(disk: SlowDisk, cache: FileCache) -> None:
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(cache.open, "other").result(5) is cache.open("other")

    cache, file = while_slow_is_opened(opens_another)
    assert cache.open("slow") is file


def test_a_file_that_was_dropped_while_it_was_opened_is_not_kept() -> None:
    """It may have been removed, and its name may belong to a new file."""

    def replaces(disk: SlowDisk, cache: FileCache) -> None:
        cache.drop("slow")

    cache, file = while_slow_is_opened(replaces)
    assert cache.open("slow") is not file


def test_two_threads_that_open_a_file_get_the_same() -> None:
    def opens(disk: SlowDisk, cache: FileCache) -> None:
        disk.may_go_on.set()
        assert cache.open("slow") is cache.open("slow")

    cache, file = while_slow_is_opened(opens)
    assert cache.open("slow") is file
