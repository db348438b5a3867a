"""``cloneGroupOffset``: one group goes to where another stands.

It is a reset like any other: shown first, undone with the file it leaves, read back. mqadmin passes over ``-t`` and
copies the offsets of all topics, the other group's retry topic too, to whoever is online there.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from rmqadmin import reset
from rmqadmin.call import Call
from rmqadmin.commands.offset import Resets, act_on
from rmqadmin.options import Topic
from rmqadmin.output import Format
from rmqproto.bodies import MessageQueue, TopicOffset
from rmqproto.errors import NotFoundError


class Cloned(Resets, frozen=True):
    """Each queue of the group that is moved, before and after."""

    source_group: str = ""

    def mqadmin_text(self) -> str | None:
        if not any(one.done for one in self.queues):
            return None
        return (
            f"clone group offset success. srcGroup[{self.source_group}], destGroup=[{self.group}], topic[{self.topic}]"
        )


def clone_group_offset(
    call: Call,
    src_group: Annotated[str, typer.Option("-s", "--srcGroup", metavar="GROUP", help="The group that stands there.")],
    dest_group: Annotated[str, typer.Option("-d", "--destGroup", metavar="GROUP", help="The group that is moved.")],
    topic: Topic,
    offline: Annotated[str | None, typer.Option("-o", "--offline", help="Without effect, as in mqadmin.")] = None,
) -> Cloned:
    """In this topic only; queues in which the first group has no offset stay as they are. Offsets whose messages are
    gone become the beginning of the queue.

    Examples:
      rmqadmin cloneGroupOffset -s OrderGroup -d OtherGroup -t OrderTopic --dry-run
      rmqadmin cloneGroupOffset -s OrderGroup -d OtherGroup -t OrderTopic --yes
    """
    source, target, topic = src_group.strip(), dest_group.strip(), topic.strip()
    admin = call.admin

    def stands_at(addr: str, queue: MessageQueue, ends: TopicOffset) -> int | None:
        found = admin.consumer_offset(addr, source, topic, queue.queue_id)
        return None if found is None else min(max(found, ends.min_offset), ends.max_offset)

    planned = reset.plan(admin, admin.topic_route(topic), target, topic, stands_at)
    if all(one.new_offset is None for one in planned) and call.format is not Format.MQADMIN:
        raise NotFoundError(
            f"the group {source} has no offset in the topic {topic}",
            hint=f"`rmqadmin consumerProgress -g {source}` shows where it has.",
        )
    result = Cloned(target, topic, planned, source_group=source)
    moved = act_on(call, result, f"to where {source} stands", None)
    return msgspec.structs.replace(result, queues=moved.queues, undo_file=moved.undo_file)
