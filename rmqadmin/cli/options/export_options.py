"""Options that the export commands share, in mqadmin's spelling."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.options.value_markers import Value

ExportFolder = Annotated[
    str | None,
    Value.FILE,
    typer.Option("-f", "--filePath", metavar="DIR", help="Also write mqadmin's file to this directory."),
]
