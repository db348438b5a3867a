"""What the commands about stores share: the directory, and a progress line."""

from __future__ import annotations

from typing import Annotated

import typer

StoreDir = Annotated[str, typer.Argument(metavar="DIR", help="The store's directory: the one that holds commitlog/.")]
