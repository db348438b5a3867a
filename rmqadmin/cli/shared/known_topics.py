"""The topics that name servers know, as commands list them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from rmqadmin.cli.call import Call
from rmqadmin.core.results import Result, Row, doc
from rmqproto.names import RETRY_PREFIX


class TopicName(Row, frozen=True):
    topic: Annotated[str, doc("topic name", key=True)]


class Topics(Result, frozen=True):
    """Without -c: the topics of the name server."""

    row_type: ClassVar[type[Row]] = TopicName
    topics: list[str]

    def rows(self) -> Sequence[TopicName]:
        return [TopicName(topic=topic) for topic in sorted(self.topics)]

    def mqadmin_text(self) -> str:
        return "".join(f"{topic}\n" for topic in sorted(self.topics))


def known_topics(call: Call) -> list[str]:
    """All topics. Remembers them, and the groups that have retry topics, for completion. A notice if there is no
    broker."""
    topics = call.admin.topic_list()
    if not topics:
        call.notice_if_no_broker()
    call.remember("topic", topics)
    call.remember("group", (topic[len(RETRY_PREFIX) :] for topic in topics if topic.startswith(RETRY_PREFIX)))
    return topics
