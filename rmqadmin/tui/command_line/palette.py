"""The palette: every command of rmqadmin for the selected row. A choice opens the command line with the command in it,
to be edited, run or copied."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, cast

from textual.command import CommandPalette, Hit, Hits, Provider

from rmqadmin.cli.options.value_markers import Value
from rmqadmin.cli.parsing.command_tree import CommandInfo, OptionInfo, all_commands
from rmqadmin.cli.prompt.line import typed
from rmqadmin.cli.registry import Effect
from rmqadmin.core.terminal_text import printable
from rmqadmin.tui.command_line.understood import NOT_FROM_HERE, PLACES
from rmqadmin.tui.dialogs.dialog import Dialog
from rmqadmin.tui.screens.base import DashboardScreen

if TYPE_CHECKING:
    from rmqadmin.tui.dashboard import Dashboard

_commands = cache(all_commands)


_OTHER_ROLES = frozenset({"--park-topic", "--to", "--target-name-server"})
"""Options that take such a name, but not that of what the command is about."""

_NEEDED_TOO = {
    "resetOffset": ("--topic", "--to"),
    "updateStaticTopic": ("--clusters", "--totalQueueNum"),
    "remappingStaticTopic": ("--clusters",),
    "dlq redrive": ("[GROUP]",),
}
"""Options, by their last name, and arguments that a command needs although something else may stand for them."""

_NARROWING = frozenset({Value.CLIENT})
"""What optional options are given for, too, after what the command is about."""


def line_for(command: CommandInfo, selected: Mapping[str, str], known: Mapping[str, str]) -> str | None:
    """A command's line with the selected values, by what they are (``Value``), and with ``known``
    values where the command requires them. If more is needed, the line ends where the next value must be typed. None if
    the command takes nothing that is selected, or cannot run from here."""
    if command.entry.effect in NOT_FROM_HERE:
        return None
    line = _Line(command, selected, known)
    line.add_options()
    line.add_arguments()
    if not line.given:
        return None
    line.add_place()
    return line.text()


class _Line:
    """A command's line in the making. ``given`` are the kinds of value that have a selected one; ``missing`` is the
    first thing that must be typed."""

    def __init__(self, command: CommandInfo, selected: Mapping[str, str], known: Mapping[str, str]):
        self.given: set[str] = set()
        self.missing = ""
        self._command = command
        self._selected = selected
        self._known = known
        self._words = [command.entry.name]
        self._options = [option for option in command.options if not option.is_shared]
        self._needed_too = _NEEDED_TOO.get(command.entry.name, ())

    def text(self) -> str:
        """Ends with a space if more must be typed."""
        return f"{' '.join(self._words)} {self.missing}".rstrip() + (" " if self.missing else "")

    def add_options(self) -> None:
        for option in self._options:
            name = option.value
            is_needed = option.is_required or option.names[-1] in self._needed_too
            # A second option of that kind names another one: the topic or server that something is copied from, or to.
            is_free = name not in self.given if is_needed else not self.given or name in _NARROWING
            if name in self._selected and is_free and option.names[-1] not in _OTHER_ROLES:
                self._words += [_short(option), typed(self._selected[name])]
                self.given.add(name)
            elif is_needed and name in self._known:
                self._words += [_short(option), typed(self._known[name])]
            elif is_needed and not self.missing:
                self.missing = f"{_short(option)} "

    def add_arguments(self) -> None:
        for argument in self._command.arguments:
            name = argument.value
            if name not in self._selected:
                is_optional = argument.metavar.startswith("[") and argument.metavar not in self._needed_too
                self.missing = self.missing or ("" if is_optional else " ")
                return
            self._words.append(typed(self._selected[name]))
            self.given.add(name)

    def add_place(self) -> None:
        """The broker or the cluster, if the command takes either and has neither yet."""
        either = {Value.BROKER_ADDR, Value.CLUSTER}
        if not {option.value for option in self._options} >= either or not self.given.isdisjoint(either):
            return
        place = _place(self._selected, self._known)
        self._words += place
        if not place and _changes(self._command):
            self.missing = self.missing or "-c "


def _place(selected: Mapping[str, str], known: Mapping[str, str]) -> list[str]:
    """Where a command acts that takes a broker or a cluster: on the selected broker, or else in the known cluster."""
    if Value.BROKER_ADDR in selected:
        return ["-b", typed(selected[Value.BROKER_ADDR])]
    return ["-c", typed(known[Value.CLUSTER])] if Value.CLUSTER in known else []


def _changes(command: CommandInfo) -> bool:
    return command.entry.effect in (Effect.CHANGE, Effect.DESTROY)


def _short(option: OptionInfo) -> str:
    return next((name for name in option.names if not name.startswith("--")), option.names[-1])


def lines_for(selected: Mapping[str, str], known: Mapping[str, str]) -> list[tuple[str, str]]:
    """Line and summary of every command that takes what is selected. The first call takes a second: call it in a
    thread."""
    found = [(line_for(command, selected, known), command.entry.summary) for command in _commands()]
    return [(line, summary) for line, summary in found if line is not None]


async def _lines(selected: Mapping[str, str], known: Mapping[str, str]) -> list[tuple[str, str]]:
    return await asyncio.to_thread(lines_for, selected, known) if selected else []


class Palette(CommandPalette, Dialog[None]):
    """Textual's palette, laid out and drawn as our dialogs are. Textual does both in one turn of the loop, and
    ``ctrl+p`` and each letter wait for that."""

    def on_mount(self) -> None:
        """Shows the line at once. Textual hides it until all commands are found, and the first time they take a second
        to load, or many on a busy machine."""
        self.add_class("-ready")


class RowCommands(Provider):
    """Commands for the row under the cursor when the palette was opened, then the dashboard's own places.

    Each key cancels the previous search, and a search that waits for ``startup`` would cancel that too: a user who
    typed before the commands were loaded found nothing. So ``startup`` only starts the loading, and searches wait for
    it shielded."""

    async def startup(self) -> None:
        screen = self.screen
        selected = screen.selected() if isinstance(screen, DashboardScreen) else {}
        clusters = {broker.cluster for broker in cast("Dashboard", self.app).memory.brokers} if selected else set()
        cluster = clusters.pop() if len(clusters) == 1 else ""
        known = dict[str, str]({Value.CLUSTER: cluster, Value.CLUSTERS: cluster} if cluster else {})
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
