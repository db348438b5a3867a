"""Options that the export commands share, in mqadmin's spelling."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.options.command_options import OF_CONTEXT

ExportedCluster = Annotated[
    str, OF_CONTEXT, typer.Option("-c", "--clusterName", metavar="CLUSTER", help="Every master of this cluster.")
]
ExportFolder = Annotated[
    str | None, typer.Option("-f", "--filePath", metavar="DIR", help="Also write mqadmin's file to this directory.")
]
