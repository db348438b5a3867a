"""PULL_MESSAGE (11) and LITE_PULL_MESSAGE (361): checks in Apache's order and words, filter, read, and an answer or a
place among the held pulls (``PullMessageProcessor``, 5.5.0).

Bodies are the stored bytes themselves. What is not in the page cache is read by a thread, because one read of a slow
disk would stop every other client.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import trio

from rmqproto.bodies import SubscriptionGroupConfig, TopicConfig
from rmqproto.codes import ONEWAY_FLAG, VERSION, RequestCode, ResponseCode
from rmqproto.command import HeaderCodec
from rmqproto.headers import (
    PULL_COMMIT_OFFSET,
    PULL_LITE,
    PULL_SUBSCRIPTION,
    PULL_SUSPEND,
    Header,
    PullAnswer,
    PullHeader,
)
from rmqproto.subscription import SQL92, TAG, parse_tags
from rmqserver.answer import DEFERRED, LANGUAGE, Deferred, Refused, Request, answer_frame, refusal, send_answer
from rmqserver.broker.hold import EXPRESSION_SHARE_CHARS, HeldPull, Holds
from rmqserver.broker.send_checks import SEE_FAQ, own_ip
from rmqserver.broker.topics import PERM_READ
from rmqserver.store.results import GetResult, GetStatus

if TYPE_CHECKING:
    from rmqserver.broker.clients import Clients
    from rmqserver.broker.groups import GroupTable
    from rmqserver.broker.offsets import ConsumerOffsets
    from rmqserver.broker.stats import BrokerStats
    from rmqserver.broker.topics import TopicTable
    from rmqserver.config import BrokerConfig
    from rmqserver.connection import Connection
    from rmqserver.dispatch import Handler
    from rmqserver.store.message_store import MessageStore

log = logging.getLogger(__name__)

AcceptsTag = Callable[[int], bool]

READERS_MAX = 4
"""Threads that wait for the disk."""
PULL_COUNT_MAX = 1024
"""Messages that one pull can ask for, as Apache's consumers bound their pullBatchSize. With a filter, so many units at
least are looked at."""

READS_WAITING_MAX = 1024
"""Reads that may wait for a thread; with more, the loop reads by itself, which slows down those who ask."""

# Values of forbiddenType.
_BROKER, _GROUP, _TOPIC, _BROADCAST, _SUBSCRIPTION = 1, 2, 3, 4, 5

_CODES = {
    GetStatus.FOUND: ResponseCode.SUCCESS,
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}

_HEAD = struct.Struct(">II")
_FOUND = (
    '{"code":0,"extFields":{"groupSysFlag":"%d","maxOffset":"%d","minOffset":"%d","nextBeginOffset":"%d",'
    f'"suggestWhichBrokerId":"0","topicSysFlag":"%d"}},"flag":1,"language":"{LANGUAGE}","opaque":%d,"remark":"FOUND",'
    f'"serializeTypeCurrentRPC":"JSON","version":{VERSION}}}'
)


class ForbiddenAnswer(Header, kw_only=True):
    """Who forbids a pull."""

    forbidden_type: int


def forbidden(remark: str, who: int) -> Refused:
    return Refused(ResponseCode.NO_PERMISSION, remark, ForbiddenAnswer(forbidden_type=who))


class Pulls:
    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        topics: TopicTable,
        groups: GroupTable,
        offsets: ConsumerOffsets,
        clients: Clients,
        holds: Holds,
        stats: BrokerStats,
    ):
        self._config = config
        self._store = store
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._clients = clients
        self._holds = holds
        self._stats = stats
        self._nursery: trio.Nursery | None = None
        self._readers = trio.CapacityLimiter(READERS_MAX)
        self._reads_waiting = 0
        holds.run_again = self._run_again

    def handlers(self) -> dict[int, Handler]:
        return {RequestCode.PULL_MESSAGE: self._pull, RequestCode.LITE_PULL_MESSAGE: self._pull}

    def start(self, nursery: trio.Nursery) -> None:
        """From now on slow reads are left to threads."""
        self._nursery = nursery

    def _pull(self, request: Request[PullHeader], connection: Connection) -> Deferred:
        self._serve(request, connection, may_hold=True)
        return DEFERRED

    def _run_again(self, pull: HeldPull) -> None:
        """Called by the store, in the middle of what it does: nothing may be raised here."""
        request, connection = pull.request, pull.connection
        try:
            self._serve(request, connection, may_hold=False)
        except Refused as refused:
            frame = refusal(request, refused.code, refused.remark, refused.header)
            send_answer(request, connection, frame)
        except Exception as error:
            log.exception("event=held-pull-failed peer=%s", connection.peer)
            send_answer(request, connection, refusal(request, ResponseCode.SYSTEM_ERROR, str(error)))

    # --- one pull ----------------------------------------------------------------------------------------------------

    def _serve(self, request: Request[PullHeader], connection: Connection, *, may_hold: bool) -> None:
        """Answers or holds. Refused where nothing may be pulled."""
        header = request.header
        group, topic = self._check(request, connection)
        accepts_tag = self._filter(header, group)
        if may_hold and header.sys_flag & PULL_COMMIT_OFFSET:
            self._commit(header)
        reset = self._offsets.take_reset(header.consumer_group, header.topic, header.queue_id)
        if reset is not None:
            self._answer_reset(request, connection, reset, topic, group)
            return
        result = self._store.get(
            header.topic,
            header.queue_id,
            header.queue_offset,
            min(header.max_msg_nums, PULL_COUNT_MAX),
            accepts_tag=accepts_tag,
            cached_only=self._nursery is not None and self._reads_waiting < READS_WAITING_MAX,
        )
        self._offsets.set_pull_offset(header.consumer_group, header.topic, header.queue_id, result.next_offset)
        if result.status is GetStatus.FOUND:
            if result.is_loaded:
                self._answer_found(request, connection, result, topic, group)
            else:
                self._load_then_answer(request, connection, result, topic, group)
            return
        self._stats.get_miss += 1
        code = _code_of(result.status, header.queue_offset)
        if code == ResponseCode.PULL_NOT_FOUND and may_hold and self._hold(request, connection, accepts_tag):
            return
        # A queue that no message has reached is an empty one to clients.
        empty = result.status is GetStatus.NO_MATCHED_LOGIC_QUEUE
        remark = GetStatus.NO_MESSAGE_IN_QUEUE.value if empty else result.status.value
        self._answer(request, connection, code, remark, result, topic, group)

    def _commit(self, header: PullHeader) -> None:
        where = header.consumer_group, header.topic, header.queue_id
        if not self._offsets.has_reset(*where):
            self._offsets.commit(*where, header.commit_offset)

    def _hold(self, request: Request[PullHeader], connection: Connection, accepts_tag: AcceptsTag | None) -> bool:
        header = request.header
        if not header.sys_flag & PULL_SUSPEND:
            return False
        config = self._config
        wait_ms = header.suspend_timeout_millis if config.long_polling_enable else config.short_polling_time_ms
        deadline_ms = self._store.clock_ms() + wait_ms
        weight = 1 + len(header.subscription or "") // EXPRESSION_SHARE_CHARS
        pull = HeldPull(request, connection, header.queue_offset, deadline_ms, accepts_tag, weight)
        return self._holds.hold(header.topic, header.queue_id, pull)

    # --- checks ------------------------------------------------------------------------------------------------------

    def _check(
        self, request: Request[PullHeader], connection: Connection
    ) -> tuple[SubscriptionGroupConfig, TopicConfig]:
        header = request.header
        self._check_broker(request, connection)
        group = self._groups.find(header.consumer_group)
        if group is None:
            text = f"subscription group [{header.consumer_group}] does not exist, {SEE_FAQ}"
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, text)
        if not group.consume_enable:
            raise forbidden(f"subscription group no permission, {header.consumer_group}", _GROUP)
        topic = self._topics.get(header.topic)
        if topic is None:
            text = f"topic[{header.topic}] not exist, apply first please! {SEE_FAQ}"
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, text)
        if not topic.perm & PERM_READ:
            raise forbidden(f"the topic[{header.topic}] pulling message is forbidden", _TOPIC)
        if not 0 <= header.queue_id < topic.read_queue_nums:
            text = (
                f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[/{connection.peer}]"
            )
            raise Refused(ResponseCode.INVALID_PARAMETER, text)
        return group, topic

    def _check_broker(self, request: Request[PullHeader], connection: Connection) -> None:
        config = self._config
        if not config.broker_permission & PERM_READ:
            raise forbidden(f"the broker[{own_ip(config, connection)}] pulling message is forbidden", _BROKER)
        is_lite = request.code == RequestCode.LITE_PULL_MESSAGE or request.header.sys_flag & PULL_LITE
        if is_lite and not config.lite_pull_message_enable:
            text = f"the broker[{own_ip(config, connection)}] for lite pull consumer is forbidden"
            raise forbidden(text, _BROKER)

    def _filter(self, header: PullHeader, group: SubscriptionGroupConfig) -> AcceptsTag | None:
        """What the queue's tag codes are asked; None for everything."""
        if header.sys_flag & PULL_SUBSCRIPTION:
            kind, expression = header.expression_type, header.subscription
        else:
            kind, expression = self._subscribed(header, group)
        if kind in (None, "", TAG):
            wanted = parse_tags(expression)
            return None if wanted.tags is None else wanted.codes.__contains__
        if kind != SQL92 and self._config.enable_property_filter:
            return None  # as Apache does with a kind that it does not know
        text = f"The broker does not support consumer to filter message by {kind}"
        raise Refused(ResponseCode.SYSTEM_ERROR, text)

    def _subscribed(self, header: PullHeader, group: SubscriptionGroupConfig) -> tuple[str | None, str]:
        """Kind and expression of the subscription that the group's heartbeats named."""
        name, topic = header.consumer_group, header.topic
        online = self._clients.consumers.get(name)
        if online is None:
            text = f"the consumer's group info not exist{SEE_FAQ}"
            raise Refused(ResponseCode.SUBSCRIPTION_NOT_EXIST, text)
        if online.is_broadcasting and not group.consume_broadcast_enable:
            raise forbidden(f"the consumer group[{name}] can not consume by broadcast way", _BROADCAST)
        if self._groups.is_forbidden(name, topic):
            raise forbidden(f"the consumer group[{name}] is forbidden for topic[{topic}]", _SUBSCRIPTION)
        subscription = online.subscriptions.get(topic)
        if subscription is None:
            text = f"the consumer's subscription not exist{SEE_FAQ}"
            raise Refused(ResponseCode.SUBSCRIPTION_NOT_EXIST, text)
        if subscription.sub_version < header.sub_version:
            raise Refused(ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
        return subscription.expression_type, subscription.sub_string

    # --- answers -----------------------------------------------------------------------------------------------------

    def _answer_found(
        self,
        request: Request[PullHeader],
        connection: Connection,
        result: GetResult,
        topic: TopicConfig,
        group: SubscriptionGroupConfig,
    ) -> None:
        size_bytes = sum(result.sizes)
        flow = self._stats.gets[topic.topic_name, group.group_name]
        flow.message_count += len(result.sizes)
        flow.request_count += 1
        flow.size_bytes += size_bytes
        self._stats.get_found += 1
        if request.flag & ONEWAY_FLAG:
            return
        if request.codec != HeaderCodec.JSON:
            self._answer(request, connection, ResponseCode.SUCCESS, "FOUND", result, topic, group)
            return
        values = (
            group.group_sys_flag, result.max_offset, result.min_offset, result.next_offset, topic.topic_sys_flag,
            request.opaque,
        )  # fmt: skip
        header = (_FOUND % values).encode()
        # Two pieces, because the connection joins all it sends in one go: a long run of records is copied once.
        connection.send(_HEAD.pack(4 + len(header) + size_bytes, len(header)) + header)
        connection.send(result.chunks[0] if len(result.chunks) == 1 else b"".join(result.chunks))

    def _answer(
        self,
        request: Request[PullHeader],
        connection: Connection,
        code: int,
        remark: str,
        result: GetResult,
        topic: TopicConfig,
        group: SubscriptionGroupConfig,
    ) -> None:
        header = PullAnswer(
            suggest_which_broker_id=0,
            next_begin_offset=result.next_offset,
            min_offset=result.min_offset,
            max_offset=result.max_offset,
            topic_sys_flag=topic.topic_sys_flag,
            group_sys_flag=group.group_sys_flag,
        )
        send_answer(request, connection, answer_frame(request, code, remark, header, b"".join(result.chunks)))

    def _answer_reset(
        self,
        request: Request[PullHeader],
        connection: Connection,
        queue_offset: int,
        topic: TopicConfig,
        group: SubscriptionGroupConfig,
    ) -> None:
        """An operator has reset the group: its consumer is told once where to go on."""
        header = request.header
        low = self._store.min_offset(header.topic, header.queue_id)
        high = self._store.max_offset(header.topic, header.queue_id)
        result = GetResult(GetStatus.OFFSET_TOO_SMALL, queue_offset, low, high)
        self._answer(request, connection, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET", result, topic, group)

    # --- slow reads --------------------------------------------------------------------------------------------------

    def _load_then_answer(
        self,
        request: Request[PullHeader],
        connection: Connection,
        result: GetResult,
        topic: TopicConfig,
        group: SubscriptionGroupConfig,
    ) -> None:
        assert self._nursery is not None
        self._reads_waiting += 1
        self._nursery.start_soon(self._load, request, connection, result, topic, group)

    async def _load(self, request: Request[Any], connection: Connection, result: GetResult, *config: Any) -> None:
        try:
            await trio.to_thread.run_sync(self._store.load, result, limiter=self._readers)
            self._answer_found(request, connection, result, *config)
        except Exception as error:  # a file that is gone or damaged is one consumer's trouble, not the broker's
            log.exception("event=read-failed peer=%s", connection.peer)
            text = f"cannot read the commit log: {error}"
            send_answer(request, connection, refusal(request, ResponseCode.SYSTEM_ERROR, text))
        finally:
            self._reads_waiting -= 1


def _code_of(status: GetStatus, queue_offset: int) -> ResponseCode:
    """A queue without messages: its offset is 0, so anything else has moved."""
    if status in (GetStatus.NO_MATCHED_LOGIC_QUEUE, GetStatus.NO_MESSAGE_IN_QUEUE):
        return ResponseCode.PULL_OFFSET_MOVED if queue_offset else ResponseCode.PULL_NOT_FOUND
    return _CODES[status]
