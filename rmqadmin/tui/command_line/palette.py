"""The palette: every command of rmqadmin for the selected row. A choice opens the command line with the command in it,
to be edited, run or copied."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, cast

from textual.command import Hit, Hits, Provider

from rmqadmin.cli.command_tree import CommandInfo, OptionInfo, all_commands
from rmqadmin.core.terminal_text import printable
from rmqadmin.prompt.line import typed
from rmqadmin.tui.command_line.understood import PLACES
from rmqadmin.tui.screens.base import DashboardScreen

if TYPE_CHECKING:
    from rmqadmin.tui.dashboard import Dashboard

_commands = cache(all_commands)


def line_for(command: CommandInfo, selected: Mapping[str, str], known: Mapping[str, str]) -> str | None:
    """A command's line with the selected values, by their placeholders in help texts (``TOPIC``), and with ``known``
    values where the command requires them. If more is needed, the line ends where the next value must be typed. None if
    the command takes nothing that is selected."""
    words, missing, is_about = [command.entry.name], "", False
    for option in command.options:
        value = None if option.is_shared else selected.get(option.metavar)
        if value is not None and (option.is_required or not is_about):
            words += [_short(option), typed(value)]
            is_about = True
        elif option.is_required and option.metavar in known:
            words += [_short(option), typed(known[option.metavar])]
        elif option.is_required and not missing:
            missing = _short(option)
    for name in command.arguments:
        value = selected.get(name.strip("[].").split("|")[0])
        if value is None:
            break
        words.append(typed(value))
        is_about = True
    return " ".join([*words, *([f"{missing} "] if missing else [])]) if is_about else None


def _short(option: OptionInfo) -> str:
    return next((name for name in option.names if not name.startswith("--")), option.names[-1])


def lines_for(selected: Mapping[str, str], known: Mapping[str, str]) -> list[tuple[str, str]]:
    """Line and summary of every command that takes what is selected. The first call takes a second: call it in a
    thread."""
    found = [(line_for(command, selected, known), command.entry.summary) for command in _commands()]
    return [(line, summary) for line, summary in found if line is not None]


async def _lines(selected: Mapping[str, str], known: Mapping[str, str]) -> list[tuple[str, str]]:
    return await asyncio.to_thread(lines_for, selected, known) if selected else []


class RowCommands(Provider):
    """Commands for the row under the cursor when the palette was opened, then the dashboard's own places.

    Each key cancels the previous search, and a search that waits for ``startup`` would cancel that too: a user who
    typed before the commands were loaded found nothing. So ``startup`` only starts the loading, and searches wait for
    it shielded."""

    async def startup(self) -> None:
        screen = self.screen
        selected = screen.selected() if isinstance(screen, DashboardScreen) else {}
        clusters = {broker.cluster for broker in cast("Dashboard", self.app).memory.brokers} if selected else set()
        known = {"CLUSTER": cluster} if len(clusters) == 1 and (cluster := clusters.pop()) else {}
        self._finding = asyncio.ensure_future(_lines(selected, known))

    async def shutdown(self) -> None:
        self._finding.cancel()

    async def discover(self) -> Hits:
        """Offers the lines with a score above 0, the score of the dashboard's own commands, which come earlier."""
        for line, summary in await asyncio.shield(self._finding):
            yield Hit(1.0, printable(line), partial(self._open, line), help=summary)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        async for line, summary in self._all():
            score = max(matcher.match(line), matcher.match(summary))
            if score > 0:
                yield Hit(score, matcher.highlight(printable(line)), partial(self._open, line), help=summary)

    async def _all(self) -> AsyncIterator[tuple[str, str]]:
        for each in await asyncio.shield(self._finding):
            yield each
        for word, place in PLACES.items():
            yield f"{word} " if place.names else word, place.help

    def _open(self, line: str) -> None:
        cast("Dashboard", self.app).open_command_line(line)
