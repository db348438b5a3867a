"""PULL_MESSAGE (11) and LITE_PULL_MESSAGE (361): checks and filters the pull, reads, then answers or holds the request
(``PullMessageProcessor``, 5.5.0)."""

from __future__ import annotations

import copy
import time
from functools import partial
from typing import TYPE_CHECKING

from rmqproto.codes import ONEWAY_FLAG, RequestCode, ResponseCode
from rmqproto.headers.consuming import PULL_COMMIT_OFFSET, PULL_LITE, PULL_SUSPEND, PullHeader
from rmqproto.perm import PERM_READ
from rmqserver.broker.consuming.holds import EXPRESSION_SHARE_CHARS, Held
from rmqserver.broker.consuming.lite.light_pulls import LightPulls
from rmqserver.broker.consuming.pull_answers import PullOutcome, answer, answer_found, code_of, suggested_broker_id
from rmqserver.broker.consuming.pull_checks import ReadChecks
from rmqserver.broker.held_answers import answering
from rmqserver.config.setting_values import BrokerRole
from rmqserver.remoting.answer import Request, refusal, send_answer
from rmqserver.store.disk.cached_reads import NotCached
from rmqserver.store.results import GetResult, GetStatus

if TYPE_CHECKING:
    from rmqproto.bodies.groups import SubscriptionGroupConfig
    from rmqproto.bodies.routes import TopicConfig
    from rmqproto.filters.message_filter import MessageFilter
    from rmqserver.broker.parts import BrokerParts
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.service import Handler

PULL_COUNT_MAX = 1024
"""The most messages that one pull can ask for, as Apache's consumers bound their pullBatchSize. With a filter, at least
so many units are looked at."""

_LITE_PULL = int(RequestCode.LITE_PULL_MESSAGE)


class Pulls:
    def __init__(self, parts: BrokerParts):
        self._config = parts.config
        self._store = parts.store
        self._offsets = parts.offsets
        self._holds = parts.holds
        self._stats = parts.stats
        self._clock_ms = parts.clock_ms
        self._checks = ReadChecks(parts)
        self._light_pulls = LightPulls(parts, self._checks)
        self._reads = parts.reads

    def handlers(self) -> dict[int, Handler]:
        return {RequestCode.PULL_MESSAGE: self._serve, RequestCode.LITE_PULL_MESSAGE: self._serve}

    # --- reading -----------------------------------------------------------------------------------------------------

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

    def count_found(self, pulled: PullOutcome) -> int:
        """Counts messages that go to the group. Returns their size in bytes."""
        sizes, stats = pulled.result.sizes, self._stats
        size_bytes = sum(sizes)
        stats.gets[pulled.topic.topic_name, pulled.group.group_name].add(len(sizes), size_bytes)
        stats.get_found += 1
        return size_bytes

    # --- requests ----------------------------------------------------------------------------------------------------

    def _serve(self, request: Request[PullHeader], connection: Connection, is_first: bool = True) -> None:
        """Answers, or holds the request if ``is_first``."""
        header = request.header
        if header.lite_topic:
            request = self._at_light_queue(request, connection.address)
            header = request.header
        try:
            pulled = self.pull(header, request.code == _LITE_PULL, connection.local_addr, connection.address, is_first)
        except NotCached:  # its queue is not open yet
            opened = partial(self._store.queue, header.topic, header.queue_id)
            self._reads.read(request, connection, opened, lambda _: self._serve(request, connection, is_first))
            return
        result = pulled.result
        if result.chunks:
            self._found(request, connection, pulled)
        elif not result.is_loaded:
            self._reads.load(result, partial(self._loaded, request, connection, pulled, time.monotonic()))
        else:
            self._missed(request, connection, pulled, may_hold=is_first)

    def _at_light_queue(self, request: Request[PullHeader], peer: str) -> Request[PullHeader]:
        """A pull of a lite topic as one of its light queue, with the group's subscription to the parent. Raises Refused
        if the parent may not be pulled."""
        light_request = copy.copy(request)
        light_request.header = self._light_pulls.at_light_queue(request.header, peer)
        return light_request

    def _found(self, request: Request[PullHeader], connection: Connection, pulled: PullOutcome) -> None:
        size_bytes = self.count_found(pulled)
        if not request.flag & ONEWAY_FLAG:
            answer_found(request, connection, pulled, size_bytes)

    def _missed(
        self, request: Request[PullHeader], connection: Connection, pulled: PullOutcome, *, may_hold: bool
    ) -> None:
        self._stats.get_miss += not pulled.is_reset
        code = code_of(pulled, request.header.queue_offset)
        if code == ResponseCode.PULL_OFFSET_MOVED and not pulled.is_reset and self._leaves_offsets():
            code = ResponseCode.PULL_RETRY_IMMEDIATELY
            pulled.result.next_offset = request.header.queue_offset
            pulled.suggested_broker_id = pulled.group.broker_id
        if not (code == ResponseCode.PULL_NOT_FOUND and may_hold and self._hold(request, connection, pulled)):
            answer(request, connection, code, pulled)

    def _leaves_offsets(self) -> bool:
        """Whether the master is to correct wrong offsets: a slave may lack messages that its master has."""
        return self._config.broker_role is BrokerRole.SLAVE and not self._config.offset_check_in_slave

    def _loaded(
        self,
        request: Request[PullHeader],
        connection: Connection,
        pulled: PullOutcome,
        started_s: float,
        failed: Exception | None,
    ) -> None:
        self._stats.note_get(started_s)
        if failed is not None:
            text = f"cannot read the commit log: {failed}"
            send_answer(request, connection, refusal(request, ResponseCode.SYSTEM_ERROR, text))
            return
        # The filter's second stage may have run only now; the messages that it refuses are passed over.
        header, next_offset = request.header, pulled.result.next_offset
        self._offsets.set_pull_offset(header.consumer_group, header.topic, header.queue_id, next_offset)
        if pulled.result.status is GetStatus.FOUND:
            self._found(request, connection, pulled)
        else:  # none of it is wanted, or the file is gone
            self._missed(request, connection, pulled, may_hold=False)

    def _hold(self, request: Request[PullHeader], connection: Connection, pulled: PullOutcome) -> bool:
        header, config = request.header, self._config
        if not header.sys_flag & PULL_SUSPEND:
            return False
        wait_ms = header.suspend_timeout_millis if config.long_polling_enable else config.short_polling_time_ms
        subscription = header.subscription
        held = Held(  # by position, because keywords double the cost
            connection,
            ((header.topic, header.queue_id),),
            self._clock_ms() + wait_ms,
            partial(answering, request, connection, partial(self._serve, request, connection, is_first=False)),
            pulled.wanted,
            partial(self._is_passed, header),
            1 + len(subscription) // EXPRESSION_SHARE_CHARS if subscription else 1,
        )
        return self._holds.hold(held)

    def _is_passed(self, header: PullHeader) -> bool:
        """Whether the queue has got more messages since the pull was held."""
        return self._store.max_offset(header.topic, header.queue_id) > header.queue_offset
