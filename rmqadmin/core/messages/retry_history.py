"""What a failed message tells about its failure, and the copies that each failure left behind.

A broker stores a retry as a new message in ``%RETRY%<group>``, and the last one in ``%DLQ%<group>``. All of them have
the unique key of the original message, so the index finds them. None says how the consumer failed, unless the
application has put that into a property.
"""

from __future__ import annotations

import msgspec

from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.messages import lookup
from rmqadmin.core.messages.lookup import FoundMessage
from rmqproto.codes import ResponseCode
from rmqproto.errors import RefusedError
from rmqproto.message import properties as props
from rmqproto.message.failures import told_causes
from rmqproto.names import DLQ_PREFIX, RETRY_PREFIX, dlq_topic, group_in_topic, retry_topic
from rmqproto.wording import counted


class StoredCopy(msgspec.Struct, frozen=True):
    """One time the message was stored. ``what``: sent, retry N, dead letter."""

    what: str
    stored_ms: int
    topic: str
    broker_name: str
    queue_id: int
    queue_offset: int


def failure_facts(message: FoundMessage) -> list[tuple[str, str]]:
    """What the message itself tells about its failure, as labels and values. Empty for a message that has not
    failed."""
    from rmqreplay.sending.redrive import round_of  # only for failed messages

    stored, found = message.stored, message.properties
    group = group_in_topic(stored.topic)
    if group is None:
        return []
    redrives = round_of(found)
    facts = {
        "failed in": group,
        "origin topic": found.get(props.RETRY_TOPIC),
        "origin id": found.get(props.ORIGIN_MESSAGE_ID),
        "retries": _tries(stored.reconsume_times, found.get(props.MAX_RECONSUME_TIMES)),
        "redriven": counted(redrives, "time") if redrives else None,
    }
    told = told_causes(found).items()
    return [*((label, value) for label, value in facts.items() if value), *told]


def _tries(count: int, count_max: str | None) -> str:
    return f"{count} of {count_max}" if count_max else str(count)


def read_copies(admin: AdminClient, message: FoundMessage) -> list[StoredCopy]:
    """Every copy that the index still has, oldest first. A message without a unique key has no other copies."""
    group = group_in_topic(message.stored.topic)
    unique_key = message.properties.get(props.UNIQUE_KEY)
    found = [message]
    if group is not None and unique_key:
        topics = [message.properties.get(props.RETRY_TOPIC), retry_topic(group), dlq_topic(group)]
        found += [copy for topic in topics if topic for copy in _copies_in(admin, topic, unique_key)]
    copies = {(one.broker_name, one.stored.log_offset): _copy(one) for one in found}
    return sorted(copies.values(), key=lambda copy: copy.stored_ms)


def _copies_in(admin: AdminClient, topic: str, unique_key: str) -> list[FoundMessage]:
    try:
        brokers = admin.topic_route(topic).broker_datas
    except RefusedError as error:
        if error.code != ResponseCode.TOPIC_NOT_EXIST:
            raise
        return []
    return lookup.by_unique_key(admin, brokers, topic, unique_key)


def _copy(message: FoundMessage) -> StoredCopy:
    stored = message.stored
    return StoredCopy(
        _what(stored.topic, stored.reconsume_times),
        stored.store_timestamp_ms,
        stored.topic,
        message.broker_name,
        stored.queue_id,
        stored.queue_offset,
    )


def _what(topic: str, reconsume_times: int) -> str:
    if topic.startswith(DLQ_PREFIX):
        return "dead letter"
    return f"retry {reconsume_times}" if topic.startswith(RETRY_PREFIX) else "sent"
