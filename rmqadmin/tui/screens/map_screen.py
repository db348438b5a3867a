"""The base of the screens that show where the parts of something are: what is wrong and what to do about it, the map,
and what has changed of it while the dashboard ran."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from rmqadmin.core.units import unchanged_text
from rmqadmin.tui.screens.base import DashboardScreen
from rmqadmin.tui.widgets.detail import LongLines
from rmqadmin.tui.widgets.tables.columns import Column


class MapScreen(DashboardScreen):
    AUTO_FOCUS = "#map"

    def __init__(self) -> None:
        super().__init__()
        self.map = self.table_of(self.map_columns(), id="map", opens=False)
        self.moves = self.table_of(self.move_columns(), id="moves", opens=False)

    def map_columns(self) -> list[Column]:
        raise NotImplementedError

    def move_columns(self) -> list[Column]:
        raise NotImplementedError

    def body(self) -> Iterable[Widget]:
        yield LongLines("asking …", id="advice")
        yield self.map
        yield Static("Changes", classes="caption", id="caption")
        yield self.moves

    def show(
        self, advice: Sequence[Content], rows: Mapping[str, Any], moves: Mapping[str, Any], since_ms: int | None
    ) -> None:
        """``moves``: the changes, newest first, since the first look at ``since_ms``."""
        self.query_one("#advice", LongLines).show(advice)
        self.map.set_rows(rows.items())
        self.query_one("#caption", Static).update(Content(f"Changes: {len(moves):,}"))
        self.moves.say_when_empty(unchanged_text(since_ms))
        self.moves.set_rows(moves.items())
        self.show_frame()
