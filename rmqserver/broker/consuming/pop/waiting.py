"""Requests of POP that wait for messages: their places in the table of held requests, and their turn to go on. They are
woken in the middle of the store's work, and a pop writes to the store; so they go on when the round is written."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from rmqproto.filters.message_filter import EVERYTHING, MessageFilter
from rmqproto.pop import pop_retry_topic
from rmqserver.broker.consuming.holds import EXPRESSION_SHARE_CHARS, Held, WakeKey

if TYPE_CHECKING:
    from rmqproto.headers.popping import PopHeader
    from rmqserver.broker.consuming.holds import Holds
    from rmqserver.broker.tables.topics import TopicTable
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.operation import Peer

log = logging.getLogger(__name__)

ALL_QUEUES = -1

GO_ON_IN_A_TURN = 4
"""Requests that look at a further portion in one turn of the loop: others are to be served in between."""

Post = Callable[[Callable[[], None]], None]
_Woken = tuple["Peer", Callable[[], None], WakeKey]

POP, NOTIFICATION, LITE_POP = "pop", "notification", "lite pop"
"""Kinds of requests that wait; each has a limit of its own."""


def _key(kind: str, topic: str, group: str, queue_id: int) -> WakeKey:
    """The key of requests of the kind that wait for a queue, or for ALL_QUEUES."""
    return kind, topic, group, queue_id


class Waiting:
    def __init__(
        self, config: BrokerConfig, topics: TopicTable, holds: Holds, clock_ms: Callable[[], int],
        wake: Callable[[], None], post: Post,
    ):  # fmt: skip
        """``wake`` makes a round end soon; ``post`` has something called in the next turn."""
        self._config = config
        self._clock_ms = clock_ms
        self._topics = topics
        self.holds = holds
        self._wake = wake
        self._post = post
        self.woken: deque[_Woken] = deque()
        """The woken requests, which ``go_on`` lets go on."""
        self._looking: deque[_Woken] = deque()
        """Requests that have more to look at than one portion; they go on turn by turn."""
        self._is_posted = False

    def deadline_ms(self, born_ms: int | None, poll_ms: int) -> int:
        """When the time of a request is up that comes now, by the clock of ``holds``. ``born_ms``: when its client sent
        it, by the broker's clock; None, or a time that is yet to come: now."""
        age_ms = 0 if born_ms is None else max(0, self._clock_ms() - born_ms)
        return self.holds.clock_ms() - age_ms + poll_ms

    def has_time(self, deadline_ms: int) -> bool:
        return deadline_ms > self.holds.clock_ms()

    def until_ms(self, deadline_ms: int, free_at_ms: int | None) -> int:
        """When a request goes on, by the clock of ``holds``: at its deadline, or earlier if what it waits for is free
        at ``free_at_ms`` of the broker's clock."""
        if free_at_ms is None:
            return deadline_ms
        return min(deadline_ms, self.holds.clock_ms() + free_at_ms - self._clock_ms())

    def hold(
        self,
        kind: str,
        header: Any,
        peer: Peer,
        deadline_ms: int,
        go_on: Callable[[], None],
        wanted: MessageFilter = EVERYTHING,
    ) -> bool:
        """Holds a request for ``header``'s group, topic and queue. Returns False if too many wait already. ``go_on`` is
        called between the rounds' writes, unless the peer is closed by then.

        Of requests for the same queue and group, a message wakes one, as in Apache's broker: the first pop, and the
        last notification."""
        group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
        own_key = _key(kind, topic, group, queue_id)
        if not self.has_place(kind, own_key):
            return False
        config = self._topics.get(topic)
        queue_nums = config.read_queue_nums if config is not None else 0
        queue_ids = range(queue_nums) if queue_id < 0 else (queue_id,)
        retries = ((pop_retry_topic(group, topic, is_v2=is_v2), 0) for is_v2 in (False, True))

        arrival_keys = (*((topic, each) for each in queue_ids), *retries)
        is_pop = kind == POP
        held = Held(
            waiter=peer,
            keys=(own_key, (kind,)),
            line=own_key,
            line_keys=arrival_keys,
            is_last_first=not is_pop,
            takes_count=max(1, header.max_msg_nums) if is_pop else 1,
            deadline_ms=deadline_ms,
            go_on=partial(self.go_on_later, peer, go_on, own_key),
            wanted=wanted,
            weight=1 + len(header.exp or "") // EXPRESSION_SHARE_CHARS,
        )
        return self.holds.hold(held)

    def has_place(self, kind: str, own_key: WakeKey) -> bool:
        """Whether one more request of the kind may wait. The limits are ``maxPopPollingSize`` in all, one more than
        ``popPollingSize`` for the same key, and ``popPollingMapSize`` keys. A waiting request is in the table under its
        key, which is also its line, and under its kind."""
        config, holds = self._config, self.holds
        held_count, same_count = holds.held_for((kind,)), holds.held_for(own_key)
        if held_count >= config.max_pop_polling_size or same_count > config.pop_polling_size:
            return False
        keys_max = config.pop_polling_map_size
        return bool(same_count) or held_count < keys_max or len(holds.lines_of((kind,))) < keys_max

    def go_on_later(self, peer: Peer, go_on: Callable[[], None], key: WakeKey) -> None:
        """For ``Held.go_on``: ``go_on`` is called when the round is written. If the peer is closed by then, the
        next request in the line of ``key`` goes on instead."""
        self.woken.append((peer, go_on, key))
        self._wake()

    def go_on_next_turn(self, kind: str, header: Any, peer: Peer, go_on: Callable[[], None]) -> None:
        """For a request that may not wait yet, because there is more to look at."""
        self.look_on(peer, go_on, _key(kind, header.topic, header.consumer_group, header.queue_id))

    def look_on(self, peer: Peer, go_on: Callable[[], None], key: WakeKey) -> None:
        """As ``go_on_next_turn``, for a request that would wait for ``key``."""
        self._looking.append((peer, go_on, key))
        self._post_turn()

    def _post_turn(self) -> None:
        if self._looking and not self._is_posted:
            self._is_posted = True
            self._post(self._take_turn)

    def _take_turn(self) -> None:
        self._is_posted = False
        for _ in range(min(GO_ON_IN_A_TURN, len(self._looking))):
            self.woken.append(self._looking.popleft())

    def give_up(self) -> None:
        """Ends the looking because the store closes, while clients stay: going on may write."""
        while self._looking:
            peer, _, _ = self._looking.popleft()
            peer.close("what it looks for is not served any more")

    def wake(self, topic: str, group: str, queue_id: int) -> None:
        """Wakes requests, because the queue may have messages for the group."""
        for each in (queue_id, ALL_QUEUES):
            self.holds.wake(_key(POP, topic, group, each))
            self.holds.wake_next(_key(NOTIFICATION, topic, group, each))

    def wake_next_pop(self, header: PopHeader) -> None:
        """Wakes the next pop of the same queue, or ALL_QUEUES, because a woken pop has left something."""
        self.holds.wake_next(_key(POP, header.topic, header.consumer_group, header.queue_id))

    def pops_held_for(self, topic: str, group: str, queue_id: int) -> int:
        return self.holds.held_for(_key(POP, topic, group, queue_id))

    def go_on(self) -> None:
        """Lets the woken requests go on."""
        for _ in range(len(self.woken)):
            peer, go_on, key = self.woken.popleft()
            try:
                if peer.closed:
                    self.holds.wake_next(key)  # another request should have what woke this one
                else:
                    go_on()
            except Exception:  # one failing request must not harm the others
                log.exception("event=held-request-failed peer=%s", peer.address)
        self._post_turn()
