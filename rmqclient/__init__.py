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
    from rmqclient.lite_pull_consumer import LitePullConsumer as LitePullConsumer
    from rmqclient.lite_push_consumer import LitePushConsumer as LitePushConsumer
    from rmqclient.message import Message as Message
    from rmqclient.message import ReceivedMessage as ReceivedMessage
    from rmqclient.message import SendResult as SendResult
    from rmqclient.message import SendStatus as SendStatus
    from rmqclient.pop import PoppedMessage as PoppedMessage
    from rmqclient.pop_consumer import PopConsumer as PopConsumer
    from rmqclient.producer import BlockingProducer as BlockingProducer
    from rmqclient.producer import Producer as Producer
    from rmqclient.pull_consumer import PullConsumer as PullConsumer
    from rmqclient.push_consumer import PushConsumer as PushConsumer
    from rmqclient.queue_choice import QueueSelector as QueueSelector
    from rmqclient.queue_choice import by_hash as by_hash
    from rmqclient.queue_choice import by_random as by_random
    from rmqclient.simple_consumer import SimpleConsumer as SimpleConsumer
    from rmqclient.transaction_producer import LocalTransactionState as LocalTransactionState
    from rmqclient.transaction_producer import TransactionListener as TransactionListener
    from rmqclient.transaction_producer import TransactionProducer as TransactionProducer
    from rmqclient.transaction_producer import TransactionSendResult as TransactionSendResult
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
    "rmqclient.lite_pull_consumer": ("LitePullConsumer",),
    "rmqclient.lite_push_consumer": ("LitePushConsumer",),
    "rmqclient.message": ("Message", "ReceivedMessage", "SendResult", "SendStatus"),
    "rmqclient.pop": ("PoppedMessage",),
    "rmqclient.pop_consumer": ("PopConsumer",),
    "rmqclient.producer": ("BlockingProducer", "Producer"),
    "rmqclient.pull_consumer": ("PullConsumer",),
    "rmqclient.push_consumer": ("PushConsumer",),
    "rmqclient.queue_choice": ("QueueSelector", "by_hash", "by_random"),
    "rmqclient.simple_consumer": ("SimpleConsumer",),
    "rmqclient.transaction_producer": (
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
