"""The rules that change a message on its way into the store, in Apache's order: first those for producers
(``SendMessageProcessor``), then those for all messages (``putMessageHook``, ``HookUtils``, 5.5.0). Also how a
message becomes a dead letter (``handleRetryAndDLQ``). A rule refuses with Refused, or with the store's own
MessageRefused."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from rmqproto.codes import FIRST_MAX_RECONSUME_VERSION, ResponseCode
from rmqproto.message import properties as props
from rmqproto.message.sys_flag import INNER_BATCH, TRANSACTION_MASK, TRANSACTION_PREPARED
from rmqproto.names import (
    DLQ_PREFIX,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    SYSTEM_TOPIC_PREFIX,
    TIMER_TOPIC,
    TRANSACTION_HALF_TOPIC,
    dlq_topic,
    lite_queue_name,
)
from rmqserver.broker.sending.properties import added_by_broker, as_int, delay_level, is_timer
from rmqserver.operation import SEE_FAQ, Refused
from rmqserver.store.results import MessageRefused, PutStatus

if TYPE_CHECKING:
    from rmqproto.bodies.groups import SubscriptionGroupConfig
    from rmqproto.message.message_id import UniqueIds
    from rmqserver.broker.clients.membership import QueueLocks
    from rmqserver.broker.own_address import OwnAddress
    from rmqserver.broker.sending.targets import Target
    from rmqserver.broker.tables.groups import GroupTable
    from rmqserver.broker.tables.topics import TopicTable
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.store.new_message import NewMessage
    from rmqserver.store.timers.timer_store import TimerStore


DLQ_QUEUE_NUMS = 1


def times_max(group: SubscriptionGroupConfig, client_version: int, asked: int | None) -> int:
    """The group's limit, or the client's own if the client is new enough to have one."""
    if client_version >= FIRST_MAX_RECONSUME_VERSION and asked is not None:
        return asked
    return group.retry_max_times


def to_dead_letters(message: NewMessage, group: str, topics: TopicTable) -> None:
    """Sends the message to the group's dead letters, whose topic is created if it is missing. The message goes to no
    light queue: its group would get it there again."""
    message.topic, message.queue_id = dlq_topic(group), 0
    message.properties[props.DELAY] = "0"
    for name in (props.MULTI_DISPATCH, props.MULTI_QUEUE_OFFSET):
        message.properties.pop(name, None)
    topics.create_system(message.topic, DLQ_QUEUE_NUMS)


class Sender(NamedTuple):
    """What the rules for producers need besides the message: the topic it was sent to, and what its client said."""

    target: Target
    client_version: int
    max_reconsume_times: int | None


_LONG = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_TIMER_UNITS_MS = {props.TIMER_DELAY_SEC: 1000, props.TIMER_DELAY_MS: 1}


class Rewrites:
    def __init__(
        self, config: BrokerConfig, topics: TopicTable, groups: GroupTable, locks: QueueLocks, address: OwnAddress,
        unique_ids: UniqueIds, slots: TimerSlots,
    ):  # fmt: skip
        self._config = config
        self._topics = topics
        self._groups = groups
        self._locks = locks
        self._address = address
        self._unique_ids = unique_ids
        self._slots = slots

    # --- for producers -----------------------------------------------------------------------------------------------

    def for_producer(self, message: NewMessage, sender: Sender) -> None:
        """All rules for producers but the last, ``half_message``."""
        if message.topic.startswith(RETRY_PREFIX):
            self._bury_if_dead(message, sender)
        message.properties.pop(props.POP_CK, None)  # a popped message that is sent again is a new one
        if props.UNIQUE_KEY not in message.properties:
            message.properties[props.UNIQUE_KEY] = self._unique_ids.next()
        lite = message.properties.get(props.LITE_TOPIC)
        if lite and not message.topic.startswith((RETRY_PREFIX, DLQ_PREFIX, SYSTEM_TOPIC_PREFIX)):
            message.properties[props.MULTI_DISPATCH] = lite_queue_name(message.topic, lite)
        _priority_queue(message, sender.target)
        if sender.target.needs_keys and not message.properties.get(props.KEYS, "").strip():
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, "Required message key is missing")
        message.properties.update(added_by_broker(self._config))

    def _bury_if_dead(self, message: NewMessage, sender: Sender) -> None:
        """Makes a message that a consumer itself sends to its retry topic a dead letter if it was tried too often, or
        if the group consumes in order, where nothing can be retried out of order. Raises Refused with 26 for an unknown
        group."""
        name = message.topic.removeprefix(RETRY_PREFIX)
        group = self._groups.find(name)
        if group is None:
            text = f"subscription group not exist, {name} {SEE_FAQ}"
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, text)
        is_tried_out = message.reconsume_times > times_max(group, sender.client_version, sender.max_reconsume_times)
        if is_tried_out or self._locks.is_any_held(name):
            to_dead_letters(message, name, self._topics)
            message.properties[props.DELAY] = "-1"

    def half_message(self, message: NewMessage) -> None:
        """The last rule for producers, applied once the queue that the answer names is known. The first half of a
        transaction waits where no consumer reads, until its producer says how the transaction ended
        (``TransactionalMessageBridge.parseHalfMessageInner``)."""
        properties = message.properties
        if properties.get(props.TRAN_MSG, "").lower() != "true":
            return
        if message.reconsume_times > 0 and delay_level(properties) > 0:
            return
        if self._config.reject_transaction_message:
            own_ip = self._address.ip_in(message.store_host)
            raise Refused(ResponseCode.NO_PERMISSION, f"the broker[{own_ip}] sending transaction message is forbidden")
        properties[props.TRANSACTION_ID] = properties[props.UNIQUE_KEY]
        message.sys_flag &= ~TRANSACTION_MASK
        _make_wait(message, TRANSACTION_HALF_TOPIC, 0)

    # --- for every message -------------------------------------------------------------------------------------------

    def for_all(self, message: NewMessage) -> None:
        """A batch in one record is refused (``HookUtils.checkInnerBatch``): it belongs to a topic of queue.type
        BatchCQ, and this broker has none. A message that is prepared, rolled back, or half of a transaction is not
        scheduled: a half message is delayed when it is committed, if it asks for that. Apache's broker would delay the
        half, and lose it."""
        if props.INNER_NUM in message.properties or message.sys_flag & INNER_BATCH:
            raise MessageRefused(PutStatus.MESSAGE_ILLEGAL, f"{message.topic} takes no batch in one record")
        if message.sys_flag & TRANSACTION_PREPARED or message.topic == TRANSACTION_HALF_TOPIC:
            return
        self._timer(message)
        # ``HookUtils.transformDelayLevelMessage``: it waits in its level's queue.
        level = min(delay_level(message.properties), len(self._config.delay_levels_ms))
        if level > 0:
            message.properties[props.DELAY] = str(level)
            _make_wait(message, SCHEDULE_TOPIC, level - 1)

    def _timer(self, message: NewMessage) -> None:
        """The first half of ``HookUtils.handleScheduleMessage``, and ``transformTimerMessage``: the message waits in
        the timer topic, with its real target in its properties. A delay level takes precedence over a time; a time that
        has passed delays nothing."""
        properties = message.properties
        if message.topic == TIMER_TOPIC or not is_timer(properties):
            return
        if delay_level(properties) > 0:
            for name in props.TIMER_NAMES:
                properties.pop(name, None)
            return
        if props.TIMER_OUT_MS in properties:
            return
        name = next(each for each in props.TIMER_NAMES if each in properties)
        is_recall = props.TIMER_DELETE_UNIQUE_KEY in properties
        out_ms = self._slots.out_ms(name, properties[name], is_recall=is_recall)
        if out_ms is None:
            return
        properties[props.TIMER_OUT_MS] = str(out_ms)
        _make_wait(message, TIMER_TOPIC, 0)


def _make_wait(message: NewMessage, topic: str, queue_id: int) -> None:
    """Makes the message wait in that queue; its properties tell for which one it is (``real_queue_untrusted``)."""
    message.properties[props.REAL_TOPIC] = message.topic
    message.properties[props.REAL_QUEUE_ID] = str(message.queue_id)
    message.topic, message.queue_id = topic, queue_id


def _priority_queue(message: NewMessage, target: Target) -> None:
    """Chooses the queue of a message with a priority. The property is removed if something else decides on the
    queue. Text that is no number is no priority."""
    properties = message.properties
    priority = as_int(properties.get(props.PRIORITY, ""))
    if priority is None or priority < 0:
        return
    if (
        props.TRAN_MSG in properties
        or props.DELAY in properties
        or props.SHARDING_KEY in properties
        or is_timer(properties)
    ):
        del properties[props.PRIORITY]
        return
    message.queue_id = min(priority, max(target.config.write_queue_nums - 1, 0))


class TimerSlots:
    """The slots of the timer wheel, for messages that are to wait in one."""

    def __init__(self, config: BrokerConfig, timer_store: TimerStore, clock_ms: Callable[[], int]):
        self._config = config
        self._timer_store = timer_store
        self._clock_ms = clock_ms
        self.announce = timer_store.announce

    def out_ms(self, name: str, text: str, *, is_recall: bool = False) -> int | None:
        """The time of the slot in which a message waits, by the one of TIMER_NAMES that counts; None if it does not
        have to wait. Raises Refused if the broker takes no such message, or not this one."""
        config = self._config
        if not config.timer_wheel_enable:
            text = "accurate timer message is not enabled, timerWheelEnable is false"
            raise Refused(ResponseCode.SYSTEM_ERROR, text)
        now_ms, deliver_ms = self._clock_ms(), None
        if _LONG.fullmatch(text):  # what Java reads as a long
            deliver_ms = int(text) if name == props.TIMER_DELIVER_MS else now_ms + int(text) * _TIMER_UNITS_MS[name]
        if deliver_ms is not None and deliver_ms <= now_ms and not is_recall:
            return None
        if deliver_ms is None or not now_ms < deliver_ms <= now_ms + config.timer_max_delay_s * 1000:
            text = (
                "timer message illegal, the delay time should not be bigger than the max delay "
                f"{config.timer_max_delay_s * 1000}ms; or if set del msg, the delay time should be bigger than the "
                "current time"
            )
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, text)
        precision_ms = self._timer_store.precision_ms
        out_ms = (deliver_ms - 1) // precision_ms * precision_ms
        load, limit = self._timer_store.load_of(out_ms), config.timer_congest_num_each_slot
        # ``TimerMessageStore.isReject``. Between once and twice the limit, chance decides. As in Apache's broker, the
        # fuller the slot, the fewer are refused.
        if load > limit and (load >= 2 * limit or random.randrange(1000) > 1000 * (load - limit) / limit):
            text = (
                f"timer message is under flow control, max num limit is {2 * limit} or the current value is greater "
                f"than {limit} and less than {2 * limit}, trigger random flow control"
            )
            raise Refused(ResponseCode.SYSTEM_ERROR, text)
        return out_ms
