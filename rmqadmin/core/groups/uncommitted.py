"""Topics that a group consumes without having any offset there. Brokers report its lag only for other topics, so a
group whose very first message keeps failing seems to have nothing to do."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from rmqadmin.core.groups.consumption import GroupClients
from rmqproto.bodies.groups import CONSUME_PASSIVELY
from rmqproto.bodies.routes import BrokerData
from rmqproto.errors import RocketMQError
from rmqproto.names import RETRY_PREFIX
from rmqproto.topic_message_type import MESSAGE_TYPE, TopicMessageType

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient

_BROADCASTING = "BROADCASTING"


def read_uncommitted(
    admin: AdminClient, brokers: Sequence[BrokerData], clients: GroupClients, known: Collection[str]
) -> dict[str, int]:
    """Such topics, and how many messages each has on these brokers; topics without messages are left out. ``known``:
    topics where the group has an offset. Members in broadcast mode, and those that pull, may keep their offsets
    themselves, and consumers of lite topics have offsets in those; they are left out. A broker that does not answer
    counts as having none."""
    if not clients.connections or clients.consume_type != CONSUME_PASSIVELY or clients.message_model == _BROADCASTING:
        return {}
    wanted = [topic for topic in clients.subscriptions if topic not in known and not topic.startswith(RETRY_PREFIX)]
    counts = {topic: sum(_message_count(admin, broker, topic) for broker in brokers) for topic in sorted(wanted)}
    return {topic: count for topic, count in counts.items() if count}


def _message_count(admin: AdminClient, broker: BrokerData, topic: str) -> int:
    addr = broker.selected_addr()
    if addr is None:
        return 0
    try:
        if admin.topic_config(addr, topic).attributes.get(MESSAGE_TYPE) == TopicMessageType.LITE:
            return 0
        ends = admin.topic_stats(addr, topic).offset_table.values()
    except RocketMQError:
        return 0
    return sum(each.max_offset - each.min_offset for each in ends)
