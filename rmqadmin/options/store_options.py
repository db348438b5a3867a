"""What the commands about stores have in common: the directory, and a line that says how far a check is."""

from __future__ import annotations

from typing import Annotated

import typer

StoreDir = Annotated[str, typer.Argument(metavar="DIR", help="The store's directory: the one that holds commitlog/.")]
