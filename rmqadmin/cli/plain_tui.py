"""Runs a plain line of ``rmqadmin tui`` without Typer, which takes longer to load than the dashboard takes to draw.

A plain line has a few options, each at most once and spelled as in the documents. Every other line, including any with
an error, goes through ``program``, so that error messages and the dashboard's behaviour are defined in one place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from rmqadmin.core.audit.trail import Arguments

COMMAND = "tui"

_TEXT = re.compile(r"[\w.:;,][\w.:;,-]*", re.ASCII)
_SECONDS = re.compile(r"[1-5]?[0-9](\.[0-9]{1,3})?")
_INTERVAL_MIN_S = 0.5

_SHARED = {"-n": "namesrv_addr", "--namesrvAddr": "namesrv_addr", "--context": "context", "--unlock": "unlock"}
_OWN = {"--interval": "interval_s", "--read-only": "read_only"}
_FLAGS = ("--unlock", "--read-only")


class PlainLine(msgspec.Struct):
    """The options, by the fields of ``CommonOptions`` and by the arguments of ``open_dashboard``."""

    shared: dict[str, Any] = {}
    own: dict[str, Any] = {}


def read_plain_line(words: Sequence[str]) -> PlainLine | None:
    """Parses the words after the command's name. None if the line is not plain."""
    line, left = PlainLine(), iter(words)
    for word in left:
        fields, place = (_OWN, line.own) if word in _OWN else (_SHARED, line.shared)
        field = fields.get(word)
        value = True if word in _FLAGS else _seconds(next(left, "")) if word in _OWN else _text(next(left, ""))
        if field is None or field in place or value is None:
            return None
        place[field] = value
    return line


def _text(word: str) -> str | None:
    return word if _TEXT.fullmatch(word) else None


def _seconds(word: str) -> float | None:
    return float(word) if _SECONDS.fullmatch(word) and float(word) >= _INTERVAL_MIN_S else None


def run(line: PlainLine) -> int:
    """Opens the dashboard, as ``program.run`` would; the exit status."""
    from rmqadmin.call import Call
    from rmqadmin.core.exit_codes import ExitCode
    from rmqadmin.invocation import Invocation
    from rmqadmin.options.common_options import CommonOptions, color_of
    from rmqadmin.shared.open_dashboard import open_dashboard

    invocation = Invocation(command=COMMAND)
    try:
        common = CommonOptions(**line.shared)
        call = Call(
            COMMAND, common, common.format(None), color_of(invocation.color), invocation, lambda: _arguments(line)
        )
        try:
            return open_dashboard(call, **line.own)
        finally:
            call.close()
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except Exception as error:
        from rmqadmin.cli.failures import told

        return told(error, invocation)


def _arguments(line: PlainLine) -> Arguments:
    """The arguments for the log of changes, made when the first change is."""
    from rmqadmin import registry
    from rmqadmin.cli.command_functions import declared_parameters, load_function
    from rmqadmin.cli.told_arguments import told_arguments

    entry = registry.find(COMMAND)
    assert entry is not None
    return told_arguments(declared_parameters(load_function(entry)), line.own)
