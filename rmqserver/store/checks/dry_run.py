"""Finds out what a start would do to a store: runs the server's own recovery on a disk that keeps every change to
itself. Writes nothing, takes no lock."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from rmqproto.errors import StorageError
from rmqserver.store.disk.disk import Disk, storage_error
from rmqserver.store.disk.overlay import OverlayDisk
from rmqserver.store.disk.segments import FileCache
from rmqserver.store.found.inventory import listening
from rmqserver.store.message_store import MessageStore, now_ms
from rmqserver.store.options import StoreOptions, TimerOptions, TimerPaths
from rmqserver.store.recovery.recovery import Recovered
from rmqserver.store.timers.timer_check import log_state
from rmqserver.store.timers.timer_store import TimerStore

BREAKS = "the start breaks with"
"""Begins the refusal if it is a defect."""


class DryRun:
    """A start of the store at ``root`` as far as it got, including deferred work. Use it with ``with``.

    ``refusal`` is why a broker would not start. ``recovered`` is then None or, if only the timers refuse, what was
    recovered before. ``said`` is what the log would say of damage. ``disk`` is the store as the start would leave it.
    """

    def __init__(
        self,
        root: str,
        options: StoreOptions,
        timer_options: TimerOptions,
        disk: Disk,
        clock_ms: Callable[[], int] = now_ms,
        *,
        on_work: Callable[[], None] = lambda: None,
    ):
        """``on_work`` is called from time to time."""
        self.disk = OverlayDisk(disk)
        self.said: list[str] = []
        self.recovered: Recovered | None = None
        self.refusal: StorageError | None = None
        self.timers: TimerStore | None = None
        """None if the store has no timers, or they refuse."""
        self.store = MessageStore(root, options, self.disk, clock_ms, background=False)
        with listening(self.said):
            try:
                self.recovered = self.store.open()
                while self.store.dispatch_some():
                    on_work()
                self._load_timers(root, timer_options)
                self.store.flush()
            except StorageError as error:
                self.refusal = error
            except OSError as error:
                self.refusal = storage_error(error, "cannot use", error.filename or root)
            except Exception as error:  # a check of a damaged store must give an answer
                self.refusal = StorageError(f"{BREAKS} {error!r}", hint="this is a defect of rmqserver")

    def _load_timers(self, root: str, options: TimerOptions) -> None:
        assert self.recovered is not None
        paths = TimerPaths.below(root)
        timers = TimerStore(paths, options, self.disk, FileCache(self.disk, self.store.options.open_files_max))
        timers.load(log_state(self.store), clean=self.recovered.was_clean)
        self.timers = timers

    def __enter__(self) -> DryRun:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.recovered is not None:  # a store that failed to open has let go of everything
            self.store.abandon()
        self.disk.close()
