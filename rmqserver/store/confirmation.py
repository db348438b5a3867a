"""How far the log is confirmed: what readers may see. One place decides it, by the flush mode."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from rmqserver.store.followers import Followers, Round
from rmqserver.store.log.commit_log import CommitLog
from rmqserver.store.results import Arrival

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
    ):
        self.last_record_offset = 0
        """Log offset of the newest confirmed record."""
        self._log = log
        self._shows = tuple(follower.show for follower in followers.all)
        self._request_flush = request_flush
        self._on_visible = on_visible
        self._waiting: deque[Round] = deque()
        if not waits_for_flush:  # spares the hot path a call
            self.written = self.confirm  # type: ignore[method-assign]

    def written(self, round_: Round) -> None:
        """The kernel has a round. The flush requested here will confirm it; in async mode it is confirmed at once."""
        self._waiting.append(round_)
        self._request_flush()

    def flushed(self, flushed_offset: int) -> None:
        """The log is on the device up to ``flushed_offset``."""
        while self._waiting and self._waiting[0].end_offset <= flushed_offset:
            self.confirm(self._waiting.popleft())

    def confirm(self, round_: Round) -> None:
        """Readers see the round from now on."""
        self._log.confirmed_offset = round_.end_offset
        self.last_record_offset = round_.last_record_offset
        for show in self._shows:
            show(round_)
        if self._on_visible is not None:
            self._on_visible(round_.arrivals)
