"""Popped messages that are not settled yet. They stay invisible to the rest of the group while this consumer has them.
Consumed messages are acknowledged; failed ones are hidden for a while (``ConsumeMessagePopConcurrentlyService``, 5.5.0,
which lets the time of a slow listener run out)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable

import anyio
from anyio.abc import TaskGroup

from rmqclient.consuming.failed_messages import FailedMessages
from rmqclient.consuming.popping.acks import OutgoingAcks
from rmqclient.consuming.popping.pop import PoppedMessage, change_invisible_time
from rmqclient.listener import NEVER_AGAIN, ConsumeStatus, later
from rmqclient.message import ReceivedMessage
from rmqclient.remoting.client_instance import ClientInstance
from rmqproto.errors import RocketMQError
from rmqproto.message.record import StoredMessage

log = logging.getLogger(__name__)

POP_DELAYS_S = (10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
"""The time until a message comes again, by the number of earlier redeliveries, or by a delay level
(``popDelayLevel``)."""

GIVE_BACK_MS = 1
"""How long a message that is given back stays invisible; brokers add two seconds."""

RENEWALS_PER_TIME = 10
"""How often messages are checked during one invisible time. A message with half of it left gets a new one."""


def delay_s(status: ConsumeStatus, reconsume_times: int) -> float:
    """The time after which a message that was not consumed comes again."""
    if status.suspend_s is not None:
        return max(status.suspend_s, 0.0)
    level = status.delay_level or reconsume_times
    return POP_DELAYS_S[min(level, len(POP_DELAYS_S) - 1)]


class HeldMessage:
    """One held message, which is its own ``deliveries.Unsettled``. ``until_s`` is on anyio's clock."""

    def __init__(self, message: PoppedMessage, until_s: float, on_gone: Callable[[], None], acks: OutgoingAcks):
        self.message = message
        self.until_s = until_s
        self.is_dropped = False
        self.changing = anyio.Lock()
        self._on_gone = on_gone
        self._acks = acks
        self._is_ack_due = False

    def settle(self, message: StoredMessage) -> None:
        """The message was consumed. If its handle is being changed, the acknowledgement uses the new one."""
        if not self.is_dropped:
            self.drop()
            self._is_ack_due = True
            if not self.changing.locked():
                self.acknowledge()

    def acknowledge(self) -> None:
        """Acknowledges the message if it is settled and not acknowledged yet."""
        if self._is_ack_due:
            self._is_ack_due = False
            self._acks.add(self.message, self.until_s)

    def drop(self) -> None:
        """The message is not ours any more."""
        if not self.is_dropped:
            self.is_dropped = True
            self._on_gone()


