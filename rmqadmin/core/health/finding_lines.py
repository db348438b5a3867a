"""Findings as people see them: how bad and where, and below that, what to do."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from rmqadmin.core.health.health_finding import HealthFinding
from rmqadmin.core.terminal_text import printable

_INDENT = 9
_TEXT_WIDTH_MIN = 20


def finding_lines(findings: Iterable[HealthFinding], width: int | None) -> Iterator[str]:
    """Whole lines. ``width`` is that of the terminal; None for as wide as it gets."""
    for one in findings:
        yield from wrapped_lines(f"{one.grade:{_INDENT}}{one.subject}: {one.what}", width, _INDENT)
        if one.fix is not None:
            yield from wrapped_lines(f"{'':{_INDENT}}fix: {one.fix}", width, _INDENT + len("fix: "))


def wrapped_lines(line: str, width: int | None, indent: int) -> Iterator[str]:
    """Whole lines; all but the first are indented. Words are not split, so that names and options can be copied."""
    text = printable(line)
    if width is None:
        yield text + "\n"
        return
    lines = textwrap.wrap(
        text,
        max(width, indent + _TEXT_WIDTH_MIN),
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    yield from (one + "\n" for one in lines)
