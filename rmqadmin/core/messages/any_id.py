"""Finds messages by any id: a recall handle, a place in a queue or in a commit log, the offset id, the unique key, or a
key set by the application. Also says which of these it was.

The kinds are tried in that order, and the first that finds something wins. The search has no time limit.
"""

import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import TypeVar

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.messages import lookup
from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.messages.queue_reading import QueuePlace, pulls
from rmqadmin.core.servers.broker_answers import Answers, ask_each
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import BrokerData
from rmqproto.errors import ProtocolError, RocketMQError
from rmqproto.message.special_messages import parse_recall_untrusted
from rmqproto.names import TIMER_TOPIC, is_system_topic

_QUEUE_PLACE = re.compile(r"([%|a-zA-Z0-9_-]+)@(?:([^@:]+):)?([0-9]{1,9}):([0-9]{1,18})")
_LOG_PLACE = re.compile(r"(.+)@([0-9]{1,18})")

A = TypeVar("A")
Told = Callable[[int, int], None]


class FoundAs(StrEnum):
    """What kind of id the text turned out to be."""

    RECALL_HANDLE = "recall handle"
    QUEUE_PLACE = "queue offset"
    LOG_PLACE = "commit log offset"
    OFFSET_ID = "offset id"
    UNIQUE_KEY = "unique key"
    KEY = "key"


class Identified(msgspec.Struct, frozen=True):
    """A message, and the id that led to it."""

    asked: str
    found_as: FoundAs
    message: FoundMessage


class Finder:
    """Finds messages by any id. ``topic`` is where to look; None for every topic that is not the system's."""

    def __init__(self, admin: AdminClient, topic: str | None, key_count_max: int, told: Told | None = None):
        """``told`` takes how many topics have been searched, and the total."""
        self._told = told
        self._admin = admin
        self._topic = topic
        self._key_count_max = key_count_max
        self._answers = Answers()
        """Errors of brokers, so that a hanging broker is not waited for again for every topic."""
        self._known_brokers: list[BrokerData] | None = None
        self._known_topics: dict[str, list[BrokerData]] | None = None

    def find(self, asked: str) -> list[Identified]:
        """The messages, oldest first; empty if there are none. If nothing is found and a broker could not be asked, its
        error is raised, because the message may be there."""
        admin, answers = self._admin, self._answers

        def by_unique_key(of: tuple[str, list[BrokerData]]) -> list[FoundMessage]:
            return lookup.by_unique_key(admin, of[1], of[0], asked, answers=answers)

        def by_key(of: tuple[str, list[BrokerData]]) -> list[FoundMessage]:
            return lookup.by_key(admin, of[1], of[0], asked, max_count=self._key_count_max, answers=answers)

        ways: dict[FoundAs, Callable[[str], list[FoundMessage]]] = {
            FoundAs.RECALL_HANDLE: self._by_handle,
            FoundAs.QUEUE_PLACE: self._by_queue_place,
            FoundAs.LOG_PLACE: self._by_log_place,
            FoundAs.OFFSET_ID: lambda asked: lookup.by_offset_id(admin, self.brokers(), asked, self._topic),
            FoundAs.UNIQUE_KEY: lambda _: self._all_of(by_unique_key, self.topics().items()),
            FoundAs.KEY: lambda _: self._all_of(by_key, self.topics().items()),
        }
        for found_as, way in ways.items():
            found = sorted(way(asked), key=lambda one: one.stored.store_timestamp_ms)
            if found:
                return [Identified(asked, found_as, message) for message in found]
        for error in self.errors:
            raise error
        return []

    def why_no_place(self, asked: str) -> str | None:
        """What a place in a queue that was not found lacks; None for any other id."""
        place = _QUEUE_PLACE.fullmatch(asked)
        if place is None:
            return None
        topic, broker_name = place.group(1), place.group(2)
        route = targets.find_route(self._admin, topic)
        if route is None:
            return f"There is no topic {topic}."
        names = sorted(broker.broker_name for broker in route.broker_datas)
        if broker_name not in (None, *names):
            return f"The topic is on: {', '.join(names)}."
        return f"`rmqadmin topicStatus -t {topic}` shows where each queue begins and ends."

    @property
    def errors(self) -> list[RocketMQError]:
        """Of the brokers that could not be asked, where a message was found elsewhere."""
        return [*self._answers.errors.values()]

    def topics(self) -> dict[str, list[BrokerData]]:
        """The topics to search for keys, with their brokers."""
        if self._known_topics is None and self._topic is not None:
            self._known_topics = {self._topic: self._admin.topic_route(self._topic).broker_datas}
        if self._known_topics is None:
            names = sorted(name for name in self._admin.topic_list() if not is_system_topic(name))
            routes = ask_each(lambda name: targets.find_route(self._admin, name), names, self._told)
            found = zip(names, routes, strict=True)
            self._known_topics = {name: route.broker_datas for name, route in found if route is not None}
        return self._known_topics

    def brokers(self) -> list[BrokerData]:
        """The brokers to search for what names its own."""
        if self._topic is not None:
            return self.topics()[self._topic]
        if self._known_brokers is None:
            self._known_brokers = targets.all_brokers(self._admin.cluster_info())
        return self._known_brokers

    def _by_handle(self, asked: str) -> list[FoundMessage]:
        """The message that was delivered, or the one still waiting in the broker's timers."""
        try:
            handle = parse_recall_untrusted(asked)
        except ProtocolError:
            return []
        brokers = [broker for broker in self.brokers() if broker.broker_name == handle.broker_name]
        return lookup.by_unique_key(self._admin, brokers, handle.topic, handle.unique_key) or lookup.by_unique_key(
            self._admin, brokers, TIMER_TOPIC, handle.unique_key
        )

    def _by_queue_place(self, asked: str) -> list[FoundMessage]:
        place = _QUEUE_PLACE.fullmatch(asked)
        route = targets.find_route(self._admin, place.group(1)) if place is not None else None
        if place is None or route is None:
            return []
        topic, broker_name, queue_id, offset = place.group(1), place.group(2), int(place.group(3)), int(place.group(4))

        def ask(broker: BrokerData) -> list[FoundMessage]:
            addr = broker.selected_addr()
            if addr is None or broker_name not in (None, broker.broker_name):
                return []
            where = QueuePlace(MessageQueue(topic, broker.broker_name, queue_id), addr, offset, offset + 1)
            pulled = self._answers.ask(addr, lambda _addr: next(pulls(self._admin, where, is_exact=True)))
            return [one for one in pulled.messages if one.stored.queue_offset == offset]

        return self._all_of(ask, route.broker_datas)

    def _by_log_place(self, asked: str) -> list[FoundMessage]:
        place = _LOG_PLACE.fullmatch(asked)
        if place is None:
            return []
        named, offset = place.group(1), int(place.group(2))
        for broker in self.brokers():
            is_address = named in broker.broker_addrs.values()
            addr = named if is_address else broker.selected_addr()
            if addr is not None and (is_address or named == broker.broker_name):
                return lookup.at_log_offset(self._admin, broker, addr, offset, self._topic)
        return []

    def _all_of(self, ask: Callable[[A], list[FoundMessage]], of: Iterable[A]) -> list[FoundMessage]:
        """The results of all that can be asked. The answers have the errors of the others."""
        parts = ask_each(lambda one: targets.or_none(lambda: ask(one)), list(of), self._told)
        return [message for part in parts for message in part or ()]
