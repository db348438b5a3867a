"""A pull: checks it, in Apache's order and words, filters, reads, and holds it while there is nothing
(``PullMessageProcessor``, 5.5.0).

For a pull of a lite topic (ext field ``liteTopic`` of 11 and 361), the parent topic decides who may pull; the messages
are those of the light queue. So are the offsets, and resets of the group: Apache's broker counts them for the parent's
queue, where they would mean other messages."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from rmqproto.bodies.groups import CONSUME_ACTIVELY, SubscriptionGroupConfig
from rmqproto.bodies.routes import TopicConfig
from rmqproto.codes import PERM_READ, ResponseCode
from rmqproto.filters.message_filter import MessageFilter
from rmqproto.headers.base import Header
from rmqproto.headers.consuming import PULL_COMMIT_OFFSET, PULL_LITE, PULL_SUBSCRIPTION, PULL_SUSPEND, PullHeader
from rmqproto.names import is_system_group, lite_queue_name
from rmqserver.broker.consuming.holds import EXPRESSION_SHARE_CHARS, Held
from rmqserver.config.setting_values import BrokerRole
from rmqserver.operation import SEE_FAQ, Guarded, Peer, Refused
from rmqserver.store.disk.cached_reads import NotCached
from rmqserver.store.results import GetResult, GetStatus

if TYPE_CHECKING:
    from rmqserver.broker.clients.clients import Clients
    from rmqserver.broker.consuming.filters import Filters
    from rmqserver.broker.consuming.holds import Holds
    from rmqserver.broker.own_address import OwnAddress
    from rmqserver.broker.reads import Reads
    from rmqserver.broker.stats import BrokerStats
    from rmqserver.broker.tables.consumer_offsets import ConsumerOffsets
    from rmqserver.broker.tables.groups import GroupTable
    from rmqserver.broker.tables.topics import TopicTable
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.store.message_store import MessageStore


# Values of forbiddenType.
_BROKER, _GROUP, _TOPIC, _BROADCAST, _SUBSCRIPTION = 1, 2, 3, 4, 5


class ForbiddenAnswer(Header, kw_only=True):
    """Says who forbids a pull."""

    forbidden_type: int


def forbidden(remark: str, who: int) -> Refused:
    return Refused(ResponseCode.NO_PERMISSION, remark, ForbiddenAnswer(forbidden_type=who))


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


class AskedPull(msgspec.Struct):
    """A pull, and who takes the answer: the code and what was found."""

    header: PullHeader
    is_lite: bool
    peer: Peer
    then: Callable[[int, PullOutcome], None]
    guarded: Guarded


class Pulls:
    def __init__(
        self, config: BrokerConfig, store: MessageStore, topics: TopicTable, groups: GroupTable,
        offsets: ConsumerOffsets, clients: Clients, stats: BrokerStats, address: OwnAddress, holds: Holds,
        reads: Reads, filters: Filters,
    ):  # fmt: skip
        self._config = config
        self._store = store
        self._offsets = offsets
        self._holds = holds
        self._stats = stats
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._address = address
        self._filters = filters
        self._reads = reads

    def pull(self, header: PullHeader, is_lite: bool, peer: Peer, is_first: bool = True) -> PullOutcome:
        """Reads for a pull. If ``result.is_loaded`` is not true, ``Reads.load`` finishes the read. ``is_first``: the
        pull was not held before; only then its commit counts. Raises Refused if nothing may be pulled, NotCached if the
        queue is not open yet."""
        config, offsets, sys_flag = self._config, self._offsets, header.sys_flag
        if is_lite or sys_flag & PULL_LITE or not config.broker_permission & PERM_READ:
            self._check_broker(header, peer, is_lite=is_lite)
        group_name, topic_name, queue_id = header.consumer_group, header.topic, header.queue_id
        group, topic = self._group_and_topic(header, peer)
        wanted = self._wanted(header, group)
        if config.reject_pull_consumer_enable:
            self._check_member(group_name, peer)
        if is_first and sys_flag & PULL_COMMIT_OFFSET and not offsets.has_reset(group_name, topic_name, queue_id):
            offsets.commit(group_name, topic_name, queue_id, header.commit_offset)
        reset_offset = offsets.take_reset(group_name, topic_name, queue_id)
        if reset_offset is not None:  # by an operator: the consumer is told once where to go on
            low, high = self._store.min_offset(topic_name, queue_id), self._store.max_offset(topic_name, queue_id)
            offsets.set_pull_offset(group_name, topic_name, queue_id, reset_offset)
            result = GetResult(GetStatus.OFFSET_TOO_SMALL, reset_offset, low, high)
            return PullOutcome(result, topic, group, wanted, is_reset=True)
        started_s = time.monotonic()
        result = self._store.get(
            topic_name, queue_id, header.queue_offset, min(header.max_msg_nums, PULL_COUNT_MAX),
            wanted=wanted, cached_only=self._reads.is_free,
        )  # fmt: skip
        self._stats.note_get(started_s)
        offsets.set_pull_offset(group_name, topic_name, queue_id, result.next_offset)
        pulled = PullOutcome(result, topic, group, wanted)
        if config.slave_read_enable:  # a slave is read if the group lags more than this machine's memory holds
            slave_id, own_id = group.which_broker_when_consume_slowly, group.broker_id
            pulled.suggested_broker_id = slave_id if result.suggest_slave else own_id
        return pulled

    def serve(self, asked: AskedPull, is_first: bool = True) -> None:
        """Pulls and answers, or holds the pull if ``is_first``. Raises Refused if nothing may be pulled."""
        try:
            pulled = self.pull(asked.header, asked.is_lite, asked.peer, is_first)
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
        flow.add(len(result.sizes), sum(map(len, result.chunks)))
        stats.get_found += 1

    def _found(self, asked: AskedPull, pulled: PullOutcome) -> None:
        self.count_found(pulled)
        asked.then(ResponseCode.SUCCESS, pulled)

    def _missed(self, asked: AskedPull, pulled: PullOutcome, *, may_hold: bool) -> None:
        header = asked.header
        self._stats.get_miss += not pulled.is_reset
        code = code_of(pulled, header.queue_offset)
        is_moved = code == ResponseCode.PULL_OFFSET_MOVED and not pulled.is_reset
        # A slave may lack messages that its master has, and leaves it to that one to correct wrong offsets.
        leaves_offsets = self._config.broker_role is BrokerRole.SLAVE and not self._config.offset_check_in_slave
        if is_moved and leaves_offsets:
            code = ResponseCode.PULL_RETRY_IMMEDIATELY
            pulled.result.next_offset = header.queue_offset
            pulled.suggested_broker_id = pulled.group.broker_id
        if not (code == ResponseCode.PULL_NOT_FOUND and may_hold and self._hold(asked, pulled)):
            asked.then(code, pulled)

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
            self._holds.clock_ms() + wait_ms,
            partial(asked.guarded, partial(self.serve, asked, is_first=False)),
            pulled.wanted,
            lambda: self._store.max_offset(header.topic, header.queue_id) > header.queue_offset,
            1 + len(subscription) // EXPRESSION_SHARE_CHARS if subscription else 1,
        )
        return self._holds.hold(held)

    # --- the checks, each of which raises Refused ---------------------------------------------------------------------

    def _check_broker(self, header: PullHeader, peer: Peer, *, is_lite: bool) -> None:
        config = self._config
        if not config.broker_permission & PERM_READ:
            own_ip = self._address.ip(peer.local_addr)
            raise forbidden(f"the broker[{own_ip}] pulling message is forbidden", _BROKER)
        if (is_lite or header.sys_flag & PULL_LITE) and not config.lite_pull_message_enable:
            own_ip = self._address.ip(peer.local_addr)
            raise forbidden(f"the broker[{own_ip}] for lite pull consumer is forbidden", _BROKER)

    def _group_and_topic(self, header: PullHeader, peer: Peer) -> tuple[SubscriptionGroupConfig, TopicConfig]:
        """The group and the topic. Creates the group if that is allowed."""
        group_name, topic_name, queue_id = header.consumer_group, header.topic, header.queue_id
        group = self._groups.find(group_name)
        if group is None:
            text = f"subscription group [{group_name}] does not exist, {SEE_FAQ}"
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, text)
        if not group.consume_enable:
            raise forbidden(f"subscription group no permission, {group_name}", _GROUP)
        topic = self._topics.get(topic_name)
        if topic is None:
            text = f"topic[{topic_name}] not exist, apply first please! {SEE_FAQ}"
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, text)
        if not topic.perm & PERM_READ:
            raise forbidden(f"the topic[{topic_name}] pulling message is forbidden", _TOPIC)
        if not 0 <= queue_id < topic.read_queue_nums:
            text = (
                f"queueId[{queue_id}] is illegal, topic:[{topic_name}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[/{peer.address}]"
            )
            raise Refused(ResponseCode.INVALID_PARAMETER, text)
        return group, topic

    def _wanted(self, header: PullHeader, group: SubscriptionGroupConfig) -> MessageFilter:
        """The pull's filter: from the pull itself, or from the heartbeats of its group."""
        name, topic = header.consumer_group, header.topic
        if header.sys_flag & PULL_SUBSCRIPTION:
            filter_ = self._filters.carried(header.expression_type, header.subscription)
            self._clients.note_carried(name, topic, header.expression_type, header.subscription)
            return filter_
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
        return self._filters.subscribed(online, subscription, header.sub_version)

    def _check_member(self, group: str, peer: Peer) -> None:
        """For ``rejectPullConsumerEnable``: whoever pulls must be a member of its group, which no consumer without a
        listener becomes then, or the group must have listeners."""
        online = self._clients.consumers.get(group)
        if online is not None and online.consume_type != CONSUME_ACTIVELY:
            return
        is_member = online is not None and any(member.address == peer.address for member in online.members)
        if not is_member and not is_system_group(group):
            text = f"the consumer's group info not exist, or the pull consumer is rejected by server.{SEE_FAQ}"
            raise Refused(ResponseCode.SUBSCRIPTION_NOT_EXIST, text)

    def at_light_queue(self, header: PullHeader, peer: Peer) -> PullHeader:
        """A pull of a lite topic as one of the light queue by its name. It carries the group's subscription to the
        parent. Raises Refused if the parent may not be pulled."""
        assert header.lite_topic
        group, _ = self._group_and_topic(header, peer)
        self._wanted(header, group)
        light = msgspec.structs.replace(header, topic=lite_queue_name(header.topic, header.lite_topic), lite_topic=None)
        if not header.sys_flag & PULL_SUBSCRIPTION:
            subscription = self._clients.consumers[header.consumer_group].subscriptions[header.topic]
            light.sys_flag |= PULL_SUBSCRIPTION
            light.subscription, light.expression_type = subscription.sub_string, subscription.expression_type
        return light
