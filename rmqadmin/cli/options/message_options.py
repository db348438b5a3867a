"""Options that several commands about messages share, in mqadmin's spelling."""

from collections.abc import Sequence
from itertools import chain
from typing import Annotated, Any

import msgspec

from rmqadmin.cli.options.command_options import LONG, Texts, TrueFalse, pairs
from rmqadmin.cli.options.common_options import OptionGroup, Value, option
from rmqadmin.core.messages.message_source import MessageSource, QueueReader, following, newest, queue_after_queue
from rmqadmin.core.messages.queue_reading import READ_COUNT_DEFAULT, QueuePlace, sql92_filter
from rmqproto.errors import UsageError
from rmqproto.filters.message_conditions import split_path_text
from rmqproto.filters.subscription import ALL, TAG_SEPARATOR, parse_tags
from rmqproto.times import Tell, TimeRange, time_range

Begin = Annotated[
    str | None,
    Value.TIME,
    option("-b", "--since", "--beginTimestamp", "Stored at or after (1h: an hour ago); or a range A..B."),
]
EndBefore = Annotated[str | None, Value.TIME, option("-e", "--until", "--endTimestamp", "Stored before.")]
StoredSince = Annotated[
    str | None, Value.TIME, option("--from", "--since", "Stored at or after (1h: an hour ago); or a range A..B.")
]
EndAtOrBefore = Annotated[str | None, Value.TIME, option("-e", "--until", "--endTimestamp", "Stored at or before.")]
QueueId = Annotated[int, Value.QUEUE, option("-i", "--queueId", "Queue id.", min=0)]
IndexCluster = Annotated[
    str | None, Value.NAME, option("-c", "--cluster", "Brokers of this cluster only, or an LMQ parent topic.")
]
PrintBody = Annotated[TrueFalse, option("-d", "--printBody", "Show the bodies too.")]
BodyFormat = Annotated[
    str | None, Value.CHOICE, option("-f", "--bodyFormat", "Charset of the body.", metavar="CHARSET")
]
PushGroup = Annotated[str | None, Value.GROUP, option("-g", "--consumerGroup", "With -d: push it to a consumer.")]
PushClient = Annotated[str | None, Value.CLIENT, option("-d", "--clientId", "With -g: the consumer.")]


MessageKeys = Annotated[str | None, option("-k", "--key", "Keys, separated by spaces.", metavar="KEYS")]


MessageTag = Annotated[str | None, Value.NAME, option("-c", "--tags", "Tag.", metavar="TAG")]


Charset = Annotated[str, Value.CHOICE, option("-c", "--charsetName", "Charset of the bodies.", metavar="CHARSET")]


Expression = Annotated[str, option("-s", "--subExpression", "Only these tags: TagA || TagB.", metavar="TAGS")]


Sql92 = Annotated[
    str | None, option("--sql92", "Only if the properties satisfy this: price > 5 AND kind = 'x'.", metavar="EXPR")
]


class ConditionOptions(OptionGroup, frozen=True):
    """Which messages to select, for all commands that select some. All conditions must hold."""

    tag: Annotated[str, option("--tag", "Tags: 'a || b'.", metavar="EXPR")] = ALL
    keys: Annotated[Texts, option("--key", "With this key. Repeatable: with all.", metavar="KEY")] = None
    properties: Annotated[Texts, option("--property", "With this property. Repeatable: with all.", metavar="K=V")] = (
        None
    )
    jsonpath: Annotated[
        Texts, option("--jsonpath", "With this value in the body: '$.order.id=42'. Repeatable.", metavar="PATH=TEXT")
    ] = None
    grep: Annotated[str | None, option("--grep", "Whose body text matches this: (?i)timeout.*ms", metavar="REGEX")] = (
        None
    )
    sql92: Sql92 = None

    def as_conditions(self) -> dict[str, Any]:
        """The options as fields of ``MessageConditions``. UsageError for an invalid condition."""
        texts = (self.tag, self.grep, *(self.keys or ()), *(self.properties or ()), *(self.jsonpath or ()))
        " ".join(text or "" for text in texts).encode()  # what is not UTF-8 is no part of any text: UnicodeEncodeError
        sql92_filter(self.sql92)
        if parse_tags(self.tag.strip() or TAG_SEPARATOR).tags == frozenset():
            raise UsageError(f"--tag {self.tag!r} names no tag", hint=f"--tag '{ALL}' takes all messages")
        return {
            "tags": self.tag,
            "keys": self.keys or [],
            "properties": pairs("--property", self.properties, is_condition=True),
            "json_values": pairs("--jsonpath", self.jsonpath, split_path_text, is_condition=True) or msgspec.UNSET,
            "body_pattern": self.grep or msgspec.UNSET,
            "sql92": self.sql92,
        }


