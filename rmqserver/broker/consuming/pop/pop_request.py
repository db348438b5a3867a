"""A pop: checks it and takes messages, or lets it wait for some (``PopMessageProcessor``, 5.5.0)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from rmqproto.codes import ResponseCode
from rmqproto.filters.message_filter import MessageFilter
from rmqproto.headers.popping import PopHeader
from rmqserver.broker.consuming.pop.pop_checks import PopChecks
from rmqserver.broker.consuming.pop.popping import FoundPops, Popped, Popping
from rmqserver.broker.consuming.pop.waiting import POP, Waiting
from rmqserver.broker.sending.pending import Outcome
from rmqserver.operation import Guarded, Peer, Refused
from rmqserver.store.results import MessageRefused

if TYPE_CHECKING:
    from rmqserver.broker.clients.clients import Clients
    from rmqserver.broker.own_address import OwnAddress
    from rmqserver.broker.reads import Reads
    from rmqserver.broker.sending.pending import PendingPuts
    from rmqserver.broker.stats import BrokerStats

EARLY_MS = 50
"""A pop that waits is answered this long before its time is up (``PopRequest``)."""

OnPopped = Callable[[ResponseCode, Popped], None]
"""Takes the messages, or none, with POLLING_TIMEOUT or POLLING_FULL."""


class _Asked(msgspec.Struct):
    """A pop that may go on later."""

    header: PopHeader
    peer: Peer
    wanted: MessageFilter
    deadline_ms: int
    then: OnPopped
    guarded: Guarded


class Pops:
    def __init__(
        self, stats: BrokerStats, clients: Clients, reads: Reads, pending: PendingPuts, address: OwnAddress,
        checks: PopChecks, popping: Popping, waiting: Waiting,
    ):  # fmt: skip
        self._stats = stats
        self._clients = clients
        self._reads = reads
        self._pending = pending
        self._address = address
        self._popping = popping
        self._waiting = waiting
        self._checks = checks

    def pop(self, header: PopHeader, peer: Peer, then: OnPopped, guarded: Guarded) -> None:
        """Takes messages; ``then`` gets them when their check points are as safe as messages are. Waits for some until
        the header's time is up. Raises Refused."""
        self._checks.pop(header, peer)
        self._checks.topic_and_group(header.topic, header.queue_id, header.consumer_group, peer.address)
        wanted = self._checks.wanted(header)
        kind = header.exp_type if header.exp else None
        self._clients.note_carried(header.consumer_group, header.topic, kind, header.exp)
        deadline_ms = self._waiting.deadline_ms(header.born_time or None, header.poll_time - EARLY_MS)
        self._try(_Asked(header, peer, wanted, deadline_ms, then, guarded))

    def _try(self, asked: _Asked) -> None:
        """Takes messages, or holds the request until the deadline."""
        header = asked.header
        sources = self._popping.sources(
            header.consumer_group, header.topic, header.queue_id, with_retries=not header.order
        )
        find = partial(self._popping.find, header, asked.wanted, sources)
        self._reads.read(find, partial(self._take, asked), asked.guarded)

    def _take(self, asked: _Asked, found: FoundPops) -> None:
        header = asked.header
        self._reads.warm(found.missing)
        try:
            popped = self._popping.pop(header, found, self._address.record_host(asked.peer))
        except MessageRefused as refused:
            raise Refused(ResponseCode.SYSTEM_ERROR, refused.status.value) from None
        if popped.message_count:
            if popped.rest_count > 0:
                self._waiting.wake_next_pop(header)
            self._when_written(asked, popped)
            return
        code, may_wait = ResponseCode.POLLING_TIMEOUT, self._waiting.has_time(asked.deadline_ms)
        go_on = partial(asked.guarded, partial(self._try, asked))
        if may_wait and popped.has_unseen:
            self._waiting.go_on_next_turn(POP, header, asked.peer, go_on)
            return
        self._stats.get_miss += 1
        if may_wait:
            until_ms = self._waiting.until_ms(asked.deadline_ms, popped.free_at_ms)
            if self._waiting.hold(POP, header, asked.peer, until_ms, go_on, asked.wanted):
                return
            code = ResponseCode.POLLING_FULL
        asked.then(code, popped)

    def _when_written(self, asked: _Asked, popped: Popped) -> None:
        def on_done(outcome: Outcome) -> None:
            if outcome.is_lost:
                self._popping.take_back(asked.header.consumer_group, popped)
                self._waiting.wake_next_pop(asked.header)
                asked.guarded(partial(_refuse, outcome))
            else:
                self._stats.get_found += 1
                asked.then(ResponseCode.SUCCESS, popped)

        self._pending.wait(on_done, until_safe=self._pending.knows_safe and bool(popped.taken_back))


def _refuse(outcome: Outcome) -> None:
    raise Refused(outcome.code, outcome.remark)
