"""Options that several commands about messages share, in mqadmin's spelling."""

from collections.abc import Sequence
from itertools import chain
from typing import Annotated, Any

import msgspec
import typer

from rmqadmin.cli.options.command_options import LONG, Texts, TrueFalse, pairs
from rmqadmin.cli.options.common_options import OptionGroup
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core.messages.message_source import MessageSource, QueueReader, following, newest, queue_after_queue
from rmqadmin.core.messages.queue_reading import READ_COUNT_DEFAULT, QueuePlace, sql92_filter
from rmqproto.errors import UsageError
from rmqproto.filters.json_path import split_path_text
from rmqproto.filters.subscription import ALL, TAG_SEPARATOR, parse_tags
from rmqproto.times import Tell, TimeRange, time_range

Begin = Annotated[
    str | None,
    Value.TIME,
    typer.Option("-b", "--since", "--beginTimestamp", help="Stored at or after (1h: an hour ago); or a range A..B."),
]
EndBefore = Annotated[str | None, Value.TIME, typer.Option("-e", "--until", "--endTimestamp", help="Stored before.")]
StoredSince = Annotated[
    str | None,
    Value.TIME,
    typer.Option("--from", "--since", help="Stored at or after (1h: an hour ago); or a range A..B."),
]
EndAtOrBefore = Annotated[
    str | None, Value.TIME, typer.Option("-e", "--until", "--endTimestamp", help="Stored at or before.")
]
QueueId = Annotated[int, Value.QUEUE, typer.Option("-i", "--queueId", min=0, help="Queue id.")]
IndexCluster = Annotated[
    str | None,
    Value.NAME,
    typer.Option("-c", "--cluster", help="Brokers of this cluster only, or an LMQ parent topic."),
]
PrintBody = Annotated[TrueFalse, typer.Option("-d", "--printBody", case_sensitive=False, help="Show the bodies too.")]
BodyFormat = Annotated[
    str | None, Value.CHOICE, typer.Option("-f", "--bodyFormat", metavar="CHARSET", help="Charset of the body.")
]
PushGroup = Annotated[
    str | None, Value.GROUP, typer.Option("-g", "--consumerGroup", help="With -d: push it to a consumer.")
]
PushClient = Annotated[str | None, Value.CLIENT, typer.Option("-d", "--clientId", help="With -g: the consumer.")]


MessageKeys = Annotated[str | None, typer.Option("-k", "--key", metavar="KEYS", help="Keys, separated by spaces.")]


MessageTag = Annotated[str | None, Value.NAME, typer.Option("-c", "--tags", metavar="TAG", help="Tag.")]


Charset = Annotated[
    str, Value.CHOICE, typer.Option("-c", "--charsetName", metavar="CHARSET", help="Charset of the bodies.")
]


Expression = Annotated[
    str, typer.Option("-s", "--subExpression", metavar="TAGS", help="Only these tags: TagA || TagB.")
]


Sql92 = Annotated[
    str | None,
    typer.Option("--sql92", metavar="EXPR", help="Only if the properties satisfy this: price > 5 AND kind = 'x'."),
]


class ConditionOptions(OptionGroup, frozen=True):
    """Which messages to select, for all commands that select some. All conditions must hold."""

    tag: Annotated[str, typer.Option("--tag", metavar="EXPR", help="Tags: 'a || b'.")] = ALL
    keys: Annotated[Texts, typer.Option("--key", metavar="KEY", help="With this key. Repeatable: with all.")] = None
    properties: Annotated[
        Texts, typer.Option("--property", metavar="K=V", help="With this property. Repeatable: with all.")
    ] = None
    jsonpath: Annotated[
        Texts,
        typer.Option(
            "--jsonpath", metavar="PATH=TEXT", help="With this value in the body: '$.order.id=42'. Repeatable."
        ),
    ] = None
    grep: Annotated[
        str | None, typer.Option("--grep", metavar="REGEX", help="Whose body text matches this: (?i)timeout.*ms")
    ] = None
    sql92: Sql92 = None

    def as_conditions(self) -> dict[str, Any]:
        """The options as fields of ``MessageConditions``. UsageError for an invalid condition."""
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


StopAfter = Annotated[int | None, LONG, typer.Option("--limit", metavar="N", min=1, help="Stop after N messages.")]
Rate = Annotated[float | None, typer.Option("--rate", metavar="N", min=0.1, help="Messages a second.")]
Tail = Annotated[
    int | None,
    typer.Option("--tail", metavar="N", min=1, max=READ_COUNT_DEFAULT, help="The newest N, in order of time."),
]
Follow = Annotated[
    bool,
    typer.Option("--follow", help=f"Keep reading new messages until Ctrl-C; alone, after the newest {TAIL_DEFAULT}."),
]


class WindowOptions(OptionGroup, frozen=True):
    """Which part of a topic."""

    start: StoredSince = None
    end: Annotated[str | None, Value.TIME, typer.Option("--to", "--until", help="Stored before.")] = None
    queues: Annotated[
        Texts,
        Value.NAME,
        typer.Option("--queue", metavar="[BROKER:]QUEUE", help="This queue only. Repeatable: any of them."),
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
        typer.Option("--limit", metavar="N", min=1, help=f"Stop after N messages; default: {READ_COUNT_DEFAULT}."),
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
