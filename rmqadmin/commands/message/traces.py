"""``queryMsgTraceById``: shows what tracing clients reported about a message."""

from collections.abc import Sequence
from typing import Annotated

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.common_options import Value, option
from rmqadmin.cli.options.message_options import Begin, EndBefore
from rmqadmin.core.messages.lookup import TRACE_COUNT, find_traces
from rmqadmin.core.mqadmin_text import java_text
from rmqadmin.core.results import TIME, ResultOf, Row, doc, row_of
from rmqadmin.core.targets import find_route
from rmqproto import trace
from rmqproto.errors import NotFoundError
from rmqproto.names import TRACE_TOPIC
from rmqproto.times import mqadmin_time, time_range
from rmqproto.trace import FoundTrace, trace_steps


class TraceRow(Row, frozen=True):
    kind: Annotated[str, doc("sent, delivered (and no outcome yet), consumed, transaction or recalled")]
    time_ms: Annotated[int | None, TIME, doc("when it began, by the client's clock", key=True)]
    group: Annotated[str | None, doc("producer or consumer group", key=True)]
    client_host: Annotated[str, doc("address of the client")]
    cost_ms: Annotated[int | None, doc("how long it took, in ms")]
    outcome: Annotated[str, doc("success, or what went wrong; which retry it was")]


class MessageTrace(ResultOf[TraceRow], frozen=True):
    """What clients did with a message, in the order of time."""

    found: list[FoundTrace]

    def rows(self) -> Sequence[TraceRow]:
        return [row_of(TraceRow, step, client_host=step.host) for step in trace_steps(self.found)]

    def mqadmin_text(self) -> str:
        """Only sent and consumed messages. A consumer that wrote a record before consuming, but none after, is left
        out."""
        text = ""
        consumed: dict[str, list[FoundTrace]] = {}
        for one in self.found:
            if one.record.kind == trace.PUBLISHED:
                text += _line("#Type", "#ProducerGroup", "#ClientHost", "#SendTime", "#CostTimes", "#Status")
                text += f"{_trace_line('Pub', one)}\n"
            elif one.record.kind == trace.CONSUMED:
                consumed.setdefault(java_text(one.record.group), []).append(one)
        for group in sorted(consumed):
            text += _line("#Type", "#ConsumerGroup", "#ClientHost", "#ConsumerTime", "#CostTimes", "#Status")
            text += "".join(_trace_line("Sub", one) for one in consumed[group]) + "\n"
        return text


def _trace_line(kind: str, one: FoundTrace) -> str:
    record, ip = one.record, one.host.rpartition(":")[0].strip("[]")
    began = mqadmin_time(record.time_ms or 0, milliseconds=False)
    status = "success" if record.success else "failed"
    return _line(kind, java_text(record.group), ip, began, f"{record.cost_ms or 0}ms", status)


def _line(*cells: str) -> str:
    return "{:10} {:20} {:20} {:20} {:10} {:10}\n".format(*cells)


def query_msg_trace_by_id(
    call: Call,
    msg_id: Annotated[str, Value.ID, option("-i", "--msgId", "Unique key of the message.")],
    trace_topic: Annotated[
        str, Value.TOPIC, option("-t", "--traceTopic", "Topic of the clients' traces.")
    ] = TRACE_TOPIC,
    begin_timestamp: Begin = None,
    end_timestamp: EndBefore = None,
    max_num: Annotated[int, option("-c", "--maxNum", "Trace messages to read from each broker.", min=1)] = TRACE_COUNT,
) -> MessageTrace:
    """Clients trace only if configured to. mqadmin shows what was sent and consumed; here deliveries without an
    outcome, ends of transactions and recalls have rows too.

      rmqadmin queryMsgTraceById -i 7F000001041D4E0E2F2A69B4378A0009
      rmqadmin -o json queryMsgTraceById -i 7F000001041D4E0E2F2A69B4378A0009 -b -1h
    """
    between = time_range(begin_timestamp, end_timestamp, call.now_ms(), "-b/--since", "-e/--until", tell=call.notice)
    route = find_route(call.admin, trace_topic)
    if route is None:
        raise NotFoundError(
            f"there is no topic {trace_topic}, into which clients could write traces",
            hint="With traceTopicEnable=true, a broker creates it at its start; -t names another topic.",
        )
    brokers = route.broker_datas
    found = find_traces(
        call.admin, brokers, trace_topic, msg_id, max_count=max_num, within=between, answers=call.answers
    )
    if not found:
        within = "" if between.begin_ms is between.end_ms is None else " in this window"
        raise NotFoundError(
            f"no trace of the message {msg_id} was found in {trace_topic}{within}",
            hint="Clients trace only if configured to, perhaps to another topic (-t). The id must be the unique "
            "key, not the offset id.",
        )
    return MessageTrace(found)
