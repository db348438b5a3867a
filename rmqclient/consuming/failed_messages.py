"""Messages that a listener did not consume: the broker delivers them again, or keeps them as dead letters
(``DefaultMQPushConsumerImpl.sendMessageBack`` and ``ConsumeMessageOrderlyService.sendMessageBack``, 5.5.0)."""

from __future__ import annotations

import logging

import anyio

from rmqclient.listener import LATER, NEVER_AGAIN, ConsumeStatus
from rmqclient.message import Message, ReceivedMessage
from rmqclient.remoting.client_instance import ClientInstance
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.codes import RequestCode
from rmqproto.errors import RocketMQError
from rmqproto.ha import MASTER_ID
from rmqproto.headers.sending import SendBackHeader
from rmqproto.headers.tables import GroupHeader
from rmqproto.message import properties as props
from rmqproto.names import INNER_PRODUCER_GROUP, retry_topic
from rmqproto.queue_mapping import is_mock_broker
from rmqproto.wire import fastjson

log = logging.getLogger(__name__)

FIRST_DELAY_LEVEL = 3

LIMIT_KNOWN_FOR_S = 30.0
"""How long a group's setting is used before it is asked for again."""

RETRY_MAX_TIMES = 16
"""A group's default limit, which is used until a broker has told its own."""

RECONSUME_TIMES_MAX = 2**31 - 1
"""The value that Apache's consumers in order send if no limit is set."""


class FailedMessages:
    """With ``max_reconsume_times`` None, the group's limit applies to consumers in no order, and consumers in order
    have no limit."""

    def __init__(self, client: ClientInstance, group: str, max_reconsume_times: int | None):
        self._client = client
        self._group = group
        self._max_reconsume_times = max_reconsume_times
        self._known: dict[str, tuple[float, int]] = {}  # the group's limit by broker, and how long it is used

    async def send_back(self, message: ReceivedMessage, status: ConsumeStatus) -> None:
        """Sends the message to the broker that stores it, which delivers it again or moves it to the dead-letter queue
        (36). The broker that stores a message of a logical queue is not known, so a copy goes to the retry topic
        instead."""
        if is_mock_broker(message.broker_name):
            await self._send_copy_back(message, status)
            return
        header = SendBackHeader(
            offset=message.stored.log_offset,
            group=self._group,
            delay_level=status.delay_level,
            origin_msg_id=message.offset_message_id,
            origin_topic=message.stored.topic,
            max_reconsume_times=self._max_reconsume_times,
            broker_name=message.broker_name,
        )
        address = self._client.routes.replica(message.broker_name, MASTER_ID)
        await self._client.channels.request(address, RequestCode.CONSUMER_SEND_MSG_BACK, header)

    async def limit_at(self, broker_name: str) -> int:
        """How often a popped message may be redelivered before it is a dead letter. Apache's brokers deliver it for
        ever, and leave that to their proxy. A consumer without a proxy has to ask each broker for the group's own limit
        (``retryMaxTimes``)."""
        if self._max_reconsume_times is not None:
            return self._max_reconsume_times
        now_s = anyio.current_time()
        until_s, times = self._known.get(broker_name, (now_s, RETRY_MAX_TIMES))
        if now_s >= until_s and (told := await self._ask_limit(broker_name)) is not None:
            times = told
            self._known[broker_name] = now_s + LIMIT_KNOWN_FOR_S, times
        return times

    async def _ask_limit(self, broker_name: str) -> int | None:
        """The group's limit at the broker; None if it does not tell."""
        try:
            address = self._client.routes.master(broker_name)
            header = GroupHeader(group=self._group)
            answer = await self._client.channels.request(address, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, header)
            return fastjson.loads_untrusted(answer.body, SubscriptionGroupConfig).retry_max_times
        except RocketMQError as error:
            log.warning("retryMaxTimes not known group=%s broker=%s error=%s", self._group, broker_name, error)
            return None

    async def _send_copy_back(self, message: ReceivedMessage, status: ConsumeStatus) -> None:
        limit = RETRY_MAX_TIMES if self._max_reconsume_times is None else self._max_reconsume_times
        await self._send_copy(
            message,
            reconsume_times=message.reconsume_times + 1,
            max_reconsume_times=0 if status.delay_level == NEVER_AGAIN else limit,
            delay_level=max(status.delay_level, 0) or FIRST_DELAY_LEVEL + message.reconsume_times,
        )

    async def drop(self, message: ReceivedMessage, status: ConsumeStatus = LATER) -> None:
        """Drops the message, with a log entry: in a broadcasting group no broker knows which member needs it again."""
        log.warning("message dropped, the listener failed id=%s topic=%s", message.message_id, message.topic)

    async def give_up(self, message: ReceivedMessage) -> None:
        """Sends a copy to the group's retry topic. For a group that consumes in order, brokers make it a dead
        letter."""
        limit = RECONSUME_TIMES_MAX if self._max_reconsume_times is None else self._max_reconsume_times
        await self._send_copy(
            message,
            reconsume_times=message.reconsume_times,
            max_reconsume_times=limit,
            delay_level=FIRST_DELAY_LEVEL + message.reconsume_times,
        )

    async def _send_copy(
        self, message: ReceivedMessage, *, reconsume_times: int, max_reconsume_times: int, delay_level: int
    ) -> None:
        properties = dict(message.properties)
        properties.pop(props.TRAN_MSG, None)
        properties.setdefault(props.ORIGIN_MESSAGE_ID, message.offset_message_id)
        properties[props.RETRY_TOPIC] = message.topic
        properties[props.RECONSUME_TIME] = str(reconsume_times)
        properties[props.MAX_RECONSUME_TIMES] = str(max_reconsume_times)
        copy = Message(
            retry_topic(self._group),
            message.body,
            properties=properties,
            delay_level=delay_level,
            flag=message.stored.flag,
        )
        await self._client.send_on_its_own(INNER_PRODUCER_GROUP, copy, create=False)
