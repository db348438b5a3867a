"""A pull: checks it, filters, reads, and holds it while there is nothing (``PullMessageProcessor``, 5.5.0)."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.routes import TopicConfig
from rmqproto.codes import ResponseCode
from rmqproto.filters.message_filter import MessageFilter
from rmqproto.headers.consuming import PULL_COMMIT_OFFSET, PULL_LITE, PULL_SUSPEND, PullHeader
from rmqproto.perm import PERM_READ
from rmqserver.broker.consuming.holds import EXPRESSION_SHARE_CHARS, Held
from rmqserver.config.setting_values import BrokerRole
from rmqserver.operation import Guarded, Peer, Refused
from rmqserver.store.disk.cached_reads import NotCached
from rmqserver.store.results import GetResult, GetStatus

if TYPE_CHECKING:
    from rmqserver.broker.consuming.holds import Holds
    from rmqserver.broker.consuming.pull_checks import ReadChecks
    from rmqserver.broker.reads import Reads
    from rmqserver.broker.stats import BrokerStats
    from rmqserver.broker.tables.consumer_offsets import ConsumerOffsets
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.store.message_store import MessageStore

PULL_COUNT_MAX = 1024
"""The most messages that one pull can ask for, as Apache's consumers bound their pullBatchSize. With a filter, at least
so many units are looked at."""

_CODES = {
    GetStatus.FOUND: ResponseCode.SUCCESS,
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}


class PullOutcome(msgspec.Struct, gc=False):
    """The result of a pull: what it found in the queue, and its topic, group and filter. ``is_reset``: nothing was
    read; ``result.next_offset`` is where the group was put."""

    result: GetResult
    topic: TopicConfig
    group: SubscriptionGroupConfig
    wanted: MessageFilter
    is_reset: bool = False
    suggested_broker_id: int = 0
    """Where the client is to pull next: 0 is the master."""


def code_of(pulled: PullOutcome, queue_offset: int) -> ResponseCode:
    """The code for a pull of that offset. A queue without messages has only offset 0; any other offset has moved."""
    status = pulled.result.status
    if status in (GetStatus.NO_MATCHED_LOGIC_QUEUE, GetStatus.NO_MESSAGE_IN_QUEUE):
        return ResponseCode.PULL_OFFSET_MOVED if queue_offset else ResponseCode.PULL_NOT_FOUND
    return _CODES[status]


def suggested_broker_id(pulled: PullOutcome) -> int:
    """The broker to read from, if slaves may be read: a slave, if the group lags more than this machine's memory
    holds."""
    group = pulled.group
    return group.which_broker_when_consume_slowly if pulled.result.suggest_slave else group.broker_id


class AskedPull(msgspec.Struct):
    """A pull, and who takes the answer: the code and what was found."""

    header: PullHeader
    is_lite: bool
    peer: Peer
    then: Callable[[int, PullOutcome], None]
    guarded: Guarded


class Pulls:
    def __init__(
        self, config: BrokerConfig, store: MessageStore, offsets: ConsumerOffsets, stats: BrokerStats, holds: Holds,
        reads: Reads, checks: ReadChecks,
    ):  # fmt: skip
        self._config = config
        self._store = store
        self._offsets = offsets
        self._holds = holds
        self._stats = stats
        self._clock_ms = store.clock_ms
        self._checks = checks
        self._reads = reads

    def pull(self, header: PullHeader, is_lite: bool, local_addr: str, peer: str, is_first: bool = True) -> PullOutcome:
        """Reads for a pull. If ``result.is_loaded`` is not true, ``Reads.load`` finishes the read. ``is_first``: the
        pull was not held before; only then its commit counts. Raises Refused if nothing may be pulled, NotCached if the
        queue is not open yet; our address and the asker's are for remarks."""
        checks, offsets, sys_flag = self._checks, self._offsets, header.sys_flag
        if is_lite or sys_flag & PULL_LITE or not self._config.broker_permission & PERM_READ:
            checks.broker(header, is_lite=is_lite, local_addr=local_addr)
        group_name, topic_name, queue_id = header.consumer_group, header.topic, header.queue_id
        group, topic = checks.group_and_topic(group_name, topic_name, queue_id, peer)
        wanted = checks.wanted(header, group)
        if self._config.reject_pull_consumer_enable:
            checks.not_kept_out(group_name, peer)
        if is_first and sys_flag & PULL_COMMIT_OFFSET and not offsets.has_reset(group_name, topic_name, queue_id):
            offsets.commit(group_name, topic_name, queue_id, header.commit_offset)
        reset_offset = offsets.take_reset(group_name, topic_name, queue_id)
        if reset_offset is not None:
            return self._reset(header, reset_offset, topic, group, wanted)
        started_s = time.monotonic()
        result = self._store.get(
            topic_name, queue_id, header.queue_offset, min(header.max_msg_nums, PULL_COUNT_MAX),
            wanted=wanted, cached_only=self._reads.is_free,
        )  # fmt: skip
        self._stats.note_get(started_s)
        offsets.set_pull_offset(group_name, topic_name, queue_id, result.next_offset)
        pulled = PullOutcome(result, topic, group, wanted)
        if self._config.slave_read_enable:
            pulled.suggested_broker_id = suggested_broker_id(pulled)
        return pulled

    def _reset(
        self,
        header: PullHeader,
        queue_offset: int,
        topic: TopicConfig,
        group: SubscriptionGroupConfig,
        wanted: MessageFilter,
    ) -> PullOutcome:
        """The outcome for a group that an operator has reset: its consumer is told once where to go on."""
        low = self._store.min_offset(header.topic, header.queue_id)
        high = self._store.max_offset(header.topic, header.queue_id)
        self._offsets.set_pull_offset(header.consumer_group, header.topic, header.queue_id, queue_offset)
        result = GetResult(GetStatus.OFFSET_TOO_SMALL, queue_offset, low, high)
        return PullOutcome(result, topic, group, wanted, is_reset=True)

    def at_light_queue(self, header: PullHeader, peer: str) -> PullHeader:
        """A pull of a lite topic as one of its light queue. Raises Refused if the parent may not be pulled."""
        return self._checks.at_light_queue(header, peer)

    def serve(self, asked: AskedPull, is_first: bool = True) -> None:
        """Pulls and answers, or holds the pull if ``is_first``. Raises Refused if nothing may be pulled."""
        peer = asked.peer
        try:
            pulled = self.pull(asked.header, asked.is_lite, peer.local_addr, peer.address, is_first)
        except NotCached:
            pulled = None
        self.go_on(asked, pulled, is_first)

    def go_on(self, asked: AskedPull, pulled: PullOutcome | None, is_first: bool = True) -> None:
        """As ``serve``, with what ``pull`` has returned; None: it has raised NotCached."""
        if pulled is None:
            opened = partial(self._store.queues.find, asked.header.topic, asked.header.queue_id)
            self._reads.read(opened, lambda _: self.serve(asked, is_first), asked.guarded)
        elif pulled.result.chunks:
            self._found(asked, pulled)
        elif not pulled.result.is_loaded:
            self._reads.load(pulled.result, partial(self._loaded, asked, pulled, time.monotonic()))
        else:
            self._missed(asked, pulled, may_hold=is_first)

    def count_found(self, pulled: PullOutcome) -> None:
        """Counts messages that go to the group."""
        result, stats = pulled.result, self._stats
        flow = stats.gets[pulled.topic.topic_name, pulled.group.group_name]
        flow.add(result.count, sum(map(len, result.chunks)))
        stats.get_found += 1

    def _found(self, asked: AskedPull, pulled: PullOutcome) -> None:
        self.count_found(pulled)
        asked.then(ResponseCode.SUCCESS, pulled)

    def _missed(self, asked: AskedPull, pulled: PullOutcome, *, may_hold: bool) -> None:
        header = asked.header
        self._stats.get_miss += not pulled.is_reset
        code = code_of(pulled, header.queue_offset)
        if code == ResponseCode.PULL_OFFSET_MOVED and not pulled.is_reset and self._leaves_offsets():
            code = ResponseCode.PULL_RETRY_IMMEDIATELY
            pulled.result.next_offset = header.queue_offset
            pulled.suggested_broker_id = pulled.group.broker_id
        if not (code == ResponseCode.PULL_NOT_FOUND and may_hold and self._hold(asked, pulled)):
            asked.then(code, pulled)

    def _leaves_offsets(self) -> bool:
        """Whether the master is to correct wrong offsets: a slave may lack messages that its master has."""
        return self._config.broker_role is BrokerRole.SLAVE and not self._config.offset_check_in_slave

    def _loaded(self, asked: AskedPull, pulled: PullOutcome, started_s: float, failed: Exception | None) -> None:
        self._stats.note_get(started_s)
        asked.guarded(partial(self._finish, asked, pulled, failed))

    def _finish(self, asked: AskedPull, pulled: PullOutcome, failed: Exception | None) -> None:
        if failed is not None:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"cannot read the commit log: {failed}")
        # The filter's second stage may have run only now; the messages that it refuses are passed over.
        header, next_offset = asked.header, pulled.result.next_offset
        self._offsets.set_pull_offset(header.consumer_group, header.topic, header.queue_id, next_offset)
        if pulled.result.status is GetStatus.FOUND:
            self._found(asked, pulled)
        else:  # none of it is wanted, or the file is gone
            self._missed(asked, pulled, may_hold=False)

    def _hold(self, asked: AskedPull, pulled: PullOutcome) -> bool:
        header, config = asked.header, self._config
        if not header.sys_flag & PULL_SUSPEND:
            return False
        wait_ms = header.suspend_timeout_millis if config.long_polling_enable else config.short_polling_time_ms
        subscription = header.subscription
        held = Held(  # by position, because keywords double the cost
            asked.peer,
            ((header.topic, header.queue_id),),
            self._clock_ms() + wait_ms,
            partial(asked.guarded, partial(self.serve, asked, is_first=False)),
            pulled.wanted,
            partial(self._is_passed, header),
            1 + len(subscription) // EXPRESSION_SHARE_CHARS if subscription else 1,
        )
        return self._holds.hold(held)

    def _is_passed(self, header: PullHeader) -> bool:
        """Whether the queue has got more messages since the pull was held."""
        return self._store.max_offset(header.topic, header.queue_id) > header.queue_offset
