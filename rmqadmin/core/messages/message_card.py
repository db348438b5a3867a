"""One stored message for a person to read: one line per field, then the body, formatted by its kind."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from rmqadmin.core import units
from rmqadmin.core.messages.body_text import body_kind, lines_by_kind
from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.terminal_text import printable
from rmqproto.message import properties as props
from rmqproto.message.record import host_text
from rmqproto.times import iso_local
from rmqproto.wording import counted

TERMINAL_LINES_MAX = 200
"""The most lines of a body shown on a terminal. One option shows the whole body."""

_LABEL_WIDTH = 11
_WITH_FIELDS_OF_THEIR_OWN = frozenset({props.TAGS, props.KEYS, props.UNIQUE_KEY})


def message_card(message: FoundMessage, head: str, *, now_ms: int | None, is_whole: bool) -> Iterator[str]:
    """Lines that end with a line feed. ``head`` comes first. ``now_ms``: what ages are relative to, None to show only
    points in time. ``is_whole``: the body to its end."""
    body = message.stored.body
    packed = f", compressed still ({message.packed})" if message.packed else ""
    yield printable(head) + "\n"
    for label, value in _fields(message, now_ms):
        yield f"  {label:{_LABEL_WIDTH}} {printable(value)}\n"
    yield f"  {'body':{_LABEL_WIDTH}} {body_kind(body).value}, {units.count(len(body))} bytes{packed}\n"
    lines = lines_by_kind(body)
    yield from (line + "\n" for line in (lines if is_whole else islice(lines, TERMINAL_LINES_MAX)))
    left_count = sum(1 for _ in lines)
    if left_count:
        yield f"({units.count(left_count)} more lines; --body-only writes the whole body)\n"


def _fields(message: FoundMessage, now_ms: int | None) -> Iterator[tuple[str, str]]:
    stored, found = message.stored, message.properties
    yield "topic", stored.topic
    yield (
        "place",
        (
            f"{message.broker_name}, queue {stored.queue_id}, queue offset {stored.queue_offset}, "
            f"commit log offset {stored.log_offset}"
        ),
    )
    yield "offset id", stored.message_id
    for label, name in (("unique key", props.UNIQUE_KEY), ("tag", props.TAGS), ("keys", props.KEYS)):
        if name in found:
            yield label, found[name]
    yield "born", f"{_moment(stored.born_timestamp_ms, now_ms)}, at {host_text(stored.born_host)}"
    yield "stored", f"{_moment(stored.store_timestamp_ms, now_ms)}, at {host_text(stored.store_host)}"
    if stored.reconsume_times:
        yield "came back", counted(stored.reconsume_times, "time")
    if stored.flag:
        yield "flag", str(stored.flag)
    if stored.sys_flag:
        yield "sysFlag", f"{stored.sys_flag:#x}"
    label = "properties"
    for name, value in found.items():
        if name not in _WITH_FIELDS_OF_THEIR_OWN:
            yield label, f"{name}={value}"
            label = ""


def _moment(timestamp_ms: int, now_ms: int | None) -> str:
    moment = iso_local(timestamp_ms)
    return moment if now_ms is None else f"{moment} ({units.age(timestamp_ms, now_ms)})"
