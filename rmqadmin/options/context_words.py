"""The options about contexts and secrets that stand in more than one place: before every command, behind it, in a
group."""

from __future__ import annotations

from typing import Annotated

import typer

SECRET = "a secret, which is written down nowhere"
"""Marks an option whose value must not get into the history of ``rmqadmin shell``."""

ContextName = Annotated[
    str | None,
    typer.Option(
        "--context",
        metavar="CONTEXT",
        help="Which servers, by the name of a context; none: by no context. Environment: RMQADMIN_CONTEXT.",
    ),
]
Confirm = Annotated[
    str | None, typer.Option("--confirm", metavar="CONTEXT", help="Name of the protected context, for a script.")
]
