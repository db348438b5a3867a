"""The functions of the commands: how they are loaded, what they take and return, and what their helps say."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from types import UnionType
from typing import Any

from rmqadmin.cli.registry import Effect, Entry
from rmqadmin.core.results import Result

EXAMPLES = "Examples:"


def load_function(entry: Entry) -> Callable[..., Result]:
    """Imports the command's module and returns its function."""
    from importlib import import_module

    function: Callable[..., Result] = getattr(import_module(entry.module), entry.function)
    return function


def result_types(entry: Entry) -> list[type[Result]]:
    """The result types of a command, from its return annotation. Empty for a command that takes over the terminal."""
    annotation = typing.get_type_hints(load_function(entry))["return"]
    if entry.effect is Effect.SCREEN:
        return []
    return list(typing.get_args(annotation)) if isinstance(annotation, UnionType) else [annotation]


def declared_parameters(function: Callable[..., Result]) -> list[inspect.Parameter]:
    """The parameters of a command's function, without the Call."""
    return list(inspect.signature(function, eval_str=True).parameters.values())[1:]


def help_text(entry: Entry, function: Callable[..., Any]) -> str:
    """The summary and the function's docstring; ``\\b`` keeps Typer from joining the lines of the examples."""
    body = inspect.getdoc(function) or ""
    return f"{entry.summary}\n\n{body}".replace(EXAMPLES, f"\b\n{EXAMPLES}").strip()
