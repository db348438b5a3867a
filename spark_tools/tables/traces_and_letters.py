"""Tables made of a topic's messages: ``traces`` and ``deadletters``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rmqproto import trace
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import ProtocolError
from rmqproto.message import properties as props
from rmqproto.message.properties import told_causes
from rmqproto.names import DLQ_PREFIX, dlq_topic, retry_topic
from rmqproto.trace import FoundTrace, TraceStep, trace_steps
from rmqreplay.ledger.letters import Letter, Place, mark_of
from rmqreplay.sending.redrive import origin_topic_of, round_of
from spark_tools.tables.positions import Values

Read = Callable[[list[str], list[str]], Iterator[Values]]
"""Reads topics: the given columns of each message, with times in ms."""

TRACE_COLUMNS = ["bornHost", "body"]
LETTER_COLUMNS = [
    "topic", "brokerName", "queueId", "queueOffset", "msgId", "offsetMsgId", "tags", "keys", "reconsumeTimes",
    "bornTimestamp", "storeTimestamp", "properties", "body",
]  # fmt: skip
FAILURE_COLUMNS = ["msgId", "storeTimestamp"]


def trace_rows(read: Read, topics: list[str]) -> Iterator[Values]:
    """The steps of all messages: those of one message together, in the order of time. A record of an unknown form is
    left out."""
    by_id: dict[str, list[FoundTrace]] = {}
    for values in read(topics, TRACE_COLUMNS):
        try:
            records = trace.parse_trace_untrusted(values["body"])
        except ProtocolError:
            continue
        for record in records:
            by_id.setdefault(record.message_id, []).append(FoundTrace(record, values["bornHost"]))
    for found in by_id.values():
        yield from _steps(trace_steps(found))


def _steps(steps: list[TraceStep]) -> Iterator[Values]:
    sent = next((step for step in steps if step.is_sent), None)
    is_consumed = any(step.is_of_consumer and step.is_success for step in steps)
    for step in steps:
        latency_ms = None
        if sent is not None and step.is_of_consumer and None not in (step.time_ms, sent.time_ms):
            latency_ms = (step.time_ms or 0) - (sent.time_ms or 0)
        yield {
            "msgId": step.message_id, "topic": step.topic or (sent.topic if sent is not None else None),
            "kind": step.kind, "timestamp": step.time_ms, "group": step.group, "clientHost": step.host,
            "costMs": step.cost_ms, "outcome": step.outcome, "retries": step.retries, "latencyMs": latency_ms,
            "missing": step.is_success and not is_consumed if step.is_sent else None,
        }  # fmt: skip


def letter_rows(read: Read, group: str, sent: Callable[[dict[Place, Letter]], set[Place]] | None) -> Iterator[Values]:
    """A group's dead letters. ``sent`` tells which of them a redrive has sent since; None if no ledger is known."""
    first_failures: dict[str, int] = {}
    for values in read([retry_topic(group)], FAILURE_COLUMNS):
        name, at_ms = values["msgId"], values["storeTimestamp"]
        first_failures[name] = min(first_failures.get(name, at_ms), at_ms)
    letters = [values | {"bodySize": len(values.pop("body"))} for values in read([dlq_topic(group)], LETTER_COLUMNS)]
    redriven = None if sent is None else sent({_place(values): _letter(values) for values in letters})
    for values in letters:
        found, place = values["properties"], _place(values)
        redrives = round_of(found)
        yield values | {
            "group": values["topic"].removeprefix(DLQ_PREFIX),
            "originTopic": origin_topic_of(found, values["topic"]),
            "originMsgId": found.get(props.ORIGIN_MESSAGE_ID),
            "cause": next(iter(told_causes(found).values()), None),
            "redrives": redrives,
            "again": redrives > 0,
            "redriven": None if redriven is None else place in redriven,
            "firstFailureTimestamp": first_failures.get(values["msgId"], values["storeTimestamp"]),
        }


def _place(values: Values) -> Place:
    return MessageQueue(values["topic"], values["brokerName"], values["queueId"]), values["queueOffset"]


def _letter(values: Values) -> Letter:
    at_ms = values["storeTimestamp"]
    return Letter(mark_of(values["msgId"], values["offsetMsgId"], at_ms), values["offsetMsgId"], at_ms)


def in_ms(rows: Iterable[dict[str, Any]]) -> Iterator[Values]:
    """Rows of record batches with times in ms, and maps as dictionaries."""
    for row in rows:
        for name, value in row.items():
            if name.endswith("Timestamp") and value is not None:
                row[name] = round(value.timestamp() * 1000)
            elif name == "properties":
                row[name] = dict(value or ())
        yield row
