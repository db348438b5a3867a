"""Decides how far the log is confirmed, that is, what readers may see: by the flush mode, and by the copies that other
brokers must have."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from rmqserver.store.followers import Followers
from rmqserver.store.log.commit_log import CommitLog
from rmqserver.store.queues.round import Arrival, Round

OFFSET_MAX = (1 << 63) - 1

OnVisible = Callable[[list[Arrival]], None]


class Confirmation:
    """Calls ``on_visible`` with what readers see now, after every follower has taken it in."""

    def __init__(
        self,
        log: CommitLog,
        followers: Followers,
        request_flush: Callable[[], None],
        on_visible: OnVisible | None = None,
        *,
        waits_for_flush: bool,
        waits_for_copies: bool = False,
        on_written: Callable[[], None] = lambda: None,
    ):
        """``waits_for_copies``: nothing behind the offset given to ``copied`` is confirmed, and ``on_written`` is
        called whenever the kernel has a round."""
        self.last_record_offset = 0
        """Log offset of the newest confirmed record."""
        self._log = log
        self._shows = tuple(follower.show for follower in followers.all if follower.show is not None)
        self._request_flush = request_flush
        self._on_visible = on_visible
        self._waiting: deque[Round] = deque()
        self._flushed_offset = 0 if waits_for_flush else OFFSET_MAX
        self._copied_offset = OFFSET_MAX
        self._on_written = on_written
        if waits_for_copies:
            self.written = self._written_here  # type: ignore[method-assign]
        elif not waits_for_flush:  # spares the hot path a call
            self.written = self.confirm  # type: ignore[method-assign]

    def written(self, round_: Round) -> None:
        """The kernel has a round. The flush requested here will confirm it; in async mode it is confirmed at once."""
        self._waiting.append(round_)
        self._request_flush()

    def flushed(self, flushed_offset: int) -> None:
        """The log is on the device up to ``flushed_offset``."""
        if self._waiting:
            self._flushed_offset = max(self._flushed_offset, flushed_offset)
            self._confirm_waiting()

    def copied(self, log_offset: int) -> None:
        """From now on, copies allow the log to be confirmed up to ``log_offset``."""
        self._copied_offset = log_offset
        self._confirm_waiting()

    def _written_here(self, round_: Round) -> None:
        self._waiting.append(round_)
        if self._flushed_offset != OFFSET_MAX:
            self._request_flush()
        self._on_written()
        self._confirm_waiting()

    def _confirm_waiting(self) -> None:
        limit = min(self._flushed_offset, self._copied_offset)
        while self._waiting and self._waiting[0].end_offset <= limit:
            self.confirm(self._waiting.popleft())

    def confirm(self, round_: Round) -> None:
        """Readers see the round from now on."""
        self._log.confirmed_offset = round_.end_offset
        self.last_record_offset = round_.last_record_offset
        for show in self._shows:
            show(round_)
        if self._on_visible is not None:
            self._on_visible(round_.arrivals)
