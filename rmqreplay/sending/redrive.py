"""Makes the message that is sent again: it drops properties from the earlier delivery, keeps the user's, and sets the
target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import UsageError
from rmqproto.java.java_numbers import whole_number
from rmqproto.message import properties as props
from rmqproto.message.compression import compressed
from rmqproto.message.message_id import UniqueIds
from rmqproto.message.sys_flag import COMPRESSED, COMPRESSION_TYPE_MASK
from rmqproto.names import DLQ_PREFIX, RETRY_PREFIX, SEND_FORBIDDEN_TOPICS, retry_topic, topic_problem
from rmqproto.wording import counted
from rmqreplay.ledger.letters import REPLAY_ID, REPLAY_ROUND, mark_of, replay_id
from rmqreplay.plans.plan import TargetRule, Transform
from rmqreplay.sending.delivery import Outgoing, Rejected, must_go_alone, too_large

DROPPED_PROPERTIES = props.MARKS_OF_USE | {REPLAY_ID}

COMPRESS_OVER_BYTES = 4 << 20
"""The largest body that brokers take by default."""

ORIGIN_TOPIC_PROPERTIES = (props.RETRY_TOPIC, props.DLQ_ORIGIN_TOPIC, props.REAL_TOPIC)


def origin_topic_of(properties: Mapping[str, str], topic: str) -> str:
    """The topic that a message was first sent to; its current ``topic`` if its properties do not say."""
    return next((properties[name] for name in ORIGIN_TOPIC_PROPERTIES if name in properties), topic)


@dataclass(frozen=True, slots=True)
class Original:
    """A message as it was read. ``body`` is as stored if ``sys_flag`` says compressed."""

    queue: MessageQueue
    queue_offset: int
    origin_topic: str
    offset_message_id: str
    properties: Mapping[str, str]
    body: bytes
    flag: int
    sys_flag: int
    corrupt: str | None = None
    store_timestamp_ms: int = 0
    message_id: str = ""
    """Its unique key; without one, its offset message id."""

    @property
    def mark(self) -> bytes:
        return mark_of(self.message_id or self.offset_message_id, self.offset_message_id, self.store_timestamp_ms)


class Redrive:
    """Turns originals into the messages to send, by the rules of one plan."""

    def __init__(self, job: str, target: TargetRule, transform: Transform):
        self._job = job
        self._target = target
        self._transform = transform
        self._topics = frozenset(target.topics) or None  # a dry run does not know them yet: it finds them
        self._unset = frozenset(transform.unset_properties)
        self._unique_ids = UniqueIds()

    def outgoing(self, original: Original) -> Outgoing | Rejected:
        """The message to send, or the reason why it is rejected."""
        place = (original.queue, original.queue_offset)
        topic = target_topic(self._target, original.origin_topic)
        if original.corrupt:
            return Rejected(place, topic, 0, damaged_at_origin(original.corrupt))
        redrives = round_of(original.properties)
        limit, park_topic = self._transform.redrives_max, self._transform.park_topic
        is_parked = limit is not None and redrives >= limit
        if is_parked and park_topic is None:
            return Rejected(place, topic, 0, f"was redriven {counted(redrives, 'time')} already")
        if is_parked and park_topic is not None:
            topic = park_topic
        elif self._target.kind == "same" and (problem := _origin_problem(original)):
            return Rejected(place, topic, 0, problem)
        if self._topics is not None and topic not in self._topics:
            return Rejected(place, topic, 0, "its target topic is not in the plan")
        if not original.body:
            return Rejected(place, topic, 0, "its body is empty, which no broker takes")
        if problem := too_large(original.body):
            return Rejected(place, topic, 0, problem)
        body, compression = original.body, original.sys_flag & (COMPRESSED | COMPRESSION_TYPE_MASK)
        if len(body) > COMPRESS_OVER_BYTES and not compression:  # it may have come to its broker compressed
            packed, bits = compressed(body)
            if len(packed) < len(body):
                body, compression = packed, bits
        properties = self._properties(original, redrives, is_parked=is_parked)
        try:
            text = props.render(properties)
        except ValueError as error:
            return Rejected(place, topic, 0, str(error))
        if len(text.encode()) > props.PROPERTIES_SIZE_MAX_BYTES:
            return Rejected(place, topic, 0, f"its properties take {len(text.encode())} bytes with the replay id")
        return Outgoing(
            replay_id=properties[REPLAY_ID], queue=original.queue, queue_offset=original.queue_offset, topic=topic,
            body=body, properties=text, flag=original.flag, sys_flag=compression,
            mark=original.mark, alone=must_go_alone(topic, properties),
        )  # fmt: skip

    def _properties(self, original: Original, redrives: int, *, is_parked: bool) -> dict[str, str]:
        """The properties to send. Parking does not count as a redrive, because nobody consumes the message."""
        transform = self._transform
        kept = {name: value for name, value in original.properties.items() if name not in DROPPED_PROPERTIES}
        kept.setdefault(props.ORIGIN_MESSAGE_ID, original.offset_message_id)
        if self._target.kind == "group" and not is_parked:
            kept[props.RETRY_TOPIC] = original.origin_topic
        if transform.new_ids or props.UNIQUE_KEY not in kept:
            kept[props.UNIQUE_KEY] = self._unique_ids.next()
        if transform.set_tag is not None:
            kept[props.TAGS] = transform.set_tag
        for name in self._unset:
            kept.pop(name, None)
        kept.update(transform.set_properties)
        if transform.delay_level and not is_parked:
            kept[props.DELAY] = str(transform.delay_level)
        kept[REPLAY_ID] = replay_id(self._job, original.queue, original.queue_offset)
        kept[REPLAY_ROUND] = str(redrives if is_parked else redrives + 1)
        return kept


def damaged_at_origin(reason: str) -> str:
    return f"damaged at its origin: {reason}"


def target_topic(target: TargetRule, origin_topic: str) -> str:
    if target.kind == "topic":
        return target.name
    return retry_topic(target.name) if target.kind == "group" else origin_topic


def parse_target(text: str, dlq_group: str | None, name_server: str | None = None) -> TargetRule:
    """The rule for a target text: ``same``, ``topic:NAME``, ``group`` (of ``--dlq``) or ``file:PATH``. UsageError for
    anything else."""
    kind, _, name = text.partition(":")
    if kind == "group" and not name:
        name = dlq_group or ""
    if kind not in ("same", "topic", "group", "file") or (kind != "same") == (not name):
        raise UsageError(
            f"--to {text} is not a target", hint="same, topic:NAME, group (with --dlq, or group:NAME) or file:PATH"
        )
    if kind == "topic":
        check_target_topic(name)
    return TargetRule(kind=kind, name=name, name_server=name_server)


def check_target_topic(topic: str) -> None:
    """UsageError for a topic to which no client may send, or whose messages would return to the source."""
    if problem := _target_problem(topic):
        raise UsageError(problem)


def _target_problem(topic: str) -> str | None:
    """The reason why nothing may be sent to the topic."""
    problem = topic_problem(topic)
    if problem is None and topic in SEND_FORBIDDEN_TOPICS:
        problem = f"Sending message to topic[{topic}] is forbidden."
    if problem is None and topic.startswith((DLQ_PREFIX, RETRY_PREFIX)):
        problem = f"{topic} belongs to a group; --to group sends to the group that failed"
    return problem


def _origin_problem(original: Original) -> str | None:
    """The reason why a message cannot be sent to its origin topic."""
    problem = _target_problem(original.origin_topic)
    if problem is not None and original.origin_topic == original.queue.topic:
        return "nothing in it says which topic it was first sent to; --to topic:NAME takes it"
    return problem


def check_transform(transform: Transform, *, at_least_once: bool = False) -> None:
    """UsageError for properties that only the broker and this job may write, and for a delay unless the user has given
    up the promise of no doubles (``at_least_once``)."""
    reserved = sorted((set(transform.set_properties) | set(transform.unset_properties)) & {REPLAY_ID, REPLAY_ROUND})
    reserved += sorted(set(transform.set_properties) & DROPPED_PROPERTIES - {REPLAY_ID})
    if reserved:
        raise UsageError(f"the property {reserved[0]} is set by the broker or this job, and by nobody else")
    if transform.delay_level and not at_least_once:
        raise UsageError(
            "a delayed message is not in its queue for a while, so that nobody can see whether it was sent",
            hint="leave out --delay-level, or add --at-least-once: after a fault some may be sent twice",
        )


def round_of(properties: Mapping[str, str]) -> int:
    """How often the message was redriven."""
    return whole_number(properties.get(REPLAY_ROUND, "")) or 0
