"""``cloneGroupOffset``: moves one group to the offsets of another.

It is a reset like any other: shown first, read back, and undone with the file it writes. mqadmin ignores ``-t`` and
copies the offsets of all topics, including the other group's retry topic, to the online clients.
"""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import Topic
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core.offsets import reset
from rmqadmin.core.offsets.reset_plan import Resets, act, say_if_unknown
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.statistics import TopicOffset
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
    src_group: Annotated[
        str, Value.GROUP, typer.Option("-s", "--srcGroup", metavar="GROUP", help="The group whose offsets are taken.")
    ],
    dest_group: Annotated[
        str, Value.GROUP, typer.Option("-d", "--destGroup", metavar="GROUP", help="The group that is moved.")
    ],
    topic: Topic,
    offline: Annotated[str | None, typer.Option("-o", "--offline", help="Has no effect, as in mqadmin.")] = None,
) -> Cloned:
    """Moves the group in this topic only. Queues where the other group has no offset stay as they are. If the message
    at an offset is gone, the group goes to the beginning of the queue.

    Examples:
      rmqadmin cloneGroupOffset -s OrderGroup -d OtherGroup -t OrderTopic --dry-run
      rmqadmin cloneGroupOffset -s OrderGroup -d OtherGroup -t OrderTopic --yes
    """
    source, target, topic = src_group.strip(), dest_group.strip(), topic.strip()
    admin = call.admin

    def stands_at(addr: str, queue: MessageQueue, ends: TopicOffset, _old_offset: int | None) -> int | None:
        found = admin.consumer_offset(addr, source, topic, queue.queue_id)
        return None if found is None else reset.within(ends, found)

    planned = reset.plan(admin, admin.topic_route(topic), target, topic, stands_at)
    if all(one.new_offset is None for one in planned) and not call.as_mqadmin:
        raise NotFoundError(
            f"the group {source} has no offset in the topic {topic}",
            hint=f"`rmqadmin consumerProgress -g {source}` shows where it has some.",
        )
    say_if_unknown(admin, target, planned, call.notice)
    result = Cloned(target, topic, planned, source_group=source)
    return call.ask_and_act(
        result,
        result.question(f"to where {source} stands"),
        target,
        lambda: act(admin, result, None, call.now_ms(), call.notice),
    )
