"""The palette: every command of rmqadmin for the selected row, and the places. A choice runs the command. One that
needs more is copied, to be finished in a shell."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import cast

from textual.command import CommandPalette, Hit, Hits, Provider

from rmqadmin.cli.options.common_options import Value
from rmqadmin.cli.parsing.command_tree import all_commands
from rmqadmin.core.terminal_text import printable
from rmqadmin.tui.command_line.output_screen import CommandOutputScreen
from rmqadmin.tui.command_line.places import PLACES
from rmqadmin.tui.command_line.row_command import RowCommand, row_command
from rmqadmin.tui.dashboard import Dashboard
from rmqadmin.tui.screens.base import DashboardScreen

_commands = cache(all_commands)


def commands_for(selected: Mapping[str, str], known: Mapping[str, str]) -> list[RowCommand]:
    """Every command that takes what is selected. The first call takes a second: call it in a thread."""
    if not selected:
        return []
    found = (row_command(command, selected, known) for command in _commands())
    return [command for command in found if command is not None]


class Palette(CommandPalette):
    """Textual's palette, laid out and drawn as our dialogs are. Textual does both in one turn of the loop, and
    ``ctrl+p`` and each letter wait for that."""

    def on_mount(self) -> None:
        """Shows the line at once. Textual hides it until all commands are found, and the first time they take a second
        to load, or many on a busy machine."""
        self.add_class("-ready")


class RowCommands(Provider):
    """Commands for the row under the cursor when the palette was opened, then the dashboard's own places. Without
    servers, as for a recording, there are no commands.

    Each key cancels the previous search, and a search that waits for ``startup`` would cancel that too: a user who
    typed before the commands were loaded found nothing. So ``startup`` only starts the loading, and searches wait for
    it shielded."""

    @property
    def _dashboard(self) -> Dashboard:
        return cast("Dashboard", self.app)

    async def startup(self) -> None:
        screen, dashboard = self.screen, self._dashboard
        selected = screen.selected() if isinstance(screen, DashboardScreen) and dashboard.settings.reach else {}
        clusters = dashboard.memory.clusters if selected else []
        known = dict[str, str](
            dict.fromkeys((Value.CLUSTER, Value.CLUSTERS), clusters[0]) if len(clusters) == 1 else {}
        )
        self._finding = asyncio.ensure_future(asyncio.to_thread(commands_for, selected, known))

    async def shutdown(self) -> None:
        self._finding.cancel()

    async def discover(self) -> Hits:
        """Offers the commands with a score above 0, the score of the dashboard's own, which come earlier."""
        for command in await asyncio.shield(self._finding):
            yield Hit(1.0, printable(command.text), partial(self._run, command), help=command.summary)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        offered: list[tuple[str, str, Callable[[], None]]] = [
            (command.text, command.summary, partial(self._run, command))
            for command in await asyncio.shield(self._finding)
        ]
        for word, place in PLACES.items():
            line = f"{word} " if place.names else word
            offered.append((line, place.help, partial(self._dashboard.open_command_line, line)))
        for text, summary, act in offered:
            score = max(matcher.match(text), matcher.match(summary))
            if score > 0:
                yield Hit(score, matcher.highlight(printable(text)), act, help=summary)

    def _run(self, command: RowCommand) -> None:
        if not command.missing:
            self.app.push_screen(CommandOutputScreen(command))
            return
        reach = self._dashboard.settings.reach
        line = command.line([] if reach is None else reach.words)
        self.app.copy_to_clipboard(line)
        self._dashboard.say(f"copied {line}: in a shell, add {command.missing}")
