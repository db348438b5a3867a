"""What the commands about stores share: the directory, and a progress line."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.options.value_markers import Value

StoreDir = Annotated[
    str, Value.FILE, typer.Argument(metavar="DIR", help="The store's directory: the one that holds commitlog/.")
]
