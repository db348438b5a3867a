"""Options that several commands about cold data share, in mqadmin's spelling."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.options.command_options import OF_CONTEXT

EveryReplicaToo = Annotated[
    str | None,
    OF_CONTEXT,
    typer.Option("-c", "--clusterName", metavar="CLUSTER", help="Every broker of this cluster, slaves too."),
]
