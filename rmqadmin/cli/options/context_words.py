"""Options about contexts and secrets that are used in several places: before a command, after it, in an option
group."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.options.value_markers import Value

ContextName = Annotated[
    str | None,
    Value.CONTEXT,
    typer.Option(
        "--context",
        metavar="CONTEXT",
        help="Use the servers of this context; none: no context. Environment: RMQADMIN_CONTEXT.",
    ),
]
Confirm = Annotated[
    str | None,
    Value.CONTEXT,
    typer.Option("--confirm", metavar="CONTEXT", help="Name of the protected context, for a script."),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask; act also where nobody can be asked.")]
