"""Tag expressions, ``*`` or ``TagA || TagB``, and their matching (``FilterAPI`` and ``SubscriptionData``, 5.5.0).

A broker compares the hashes in its consume queues, so it may deliver a message whose tag only has the same hash as a
wanted one. The client compares the tags themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

from rmqproto.bodies.groups import SubscriptionData
from rmqproto.java.java_hash import tag_code

ALL = "*"
TAG = "TAG"
SQL92 = "SQL92"
TAG_SEPARATOR = "||"


@dataclass(frozen=True, slots=True)
class Sql92:
    """An expression over properties, for a broker to evaluate: ``Sql92("a > 5 AND b = 'x'")``."""

    text: str


@dataclass(frozen=True, slots=True)
class TagFilter:
    """``tags`` is None if everything matches. Empty ``tags`` (from an expression of separators only) match nothing.
    ``codes`` are the hashes of ``tags``, by which a broker filters: some other tags have them, too."""

    tags: frozenset[str] | None
    codes: frozenset[int]

    def matches(self, tags: str | None) -> bool:
        """For clients, by the message's TAGS."""
        return self.tags is None or tags in self.tags


EVERYTHING = TagFilter(None, frozenset())


def parse_tags(expression: str | None) -> TagFilter:
    """The filter of an expression. It never fails: None, an empty expression and ``*`` match everything."""
    if not expression or expression == ALL:
        return EVERYTHING
    tags = frozenset(tag for part in expression.split(TAG_SEPARATOR) if (tag := part.strip()))
    return TagFilter(tags, frozenset(map(tag_code, tags)))


def subscription_data(topic: str, expression: str, *, version: int, expression_type: str = TAG) -> SubscriptionData:
    """A consumer's subscription to one topic, for heartbeats. ``version`` has to grow when the expression changes;
    Apache's clients use the time in ms."""
    if expression_type != TAG:
        return SubscriptionData(
            topic=topic,
            sub_string=expression,
            sub_version=version,
            expression_type=expression_type,
            tags_set=[],
            code_set=[],
        )
    wanted = parse_tags(expression)
    tags = sorted(wanted.tags or ())
    return SubscriptionData(
        topic=topic,
        sub_string=ALL if wanted.tags is None else expression,
        sub_version=version,
        tags_set=tags,
        code_set=[tag_code(tag) for tag in tags],
    )