class HeldMessages:
    def __init__(self, client: ClientInstance, group: str, failed: FailedMessages, invisible_ms: int):
        self._client = client
        self._group = group
        self._acks = OutgoingAcks(client, group)
        self._failed = failed
        self.invisible_ms = invisible_ms
        self._held: dict[str, HeldMessage] = {}
        self._ended = anyio.Event()
        self.is_closing = False

    def hold(self, message: PoppedMessage, popped_s: float, on_gone: Callable[[], None]) -> HeldMessage:
        """``popped_s``: when the answer of the pop came. ``on_gone`` is called when the message is no longer held."""
        place = _place(message)

        def gone() -> None:
            del self._held[place]
            on_gone()

        if place in self._held:  # it came again, so the old handle is worthless
            self._held[place].drop()
        held = self._held[place] = HeldMessage(message, popped_s + self.invisible_ms / 1000, gone, self._acks)
        return held

    # --- renewal -----------------------------------------------------------------------------------------------------

    async def start(self, nursery: TaskGroup) -> None:
        """Messages are renewed and acknowledged in ``nursery`` until ``close``."""
        self._pause_scope, self._ended, self.is_closing = anyio.CancelScope(), anyio.Event(), False
        await nursery.start(self._acks.run)
        nursery.start_soon(self._renew_until_closed)

    async def _renew_until_closed(self) -> None:
        async with anyio.create_task_group() as nursery:
            while not self.is_closing:
                self._look(nursery)
                with anyio.CancelScope() as self._pause_scope:
                    await anyio.sleep(self.invisible_ms / 1000 / RENEWALS_PER_TIME)
        self._ended.set()

    def _look(self, nursery: TaskGroup) -> None:
        now_s = anyio.current_time()
        for held in list(self._held.values()):
            if now_s >= held.until_s:
                log.warning("invisible time is over id=%s topic=%s", held.message.message_id, held.message.topic)
                held.drop()
            elif now_s >= held.until_s - self.invisible_ms / 2000 and not held.changing.locked():
                nursery.start_soon(self._renew, held)

    async def _renew(self, held: HeldMessage) -> None:
        try:
            async with held.changing:
                if not held.is_dropped:
                    await self._change(held, self.invisible_ms)
        except RocketMQError as error:
            log.warning("invisible time not renewed id=%s error=%s", held.message.message_id, error)
        held.acknowledge()

    async def _change(self, held: HeldMessage, invisible_ms: int, *, suspend: bool = False) -> None:
        asked_s = anyio.current_time()
        with self._client.routes.looking_for_master():
            held.message = await change_invisible_time(
                self._client, self._group, held.message, invisible_ms, suspend=suspend
            )
        held.until_s = asked_s + invisible_ms / 1000

    # --- what was not consumed ---------------------------------------------------------------------------------------

    async def send_back(self, message: ReceivedMessage, status: ConsumeStatus) -> None:
        """Makes the message come again after a while, or makes it a dead letter. RocketMQError if the broker does not
        do so; the message is then still held."""
        assert isinstance(message, PoppedMessage)
        held = self._held.get(_place(message))
        if held is None:
            return
        is_failure = status.suspend_s is None
        if status.delay_level < 0 or (
            is_failure and message.reconsume_times >= await self._failed.limit_at(message.broker_name)
        ):
            await self._failed.send_back(message, later(NEVER_AGAIN))
            return  # the caller settles it
        if not is_failure and message.popped_lite_topic is not None:
            # A broker frees all messages of a lite topic, and those whose acknowledgement it does not have come again.
            await self._acks.flush_queue(message.queue)
        async with held.changing:
            if not held.is_dropped:
                seconds = delay_s(status, message.reconsume_times)
                await self._change(held, int(seconds * 1000), suspend=not is_failure)
                held.drop()

    # --- the end -----------------------------------------------------------------------------------------------------

    async def close(self, waiting: Iterable[ReceivedMessage]) -> None:
        """Gives all held messages back, and sends the last acknowledgements. ``waiting`` are those that the listener
        has not begun; they do not count as tried."""
        self.is_closing = True
        self._pause_scope.cancel()
        await self._ended.wait()
        untried = {_place(message) for message in waiting if isinstance(message, PoppedMessage)}
        await self._give_all_back((held, place in untried) for place, held in list(self._held.items()))
        await self._acks.flush()

    async def let_go(self, messages: Iterable[ReceivedMessage]) -> None:
        """Gives back messages that were not tried, so that they come again at once."""
        places = [_place(message) for message in messages if isinstance(message, PoppedMessage)]
        await self._give_all_back((self._held[place], True) for place in places if place in self._held)

    async def give_back(self, messages: Collection[PoppedMessage]) -> None:
        """Gives back messages that a pop brings while the consumer leaves."""
        now_s = anyio.current_time()
        await self._give_all_back((self.hold(message, now_s, lambda: None), True) for message in messages)

    async def _give_all_back(self, held: Iterable[tuple[HeldMessage, bool]]) -> None:
        """``held``: the messages, and whether each is untried."""
        async with anyio.create_task_group() as nursery:
            for one, is_untried in held:
                nursery.start_soon(self._give_back, one, is_untried)

    async def _give_back(self, held: HeldMessage, is_untried: bool) -> None:
        is_alone = held.message.popped_lite_topic is None  # suspending one message of a lite topic would free all of it
        try:
            async with held.changing:
                if not held.is_dropped:
                    await self._change(held, GIVE_BACK_MS, suspend=is_untried and is_alone)
        except RocketMQError as error:
            log.warning("message not given back id=%s error=%s", held.message.message_id, error)
        held.drop()
        held.acknowledge()  # if the listener has finished with it in the meantime


def _place(message: PoppedMessage) -> str:
    """The message's place, which is unique to it and does not change with its handle."""
    handle = message.handle
    topic = message.popped_lite_topic or message.popped_topic
    return f"{handle.broker_name} {topic} {handle.kind} {handle.queue_id} {handle.queue_offset}"
