"""Conditions that select stored messages by times, tags, keys, ids, properties and bodies, compiled once. Every command
that selects messages uses them, with Spark and without."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from rmqproto.errors import UsageError
from rmqproto.filters.subscription import ALL, parse_tags
from rmqproto.message import properties as props
from rmqproto.message.record import StoredMessage

TakesMessage = Callable[[StoredMessage, Mapping[str, str]], bool]
"""Decides by a message and its properties, which the caller has parsed already. ProtocolError if a condition needs the
body and it cannot be decompressed."""


class MessageConditions(msgspec.Struct, frozen=True, kw_only=True):
    """All must hold. Times are ms since the epoch, by the broker's clock; the end is not included. ``tags`` is an
    expression (``a || b``), ``keys`` must all be present. ``ids`` are unique keys or offset ids, and one must be the
    message's."""

    start_time_ms: int | None = None
    end_time_ms: int | None = None
    tags: str = ALL
    keys: list[str] = []
    properties: dict[str, str] = {}
    reconsume_times_min: int = 0
    ids: list[str] = []
    sql92: str | None = None
    json_values: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    """JSON path (``parse_path``) -> the text required there in the body. If unset it is not part of a plan's
    identity, so that plans older than this field keep theirs."""
    body_pattern: str | msgspec.UnsetType = msgspec.UNSET
    """A regular expression that must be found in the body's text. It may be unset, as ``json_values``."""


def compile_conditions(conditions: MessageConditions) -> TakesMessage:
    """UsageError for an invalid JSON path or regular expression, Sql92Error for an expression that does not compile.
    The most expensive conditions are checked last."""
    tags = parse_tags(conditions.tags)
    ids = frozenset(conditions.ids)
    keys = frozenset(conditions.keys)
    start_ms = conditions.start_time_ms if conditions.start_time_ms is not None else -1 << 63
    end_ms = conditions.end_time_ms if conditions.end_time_ms is not None else 1 << 63
    accepts = None
    if conditions.sql92 is not None:
        from rmqproto.filters.sql92 import compile_sql92  # 8 ms, needed by few calls

        accepts = compile_sql92(conditions.sql92)
    in_body = _body_condition(conditions)

    def takes(stored: StoredMessage, properties: Mapping[str, str]) -> bool:
        return (
            start_ms <= stored.store_timestamp_ms < end_ms
            and stored.reconsume_times >= conditions.reconsume_times_min
            and tags.matches(properties.get(props.TAGS))
            and (not keys or keys <= set(properties.get(props.KEYS, "").split(" ")))
            and all(properties.get(name) == value for name, value in conditions.properties.items())
            and (accepts is None or accepts(properties))
            and (not ids or bool(ids & {properties.get(props.UNIQUE_KEY), stored.message_id}))
            and (in_body is None or in_body(stored.plain_body()))
        )

    return takes


def _body_condition(conditions: MessageConditions) -> Callable[[bytes], bool] | None:
    """The condition on bodies; None if any body will do."""
    values = parse_values(conditions.json_values or {})
    pattern = compile_pattern(conditions.body_pattern) if conditions.body_pattern else None
    if not values and pattern is None:
        return None
    return lambda body: (pattern is None or has_pattern(pattern, body)) and (not values or has_texts(values, body))


def compile_pattern(text: str) -> re.Pattern[str]:
    """A compiled regular expression. UsageError, which says where, if it is not valid."""
    try:
        return re.compile(text)
    except re.error as error:
        raise UsageError(f"{text!r} is not a regular expression: {error}") from None


def has_pattern(pattern: re.Pattern[str], body: bytes) -> bool:
    """Whether the pattern is found in a body's text. Bytes that are not UTF-8 appear in the text as ``\\xff``."""
    return pattern.search(body.decode("utf-8", "backslashreplace")) is not None


# --- paths into JSON bodies ------------------------------------------------------------------------------------------


# ``$.order.lines[0]['unit price']``: names and indexes only.

Step = str | int
Path = tuple[Step, ...]
PathTexts = tuple[tuple[Path, str], ...]
"""Paths and the text required at each."""

_STEP = re.compile(r"\.([^.\[\]'*]+)|\[(\d+)\]|\['([^'\]]+)'\]")
_PATH_AND_TEXT = re.compile(r"((?:\['[^'\]]+'\]|[^=])+)=(.*)", re.DOTALL)


def parse_path(text: str) -> Path:
    """A path from its text. UsageError for anything but names and indexes after ``$``."""
    at, steps = 1, []
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None:
            break
        name, index, quoted = step.groups()
        steps.append(int(index) if index is not None else name or quoted)
        at = step.end()
    if not text.startswith("$") or not steps or at != len(text):
        raise UsageError(f"{text} is not a JSON path", hint="$.order.lines[0].sku, or $['unit price']")
    return tuple(steps)


def split_path_text(condition: str) -> tuple[str, str] | None:
    """Path and text of ``PATH=TEXT``; None for another form. The path ends at the first ``=`` outside a quoted name."""
    found = _PATH_AND_TEXT.fullmatch(condition)
    return (found[1], found[2]) if found else None


def parse_values(values: Mapping[str, str]) -> PathTexts:
    """Parsed paths and their texts. UsageError for an invalid path."""
    return tuple((parse_path(path), text) for path, text in values.items())


def has_texts(wanted: PathTexts, body: bytes) -> bool:
    """Whether the body has every wanted text at its path."""
    document = document_of(body)
    return all(text_at(document, path) == text for path, text in wanted)


def document_of(body: bytes) -> Any:
    """The body as JSON, with numbers as they are written; None if it is not JSON."""
    try:
        return json.loads(body, parse_int=str, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError):
        return None


def text_at(document: Any, path: Path) -> str | None:
    """The text of the value at ``path``: a string, a number as it is written, ``true`` or ``false``. None if there is
    no such place, and for null, objects and arrays."""
    value = document
    for step in path:
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) and step < len(value) else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else None
