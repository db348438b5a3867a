"""Options that the export commands share, in mqadmin's spelling."""

from __future__ import annotations

from typing import Annotated

import typer

ExportFolder = Annotated[
    str | None, typer.Option("-f", "--filePath", metavar="DIR", help="Also write mqadmin's file to this directory.")
]
