"""What is said about an option that stands without its value: the value it takes, in the words of its help."""

from __future__ import annotations

from typing import Any

from rmqadmin.cli.parsing.mqadmin_argv import MissingValueError


def add_value_hint(error: MissingValueError, ctx: Any) -> MissingValueError:
    """The error with a hint from the option of that name among those of the context's command."""
    for param in ctx.command.params:
        if error.option in param.opts:
            error.hint = f"{param.opts[0]} {param.make_metavar(ctx)}: {param.help or ''}"
    return error
