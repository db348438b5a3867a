"""Decides which options of a command line are written to the log: names, numbers and choices. Of free text only the
option's name is, because the text may be a password, a message, a customer's key, or anything else. Which it is,
``options.value_markers`` says."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from rmqadmin.cli.options.command_options import spellings_of
from rmqadmin.cli.options.value_markers import value_of
from rmqadmin.core.audit_trail import HIDDEN, Arguments


def told_arguments(parameters: Iterable[inspect.Parameter], values: Mapping[str, Any]) -> Arguments:
    """The options to write down, without those that were not given. In place of a text that may not be told stands a
    mark that there was one."""
    told: dict[str, Any] = {}
    untold: list[str] = []
    for parameter in parameters:
        value = values.get(parameter.name)
        if value is None or value is False or value == []:
            continue
        plain, name = _plain(value), (spellings_of(parameter) or (parameter.name,))[-1]
        if value_of(parameter).is_told:
            told[name] = plain
        else:
            told[name] = HIDDEN
            untold += [str(each) for each in (plain if isinstance(plain, list) else [plain])]
    return Arguments(told, untold)


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Enum):
        return value.value
    return value if isinstance(value, str | int | float | bool) else str(value)
