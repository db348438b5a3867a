"""Requests that wait for messages, in one table and without a task for each (``PullRequestHoldService``,
``PopLongPollingService``, 5.5.0). A held request goes on once: when a message that it may want becomes visible, when
its key is woken, or when its time is up. It also goes on when the slow scan finds that its queue has got messages that
it did not want, so that its offset moves on.

The holder decides what a request is and how it goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec
import trio

from rmqproto.errors import StorageError
from rmqproto.filters.message_filter import EVERYTHING, MessageFilter
from rmqserver.operation import Peer
from rmqserver.store.queues.round import Arrival
from rmqserver.store.queues.walks import is_wanted_untrusted

if TYPE_CHECKING:
    from rmqserver.store.message_store import MessageStore

log = logging.getLogger(__name__)

HELD_MAX = 100_000
"""The most that all held requests may weigh together: 10,000 connections with ten queues each."""

EXPRESSION_SHARE_CHARS = 256
"""A held request weighs one more for every so many characters of its expression: one of 16 MiB would fit a frame."""

LOOKED_AT_MAX = 64
"""Up to so many messages of one arrival are read for held requests; if more arrive, the requests go on and look."""

DEADLINE_SWEEP_S = 1.0
SCAN_EVERY_SWEEPS = 5
"""Apache scans every 5 s for both purposes; a request whose time is up should not wait that long."""

SWEPT_AT_A_TIME = 256
"""Held requests that a sweep looks at in one turn."""

WakeKey = Hashable
"""(topic, queue id) for the arrival of messages; anything else, such as a group, for callers of ``wake``."""


class Held(msgspec.Struct, eq=False):
    """A held request. ``deadline_ms`` is by the table's clock. ``go_on`` is called at most once, in the middle of the
    store's work: it must not block. The slow scan asks ``is_passed``; None: the scan does not concern the request."""

    waiter: Peer
    keys: tuple[WakeKey, ...]
    deadline_ms: int
    go_on: Callable[[], None]
    wanted: MessageFilter = EVERYTHING
    is_passed: Callable[[], bool] | None = None
    weight: int = 1
    """Its share of HELD_MAX."""
    line: Hashable = None
    """The requests of one line wait by ``line_keys``. When messages arrive, only as many go on as take all of them: the
    oldest requests first, or the newest with ``is_last_first``. One that goes on and leaves some lets the next go on
    (``wake_next``)."""
    line_keys: tuple[WakeKey, ...] = ()
    takes_count: int = 1
    """The most messages that it takes."""
    is_last_first: bool = False
    is_held: bool = False


