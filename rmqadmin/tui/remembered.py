"""What the dashboard remembers from one start to the next: by what each table is sorted. It is in ``tui.json`` under
the XDG state directory; what cannot be read of it is forgotten.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from rmqadmin.core.own_files import state_dir, write_private


class SavedOrder(msgspec.Struct, frozen=True):
    """``column`` is the name of the column, as tables of commands have it in JSON."""

    column: str
    descends: bool


class Remembered(msgspec.Struct):
    """``orders`` by the screen and the id of its table: ``topics``, ``pulse/brokers``."""

    orders: dict[str, SavedOrder] = {}


def remembered_path() -> Path:
    return state_dir() / "tui.json"


def read_remembered() -> Remembered:
    try:
        return msgspec.json.decode(remembered_path().read_bytes(), type=Remembered)
    except (OSError, msgspec.DecodeError):
        return Remembered()


def remember_order(table: str, order: SavedOrder | None) -> None:
    """None: rows come as they come. What another dashboard has written meanwhile is kept. OSError if the file cannot be
    written."""
    remembered = read_remembered()
    remembered.orders.pop(table, None)
    if order is not None:
        remembered.orders[table] = order
    write_private(remembered_path(), msgspec.json.format(msgspec.json.encode(remembered), indent=2).decode() + "\n")
