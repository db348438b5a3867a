"""``queryMsgByUniqueKey``: shows the messages that share a unique key, because a producer or a retry sent one again."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import Topic
from rmqadmin.cli.options.message_options import IndexCluster, PushClient, PushGroup
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core.messages import lookup
from rmqadmin.core.messages.direct_push import Pushed, push
from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.messages.message_results import Messages, mqadmin_block, show
from rmqadmin.core.topics.routes import topic_brokers
from rmqproto.java.java_numbers import LONG_MAX
from rmqproto.times import TimeRange, time_range


class UniqueMessages(Messages, frozen=True):
    """Messages with what became of them."""

    def mqadmin_text(self) -> str:
        return "".join(
            mqadmin_block(one, index=index, with_offset_id=False, track_end="") for index, one in enumerate(self.shown)
        )


def query_msg_by_unique_key(
    call: Call,
    topic: Topic,
    msg_id: Annotated[
        str, Value.ID, typer.Option("-i", "--msgId", metavar="ID", help="Unique key, made by the producer.")
    ],
    consumer_group: PushGroup = None,
    client_id: PushClient = None,
    show_all: Annotated[
        bool, typer.Option("-a", "--showAll", help=f"Show all of them, up to {lookup.UNIQUE_KEY_COUNT} a broker.")
    ] = False,
    cluster: IndexCluster = None,
    start_time: Annotated[
        str | None,
        Value.NUMBER,
        typer.Option(
            "-s",
            "--since",
            "--startTime",
            metavar="TIME",
            help="Stored at or after (1h: an hour ago); or a range A..B.",
        ),
    ] = None,
    end_time: Annotated[
        str | None,
        Value.NUMBER,
        typer.Option("-e", "--until", "--endTime", metavar="TIME", help="Stored at or before."),
    ] = None,
) -> UniqueMessages | Pushed:
    """Shows the oldest message with the key, or all of them with -a.

    Examples:
      rmqadmin queryMsgByUniqueKey -t OrderTopic -i 7F000001041D4E0E2F2A69B4378A0009
      rmqadmin queryMsgByUniqueKey -t OrderTopic -i 7F000001041D4E0E2F2A69B4378A0009 -a -s -1h..now --output wide
    """
    topic, unique_key = topic.strip(), msg_id.strip()
    between = time_range(start_time, end_time, call.now_ms(), "-s/--since", "-e/--until", tell=call.notice)
    brokers = topic_brokers(call.admin, topic, cluster)

    def look_up(within: TimeRange) -> list[FoundMessage]:
        return lookup.by_unique_key(
            call.admin,
            brokers,
            topic,
            unique_key,
            begin_ms=within.begin_ms or 0,
            end_ms=LONG_MAX if within.end_ms is None else within.end_ms,
            answers=call.answers,
        )

    found = look_up(between)
    if not found:
        what = f"the unique key {unique_key}"
        raise lookup.nothing_found(topic, what, between, lambda: look_up(TimeRange(None, None)))
    wanted = found if show_all else found[:1]
    if consumer_group is not None and client_id is not None:
        return push(call.admin, wanted, consumer_group.strip(), client_id.strip(), dry_run=call.dry_run)
    return UniqueMessages(show(call.admin, wanted, None, call.notice, leave_files=call.as_mqadmin))