class Holds:
    def __init__(self, store: MessageStore, clock_ms: Callable[[], int]):
        """Nobody sets ``clock_ms``: a request whose time lies hours ahead would keep its place as long."""
        self._store = store
        self.clock_ms = clock_ms
        self._all: dict[Held, None] = {}
        self._by_key: dict[WakeKey, dict[Held, None]] = {}
        self._lines: dict[WakeKey, dict[Hashable, dict[Held, None]]] = {}
        self._weight = 0

    def __len__(self) -> int:
        return len(self._all)

    def held_for(self, key: WakeKey) -> int:
        """How many requests wait for a key."""
        return len(self._by_key.get(key, ()))

    def lines_of(self, key: WakeKey) -> set[Hashable]:
        """The lines of the requests that wait for a key. Looks at each request."""
        return {held.line for held in self._by_key.get(key, ())}

    def hold(self, held: Held) -> bool:
        """Holds a request. Returns False if there are too many already."""
        if self._weight + held.weight > HELD_MAX:
            return False
        self._weight += held.weight
        held.is_held = True
        self._all[held] = None
        for key in held.keys:
            waiting = self._by_key.get(key)
            if waiting is None:
                self._by_key[key] = {held: None}
            else:
                waiting[held] = None
        for key in held.line_keys:
            self._lines.setdefault(key, {}).setdefault(held.line, {})[held] = None
        return True

    def arrived(self, arrivals: list[Arrival]) -> None:
        """Called by the store when messages have become visible."""
        if not self._all:
            return
        went_on: dict[Peer, None] = {}
        for arrival in arrivals:
            key = (arrival.queue.topic, arrival.queue.queue_id)
            waiting, lines = self._by_key.get(key), self._lines.get(key)
            if waiting is None and lines is None:
                continue
            look = _Look(self._store, arrival)
            for held in list(waiting or ()):
                # A filter that accepts everything, as nearly all do, need not look.
                if held.wanted is EVERYTHING or look.is_wanted_by(held.wanted):
                    self._go_on(held)
                    went_on[held.waiter] = None
            for line in list((lines or {}).values()):
                for held in _enough(line, arrival.message_count, look):
                    self._go_on(held)
        for waiter in went_on:  # clients need not wait for the rest of the round
            waiter.flush()

    def wake(self, key: WakeKey) -> None:
        """Lets all requests that wait for the key go on, whatever they want."""
        for held in list(self._by_key.get(key, ())):
            self._go_on(held)

    def wake_next(self, key: WakeKey) -> None:
        """Lets the next request that waits for the key go on, in the order of its line."""
        waiting = self._by_key.get(key)
        if waiting is None:
            return
        held = next((held for held in _in_turn(waiting) if not held.waiter.closed), None)
        if held is not None:
            self._go_on(held)

    def sweep(self, *, scan: bool) -> Iterator[None]:
        """Lets requests go on whose time is up, and with ``scan`` also those whose queue has moved past them. Forgets
        requests whose client is gone. In portions: a turn may end at each of its steps."""
        now_ms = self.clock_ms()
        for count, held in enumerate(list(self._all), 1):
            is_due = held.deadline_ms <= now_ms or held.waiter.closed
            if is_due or (scan and held.is_held and _is_passed(held)):
                self._go_on(held)
            if not count % SWEPT_AT_A_TIME:
                yield

    def _go_on(self, held: Held) -> None:
        if not held.is_held:  # a request that went on earlier has woken it, too
            return
        held.is_held = False
        self._weight -= held.weight
        del self._all[held]
        for key in held.keys:
            waiting = self._by_key[key]
            if len(waiting) == 1:
                del self._by_key[key]
            else:
                del waiting[held]
        for key in held.line_keys:
            lines = self._lines[key]
            del lines[held.line][held]
            if not lines[held.line]:
                del lines[held.line]
                if not lines:
                    del self._lines[key]
        if held.waiter.closed:
            return
        try:
            held.go_on()
        except Exception:  # one failing request must not break the round that made its message visible
            log.exception("event=held-request-failed keys=%r", held.keys)

    def give_up(self) -> None:
        """Ends all waiting because the store closes, while clients stay. Requests that only read go on now. Clients of
        other requests are disconnected, because going on may write."""
        for held in list(self._all):
            if held.line is None:
                self._go_on(held)
            else:
                held.waiter.close("what it waits for is not served any more")

    async def run(self) -> None:
        """Sweeps until cancelled."""
        sweeps = 0
        while True:
            await trio.sleep(DEADLINE_SWEEP_S)
            sweeps += 1
            for _ in self.sweep(scan=sweeps % SCAN_EVERY_SWEEPS == 0):
                await trio.lowlevel.checkpoint()


def _is_passed(held: Held) -> bool:
    """Also if its queue cannot be read: going on tells its client why."""
    try:
        return held.is_passed is not None and held.is_passed()
    except (StorageError, OSError):
        return True


def _in_turn(line: dict[Held, None]) -> Iterable[Held]:
    """The requests of a line, in the order in which they go on."""
    return reversed(line) if line and next(iter(line)).is_last_first else line


def _enough(line: dict[Held, None], message_count: int, look: _Look) -> list[Held]:
    """The first requests of a line that want the messages and together take so many."""
    found: list[Held] = []
    for held in _in_turn(line):
        if message_count <= 0:
            break
        if not held.waiter.closed and (held.wanted is EVERYTHING or look.is_wanted_by(held.wanted)):
            found.append(held)
            message_count -= held.takes_count
    return found


class _Look:
    """An arrival as filters see it, read once for all of them, and only if one asks."""

    def __init__(self, store: MessageStore, arrival: Arrival):
        self._store = store
        self._arrival = arrival

    def is_wanted_by(self, wanted: MessageFilter) -> bool:
        """Whether one of the messages passes both stages."""
        accepts_code, accepts_properties = wanted.accepts_code, wanted.accepts_properties
        if accepts_properties is None:
            return accepts_code is None or any(map(accepts_code, self._codes))
        if self._arrival.message_count > LOOKED_AT_MAX:
            return True
        return any(
            is_wanted_untrusted(record, accepts_properties)
            for code, record in zip(self._codes, self._records, strict=True)
            if accepts_code is None or accepts_code(code)
        )

    @cached_property
    def _codes(self) -> list[int]:
        return self._arrival.queue.tag_codes(self._arrival.first_queue_offset, self._arrival.message_count)

    @cached_property
    def _records(self) -> list[bytes]:
        """The records of the arrival. One that cannot be read is empty, so that nobody wants it."""
        first, arrival = self._arrival.first_queue_offset, self._arrival
        units = map(arrival.queue.unit, range(first, first + arrival.message_count))
        return [(self._store.get_record(unit[0]) if unit is not None else None) or b"" for unit in units]
