"""What the dashboard remembers from one start to the next: the order and the filter of each table, the theme, the
interval, and whether lists show what belongs to the system. It is in ``tui.json`` under the XDG state directory. A file
that cannot be read counts as empty. A damaged one is kept beside, as ``tui.json.damaged``, before it is written anew.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Annotated

import msgspec

from rmqadmin.core.files import state_dir, write_private
from rmqadmin.tui.refresh import INTERVALS_S

FILTERS_MAX = 100
"""How many filters are kept, the latest. Each test server, on a new port, would leave its own."""

_lock = Lock()

_DAMAGED = (ValueError, RecursionError)
"""What msgspec raises for bytes that are no settings: DecodeError and UnicodeDecodeError, and the last for nesting."""


class SavedOrder(msgspec.Struct, frozen=True):
    """``column`` is the column's name in the JSON output of commands."""

    column: str
    descends: bool


class Remembered(msgspec.Struct):
    """The keys of ``orders`` are the screen and the id of its table: ``topics``, ``pulse/brokers``. Before those of
    ``filters`` are the name servers: ``127.0.0.1:9876 topics``. Filters are as typed. None means never changed."""

    orders: dict[str, SavedOrder] = {}
    filters: dict[str, str] = {}
    theme: str | None = None
    interval_s: Annotated[float, msgspec.Meta(ge=INTERVALS_S[0], le=INTERVALS_S[-1])] | None = None
    shows_system: bool = False


def remembered_path() -> Path:
    return state_dir() / "tui.json"


def read_remembered() -> Remembered:
    try:
        return msgspec.json.decode(remembered_path().read_bytes(), type=Remembered)
    except (OSError, *_DAMAGED):
        return Remembered()


def read_or_set_aside() -> tuple[Remembered, str | None]:
    """What is remembered, and what to tell the user if that is lost. A damaged file is renamed to
    ``tui.json.damaged``, in place of an older one."""
    path = remembered_path()
    lost = f"what the dashboard remembered is forgotten: {path}"
    try:
        return msgspec.json.decode(path.read_bytes(), type=Remembered), None
    except FileNotFoundError:
        return Remembered(), None
    except OSError as error:
        return Remembered(), f"{lost} cannot be read: {error.strerror}"
    except _DAMAGED as error:
        damaged = path.with_name(f"{path.name}.damaged")
        try:
            path.replace(damaged)
        except OSError as refused:
            return Remembered(), f"{lost} is damaged ({error}) and cannot be renamed: {refused.strerror}"
        return Remembered(), f"{lost} is damaged ({error}), and kept as {damaged.name}"


def remember(change: Callable[[Remembered], None]) -> None:
    """Applies ``change`` to the file. May be called from any thread. Keeps what another dashboard has written
    meanwhile. OSError if the file cannot be written."""
    with _lock:
        remembered, _ = read_or_set_aside()
        change(remembered)
        text = msgspec.json.format(msgspec.json.encode(remembered), indent=2).decode()
        write_private(remembered_path(), text + "\n")


def remember_order(table: str, order: SavedOrder | None) -> None:
    """As ``remember``. None for unsorted rows."""

    def change(remembered: Remembered) -> None:
        remembered.orders.pop(table, None)
        if order is not None:
            remembered.orders[table] = order

    remember(change)


def remember_filter(table: str, text: str) -> None:
    """As ``remember``. Empty for no filter."""

    def change(remembered: Remembered) -> None:
        remembered.filters.pop(table, None)
        if text:
            remembered.filters[table] = text
        for oldest in list(remembered.filters)[:-FILTERS_MAX]:
            del remembered.filters[oldest]

    remember(change)
