"""The online clients: producers and consumers by group, what each group has subscribed to, and the notice when that
changes (``ConsumerManager``, ``ProducerManager``, 5.5.0). Heartbeats add clients; a peer that goes removes them.

As in Apache's broker, a group has one client for each peer. Two connections with the same client id are both
members, both notified and both listed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from rmqproto.bodies.groups import CONSUME_ACTIVELY, CONSUME_PASSIVELY, CONSUME_POP, ConsumerData, SubscriptionData
from rmqproto.codes import LANGUAGES, ResponseCode, version_name
from rmqproto.filters.message_filter import MessageFilter
from rmqproto.filters.subscription import TAG, subscription_data
from rmqserver.broker.errors import NameTooLong, TooManyClients
from rmqserver.operation import Peer, Refused

MEMBERS_MAX = 100_000
"""Clients of producer and consumer groups. A client counts once for each group it is in. This limit and the next two
are ours."""

SUBSCRIPTIONS_MAX_BYTES = 64 << 20
"""Total size of the heartbeats that brought the present subscriptions of all groups."""

NAME_LENGTH_MAX = 1024
"""Characters of a client id or a producer group."""

KEPT_MAX = 4096
"""How many are kept; with one more, the oldest is forgotten."""

EXPRESSION_KEPT_CHARS = 1024
"""A longer expression is not kept."""

KEPT_MS = 10 * 60 * 1000

FIRST_RESET_VERSION = 28
"""V3_0_7_SNAPSHOT: older clients know neither 220 nor 221."""

# Names of Java enums, in the order of their ordinals: C++ clients send ordinals.
CONSUME_TYPES = (CONSUME_ACTIVELY, CONSUME_PASSIVELY, CONSUME_POP)
MESSAGE_MODELS = ("BROADCASTING", "CLUSTERING")
CONSUME_FROM_WHERES = (
    "CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST", "CONSUME_FROM_MIN_OFFSET",
    "CONSUME_FROM_MAX_OFFSET", "CONSUME_FROM_FIRST_OFFSET", "CONSUME_FROM_TIMESTAMP",
)  # fmt: skip


def enum_name(value: str | int | None, names: tuple[str, ...]) -> str:
    """A Java enum's name from its name or ordinal. Anything else becomes the first name."""
    text = str(value)
    if text in names:
        return text
    return names[int(text)] if text.isdecimal() and int(text) < len(names) else names[0]


@dataclass(slots=True)
class Client:
    """One client of one group. ``last_update_ms`` is the time of its newest heartbeat."""

    client_id: str
    language: str
    version: int
    peer: Peer
    last_update_ms: int


@dataclass(slots=True)
class ConsumerGroup:
    """A consumer group. The newest heartbeat of any member decides everything except the members."""

    group: str
    members: dict[Peer, Client] = field(default_factory=dict)
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)
    consume_type: str = CONSUME_PASSIVELY
    message_model: str = "CLUSTERING"
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"
    subscriptions_bytes: int = 0
    """The size of the heartbeat that brought the subscriptions."""
    fingerprint: int | None = None
    """The fingerprint of the newest heartbeat with subscriptions, for clients that leave out unchanged ones."""
    filters: dict[str, MessageFilter] = field(default_factory=dict)
    """Compiled subscriptions by topic. Filled by the code that reads for the group."""

    @property
    def is_broadcasting(self) -> bool:
        return self.message_model == "BROADCASTING"


class CarriedSubscriptions:
    """What groups asked for that are not known by heartbeats: the subscriptions that their pulls and pops carried
    (``ConsumerManager.compensateSubscribeData``, 5.5.0). Only tools read them."""

    def __init__(self, clock_ms: Callable[[], int]):
        self._clock_ms = clock_ms
        self._kept: dict[tuple[str, str], tuple[int, str, str]] = {}
        """Time, type and expression by group and topic, the oldest first."""

    def note(self, group: str, topic: str, kind: str | None, expression: str | None) -> None:
        key, expression = (group, topic), expression or ""
        self._kept.pop(key, None)
        if len(expression) > EXPRESSION_KEPT_CHARS:
            return
        if len(self._kept) >= KEPT_MAX:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = self._clock_ms(), TAG if kind is None else kind, expression

    def find(self, group: str, topic: str) -> SubscriptionData | None:
        """The newest one of the group and topic; None if it is too old, or there is none. Its version is its time."""
        time_ms, kind, expression = self._kept.get((group, topic), (0, "", ""))
        if self._clock_ms() - time_ms > KEPT_MS:
            return None
        return subscription_data(topic, expression, version=time_ms, expression_type=kind)


