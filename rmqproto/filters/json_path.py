"""Paths into JSON bodies: ``$.order.lines[0]['unit price']``. Names and indexes only. Commands, the dashboard, and
replays with and without Spark all use it, so that they select the same messages."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from rmqproto.errors import UsageError

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
