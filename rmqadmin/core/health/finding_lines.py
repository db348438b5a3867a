"""Findings as people see them: how bad and where, and below that, what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rmqadmin.core.health.health_finding import HealthFinding
from rmqadmin.core.terminal_text import wrapped_lines

_INDENT = 9


def finding_lines(findings: Iterable[HealthFinding], width: int | None) -> Iterator[str]:
    """Whole lines. ``width`` is that of the terminal; None for as wide as it gets."""
    for one in findings:
        yield from wrapped_lines(f"{one.grade:{_INDENT}}{one.subject}: {one.what}", width, _INDENT)
        if one.fix is not None:
            yield from wrapped_lines(f"{'':{_INDENT}}fix: {one.fix}", width, _INDENT + len("fix: "))