class Clients:
    """``consumers`` by group, ``producers`` by group and peer. ``on_members_changed`` is called with a consumer
    group whose members or subscriptions have changed, also when it has just lost its last member. ``on_subscribed`` is
    called when a group may read something else, or by another filter, or has gone."""

    def __init__(self, clock_ms: Callable[[], int], on_members_changed: Callable[[ConsumerGroup], None] | None = None):
        self.consumers: dict[str, ConsumerGroup] = {}
        self.producers: dict[str, dict[Peer, Client]] = {}
        self.carried = CarriedSubscriptions(clock_ms)
        self.on_subscribed: Callable[[], None] = lambda: None
        self._on_members_changed = on_members_changed
        self._clock_ms = clock_ms
        self._producers_by_id: dict[str, Client] = {}
        self._turn = 0
        self._member_count = 0
        self._subscriptions_bytes = 0
        # The groups in which a peer has a client: its end must not search all groups.
        self._consumer_groups_of: dict[Peer, set[str]] = {}
        self._producer_groups_of: dict[Peer, set[str]] = {}

    # --- heartbeats --------------------------------------------------------------------------------------------------

    def register_producer(
        self, group: str, client_id: str, peer: Peer, language: str | int | None, version: int
    ) -> None:
        """Takes a producer's heartbeat. A peer keeps its first client id. Raises TooManyClients or
        NameTooLong."""
        client = (self.producers.get(group) or {}).get(peer)
        if client is None:
            client = self._new_client(group, client_id, peer, language, version)
            self._member_count += 1
            self.producers.setdefault(group, {})[peer] = client
            self._producer_groups_of.setdefault(peer, set()).add(group)
            self._producers_by_id[client_id] = client
        client.last_update_ms = self._clock_ms()

    def register_consumer(
        self,
        data: ConsumerData,
        client_id: str,
        peer: Peer,
        language: str | int | None,
        version: int,
        *,
        with_subscriptions: bool = True,
        size_bytes: int = 0,
    ) -> bool:
        """Takes what a heartbeat of that size says about one group. Returns True if the group's members must be told of
        a change. Another id on the same peer replaces the earlier one, and does not count as a change. Raises
        TooManyClients if there is no room."""
        group = self.consumers.get(data.group_name) or ConsumerGroup(data.group_name)
        client = group.members.get(peer)
        is_new = client is None
        if client is None or client.client_id != client_id:
            client = self._new_client(group.group, client_id, peer, language, version, is_counted=not is_new)
        more_bytes = size_bytes - group.subscriptions_bytes if with_subscriptions else 0
        if self._subscriptions_bytes + more_bytes > SUBSCRIPTIONS_MAX_BYTES:
            remark = f"subscriptions of more than {SUBSCRIPTIONS_MAX_BYTES} bytes"
            raise TooManyClients(remark)
        self.consumers[group.group] = group
        group.members[peer] = client
        client.last_update_ms = self._clock_ms()
        self._member_count += is_new
        self._consumer_groups_of.setdefault(peer, set()).add(group.group)
        before = group.message_model, dict(group.subscriptions)
        group.consume_type = enum_name(data.consume_type, CONSUME_TYPES)
        group.message_model = enum_name(data.message_model, MESSAGE_MODELS)
        group.consume_from_where = enum_name(data.consume_from_where, CONSUME_FROM_WHERES)
        is_changed = is_new
        if with_subscriptions:
            group.subscriptions_bytes = size_bytes
            self._subscriptions_bytes += more_bytes
            is_changed |= _update_subscriptions(group, data.subscription_data_set)
        if before != (group.message_model, group.subscriptions):
            self.on_subscribed()
        return is_changed

    def _new_client(
        self,
        group: str,
        client_id: str,
        peer: Peer,
        language: str | int | None,
        version: int,
        *,
        is_counted: bool = False,
    ) -> Client:
        """A client to be put into its group; ``is_counted`` if it takes another's place. Raises TooManyClients if there
        is no room, and NameTooLong."""
        if self._member_count >= MEMBERS_MAX and not is_counted:
            raise TooManyClients(f"{MEMBERS_MAX} clients take part, and no more are taken")
        if max(len(group), len(client_id)) > NAME_LENGTH_MAX:
            raise NameTooLong(f"a group or client id is longer than {NAME_LENGTH_MAX}")
        return Client(client_id, language_name(language), version, peer, self._clock_ms())

    # --- leaving -----------------------------------------------------------------------------------------------------

    def unregister_producer(self, group: str, peer: Peer) -> None:
        members = self.producers.get(group, {})
        client = members.pop(peer, None)
        if client is None:
            return
        self._member_count -= 1
        groups = self._producer_groups_of.get(peer, set())
        groups.discard(group)
        if self._producers_by_id.get(client.client_id) is client:
            del self._producers_by_id[client.client_id]
            for other in groups:  # the client is still a member of those
                self._producers_by_id[client.client_id] = self.producers[other][peer]
        if not members:
            del self.producers[group]

    def unregister_consumer(self, group: str, peer: Peer) -> None:
        found = self.consumers.get(group)
        if found is None or found.members.pop(peer, None) is None:
            return
        self._member_count -= 1
        self._consumer_groups_of.get(peer, set()).discard(group)
        if not found.members:
            self._subscriptions_bytes -= found.subscriptions_bytes
            del self.consumers[group]
            self.on_subscribed()
        self.tell_members(found)

    def peer_gone(self, peer: Peer) -> None:
        """Removes every client of the peer."""
        for group in list(self._producer_groups_of.get(peer, ())):
            self.unregister_producer(group, peer)
        self._producer_groups_of.pop(peer, None)
        for group in self._consumer_groups_of.pop(peer, ()):
            self.unregister_consumer(group, peer)

    def expired_peers(self, timeout_ms: int) -> list[Peer]:
        """Peers of clients whose heartbeats have stopped for too long. The caller closes them."""
        oldest_ms = self._clock_ms() - timeout_ms
        tables = [*self.producers.values(), *(group.members for group in self.consumers.values())]
        clients = (client for table in tables for client in table.values())
        silent = (client.peer for client in clients if client.last_update_ms < oldest_ms)
        return list(dict.fromkeys(silent))

    def take_over(self, before: Clients) -> None:
        """Moves all clients of ``before`` to this table, which must be empty."""
        for table in ("consumers", "producers", "_producers_by_id", "_consumer_groups_of", "_producer_groups_of"):
            mine, other = getattr(self, table), getattr(before, table)
            mine.update(other)
            other.clear()
        self._member_count, before._member_count = before._member_count, 0
        self._subscriptions_bytes, before._subscriptions_bytes = before._subscriptions_bytes, 0
        self.carried = before.carried

    # --- looking up --------------------------------------------------------------------------------------------------

    def consumer(self, group: str, client_id: str) -> Client | None:
        """The latest client of that id: an older connection of the same client may be dead."""
        found = self.consumers.get(group)
        newest_first = reversed(found.members.values()) if found is not None else ()
        return next((client for client in newest_first if client.client_id == client_id), None)

    def producer(self, client_id: str) -> Client | None:
        """The latest client of that id (``ProducerManager.findChannel``)."""
        return self._producers_by_id.get(client_id)

    def any_producer(self, group: str) -> Client | None:
        """One of the group's producers, in turn; None if none listens (``ProducerManager.getAvailableChannel``). Any of
        them may be asked how a transaction of the group ended."""
        members = [each for each in self.producers.get(group, {}).values() if each.peer.is_listening]
        if not members:
            return None
        self._turn += 1
        return members[self._turn % len(members)]

    def subscription(self, group: str, topic: str) -> SubscriptionData | None:
        """The group's subscription to the topic: by its heartbeats, or else by its latest pull or pop."""
        online = self.consumers.get(group)
        found = online.subscriptions.get(topic) if online is not None else None
        return found or self.carried.find(group, topic)

    def has_left(self, group: str, topic: str) -> bool:
        """Whether the group's heartbeats name other topics, and none of its latest pulls was of this one."""
        online = self.consumers.get(group)
        return online is not None and bool(online.subscriptions) and self.subscription(group, topic) is None

    def note_carried(self, group: str, topic: str, kind: str | None, expression: str | None) -> None:
        """Notes the subscription of a pull or pop, unless the group's heartbeats tell it."""
        online = self.consumers.get(group)
        if online is None or topic not in online.subscriptions:
            self.carried.note(group, topic, kind, expression)

    def groups_subscribed_to(self, topic: str) -> list[str]:
        return [name for name, group in self.consumers.items() if topic in group.subscriptions]

    def tell_members(self, group: ConsumerGroup) -> None:
        if self._on_members_changed is not None:
            self._on_members_changed(group)