TAIL_DEFAULT = 10
"""What ``--follow`` alone begins with, like ``tail -f``."""


StopAfter = Annotated[int | None, LONG, option("--limit", "Stop after N messages.", metavar="N", min=1)]
Rate = Annotated[float | None, option("--rate", "Messages a second.", metavar="N", min=0.1)]
Tail = Annotated[
    int | None, option("--tail", "The newest N, in order of time.", metavar="N", min=1, max=READ_COUNT_DEFAULT)
]
Follow = Annotated[
    bool, option("--follow", f"Keep reading new messages until Ctrl-C; alone, after the newest {TAIL_DEFAULT}.")
]


class WindowOptions(OptionGroup, frozen=True):
    """Which part of a topic."""

    start: StoredSince = None
    end: Annotated[str | None, Value.TIME, option("--to", "--until", "Stored before.")] = None
    queues: Annotated[
        Texts, Value.NAME, option("--queue", "This queue only. Repeatable: any of them.", metavar="[BROKER:]QUEUE")
    ] = None

    @property
    def is_given(self) -> bool:
        """Whether a part was chosen."""
        return bool(self.start or self.end or self.queues)

    def between(self, now_ms: int, tell: Tell) -> TimeRange:
        """The range, as of ``time_range``."""
        return time_range(self.start, self.end, now_ms, "--from/--since", "--to/--until", tell=tell)


def check_follow(between: TimeRange, *, follow: bool) -> None:
    """UsageError for ``--follow`` of a range with an end: it would wait for what can never come."""
    if follow and between.end_ms is not None:
        raise UsageError("--follow has no end", hint="Leave out --to, or the end of the range.")


class ReadExtent(OptionGroup, frozen=True):
    """How much to read."""

    limit: Annotated[
        int | None,
        LONG,
        option("--limit", f"Stop after N messages; default: {READ_COUNT_DEFAULT}.", metavar="N", min=1),
    ] = None
    tail: Tail = None
    follow: Follow = False

    def check(self, between: TimeRange) -> None:
        """UsageError for what cannot be asked for together."""
        check_follow(between, follow=self.follow)

    def source(self, reader: QueueReader, places: Sequence[QueuePlace], between: TimeRange) -> MessageSource:
        """The messages of ``places``, which are those of ``between``, that these options choose."""
        has_begin = between.begin_ms is not None
        limit = self.limit if self.follow else self.limit or READ_COUNT_DEFAULT
        tail = TAIL_DEFAULT if self.follow and self.tail is None and not has_begin else self.tail
        first = queue_after_queue(reader, places) if tail is None else iter([newest(reader, places, tail)])
        batches = chain(first, following(reader, places)) if self.follow else first
        return MessageSource(batches, limit, is_endless=self.follow)

    def checked_for_mqadmin(self) -> int:
        """The limit. UsageError for options that mqadmin's text cannot show, because it goes queue after queue."""
        if self.tail is not None or self.follow:
            raise UsageError("mqadmin's text has no --tail and no --follow", hint="Choose another --output.")
        return self.limit or READ_COUNT_DEFAULT
