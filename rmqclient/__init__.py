"""Clients of RocketMQ brokers and nameservers: blocking ones for tools, and producers and consumers on asyncio, on trio
or in plain threads.

The names below are imported on first use: an event loop takes a tenth of a second to import, and commands of
``rmqadmin`` do not need it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient as AdminClient
    from rmqclient.blocking import BlockingClient as BlockingClient
    from rmqclient.consumers.lite_pull_consumer import LitePullConsumer as LitePullConsumer
    from rmqclient.consumers.lite_push_consumer import LitePushConsumer as LitePushConsumer
    from rmqclient.consumers.pop_consumer import PopConsumer as PopConsumer
    from rmqclient.consumers.pull_consumer import PullConsumer as PullConsumer
    from rmqclient.consumers.push_consumer import PushConsumer as PushConsumer
    from rmqclient.consumers.simple_consumer import SimpleConsumer as SimpleConsumer
    from rmqclient.consuming.popping.pop import PoppedMessage as PoppedMessage
    from rmqclient.consuming.rebalance import STICKY as STICKY
    from rmqclient.consuming.start import ConsumeFrom as ConsumeFrom
    from rmqclient.consuming.subscribing import MessageModel as MessageModel
    from rmqclient.deduplication import Deduplication as Deduplication
    from rmqclient.deduplication import by_key as by_key
    from rmqclient.deduplication import by_unique_key as by_unique_key
    from rmqclient.listener import LATER as LATER
    from rmqclient.listener import NEVER_AGAIN as NEVER_AGAIN
    from rmqclient.listener import SUCCESS as SUCCESS
    from rmqclient.listener import ConsumeStatus as ConsumeStatus
    from rmqclient.listener import later as later
    from rmqclient.listener import suspend as suspend
    from rmqclient.message import Message as Message
    from rmqclient.message import ReceivedMessage as ReceivedMessage
    from rmqclient.message import SendResult as SendResult
    from rmqclient.message import SendStatus as SendStatus
    from rmqclient.producers.producer import BlockingProducer as BlockingProducer
    from rmqclient.producers.producer import Producer as Producer
    from rmqclient.producers.queue_choice import QueueSelector as QueueSelector
    from rmqclient.producers.queue_choice import by_hash as by_hash
    from rmqclient.producers.queue_choice import by_random as by_random
    from rmqclient.producers.transaction_producer import LocalTransactionState as LocalTransactionState
    from rmqclient.producers.transaction_producer import TransactionListener as TransactionListener
    from rmqclient.producers.transaction_producer import TransactionProducer as TransactionProducer
    from rmqclient.producers.transaction_producer import TransactionSendResult as TransactionSendResult
    from rmqproto.bodies.base import MessageQueue as MessageQueue
    from rmqproto.bodies.lite import OffsetOption as OffsetOption
    from rmqproto.filters.subscription import Sql92 as Sql92
    from rmqproto.wire.credentials import Credentials as Credentials

_HOMES = {
    "rmqclient.admin": ("AdminClient",),
    "rmqclient.blocking": ("BlockingClient",),
    "rmqclient.consuming.subscribing": ("MessageModel",),
    "rmqclient.consuming.rebalance": ("STICKY",),
    "rmqclient.consuming.start": ("ConsumeFrom",),
    "rmqclient.listener": ("LATER", "NEVER_AGAIN", "SUCCESS", "ConsumeStatus", "later", "suspend"),
    "rmqclient.deduplication": ("Deduplication", "by_key", "by_unique_key"),
    "rmqclient.consumers.lite_pull_consumer": ("LitePullConsumer",),
    "rmqclient.consumers.lite_push_consumer": ("LitePushConsumer",),
    "rmqclient.message": ("Message", "ReceivedMessage", "SendResult", "SendStatus"),
    "rmqclient.consuming.popping.pop": ("PoppedMessage",),
    "rmqclient.consumers.pop_consumer": ("PopConsumer",),
    "rmqclient.producers.producer": ("BlockingProducer", "Producer"),
    "rmqclient.consumers.pull_consumer": ("PullConsumer",),
    "rmqclient.consumers.push_consumer": ("PushConsumer",),
    "rmqclient.producers.queue_choice": ("QueueSelector", "by_hash", "by_random"),
    "rmqclient.consumers.simple_consumer": ("SimpleConsumer",),
    "rmqclient.producers.transaction_producer": (
        "LocalTransactionState",
        "TransactionListener",
        "TransactionProducer",
        "TransactionSendResult",
    ),
    "rmqproto.bodies.base": ("MessageQueue",),
    "rmqproto.bodies.lite": ("OffsetOption",),
    "rmqproto.wire.credentials": ("Credentials",),
    "rmqproto.filters.subscription": ("Sql92",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