def language_name(language: str | int | None) -> str:
    """``JAVA`` and so on; some clients send the number of their language."""
    if isinstance(language, int) or (language or "").isdecimal():
        number = int(language or 0)
        return LANGUAGES[number] if number < len(LANGUAGES) else "OTHER"
    return str(language or "OTHER")


def _update_subscriptions(group: ConsumerGroup, sent: list[SubscriptionData]) -> bool:
    """Takes over what was sent. Returns whether topics were added or removed; a newer version of a topic is no
    change."""
    known, is_changed = group.subscriptions, False
    for subscription in sent:
        old = known.get(subscription.topic)
        if old is None:
            is_changed = True
            known[subscription.topic] = subscription
        elif subscription.sub_version > old.sub_version:
            known[subscription.topic] = subscription
            group.filters.pop(subscription.topic, None)
    for topic in known.keys() - {subscription.topic for subscription in sent}:
        del known[topic]
        group.filters.pop(topic, None)
        is_changed = True
    return is_changed


def refuse_older(client: Client) -> None:
    """Raises Refused for a client that does not know 220 and 221."""
    if client.version < FIRST_RESET_VERSION:
        remark = f"the client does not support this feature. version={version_name(client.version)}"
        raise Refused(ResponseCode.SYSTEM_ERROR, remark)
