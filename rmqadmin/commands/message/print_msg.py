"""``printMsg``: shows all messages of a topic, optionally only between two times."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import Topic, TrueFalse
from rmqadmin.cli.options.message_options import Begin, Charset, EndBefore, Expression, PrintBody, ReadExtent, Sql92
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core.messages.message_rows import checked_charset
from rmqadmin.core.messages.message_source import QueueReader
from rmqadmin.core.messages.queue_reading import all_queues, places_of, readable_queues, sql92_filter
from rmqadmin.core.messages.read_messages import BodyView, ReadMessages, read_places
from rmqadmin.core.messages.sieve import Sieve
from rmqproto.times import time_range


def print_msg(
    call: Call,
    topic: Topic,
    extent: ReadExtent,
    charset_name: Charset = "UTF-8",
    sub_expression: Expression = "*",
    begin_timestamp: Begin = None,
    end_timestamp: EndBefore = None,
    print_body: PrintBody = TrueFalse.TRUE,
    lmq_parent_topic: Annotated[
        str | None,
        Value.TOPIC,
        typer.Option("-l", "--lmqParentTopic", metavar="TOPIC", help="Look up this topic's route (LMQ parent)."),
    ] = None,
    sql92: Sql92 = None,
) -> ReadMessages:
    """Reads queue after queue, or in order of time with --tail and --follow. Nothing is consumed: no offset moves.

    Examples:
      rmqadmin printMsg -t OrderTopic
      rmqadmin printMsg -t OrderTopic -s 'paid || shipped' -b -1h..now -d false
      rmqadmin printMsg -t OrderTopic --tail 20
      rmqadmin -o jsonl printMsg -t OrderTopic --follow --limit 100
      rmqadmin printMsg -t OrderTopic --sql92 "price > 100 AND region IN ('eu', 'us')"
    """
    accepts = sql92_filter(sql92)
    view = BodyView(checked_charset("-c", charset_name.strip()), print_body is TrueFalse.TRUE)
    between = time_range(begin_timestamp, end_timestamp, call.now_ms(), "-b/--since", "-e/--until", tell=call.notice)
    extent.check(between)
    route = call.admin.topic_route((lmq_parent_topic or topic).strip())
    if call.as_mqadmin:
        queues = readable_queues(route, topic.strip())
    else:
        queues = all_queues(call.admin, route, topic.strip(), call.notice)
    places = places_of(call.admin, queues, between, call.answers)
    expression = sub_expression.strip()
    if call.as_mqadmin:
        limit = extent.checked_for_mqadmin()
        reads = read_places(call.admin, places, expression, limit, call.notice, accepts=accepts)
        return ReadMessages(reads, view)
    reader = QueueReader(call.admin, expression, Sieve.by_properties(accepts), call.notice)
    return ReadMessages([], view, extent.source(reader, places, between))
