"""A command of rmqadmin for the selected row: its name, with the options and arguments that the row has values for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from rmqadmin.cli.options.common_options import Value
from rmqadmin.cli.output import diagnostics
from rmqadmin.cli.parsing.command_tree import CommandInfo, OptionInfo
from rmqadmin.cli.prompt.line import typed
from rmqadmin.cli.registry import CHANGING, Effect

_NOT_FROM_HERE = frozenset({Effect.SCREEN, Effect.SETTINGS})
"""Commands that take over the terminal or change settings of this program."""

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


class RowCommand(msgspec.Struct, frozen=True):
    """``args`` follow the name. ``missing`` is the first thing that the user must add; empty if nothing is.
    ``is_dry_run``: it could change something, and runs from here with ``--dry-run``, with which its client refuses
    every change. The change itself is for a shell: changes in the dashboard have dialogs with a preview and a name to
    type."""

    name: str
    summary: str
    args: list[str]
    missing: str
    is_dry_run: bool

    @property
    def text(self) -> str:
        """What the palette shows."""
        return " ".join([self.name, *map(typed, self.args), *([self.missing, "…"] if self.missing else [])])

    def line(self, reach: Sequence[str]) -> str:
        """The line for a shell. ``reach``: the options that say which servers."""
        return " ".join(map(typed, [diagnostics.PROGRAM, *self.name.split(), *reach, *self.args]))

    def run_words(self, reach: Sequence[str]) -> list[str]:
        """The words to run. ``--dry-run`` stands right after the name, so that no option takes it as a value."""
        return [*self.name.split(), *(["--dry-run"] if self.is_dry_run else []), *reach, *self.args]


def row_command(command: CommandInfo, selected: Mapping[str, str], known: Mapping[str, str]) -> RowCommand | None:
    """A command with the selected values, by what they are (``Value``), and with ``known`` values where the command
    requires them. None if it takes nothing that is selected, or cannot run from here."""
    entry, args, given, missing = command.entry, list[str](), set[str](), ""
    if entry.effect in _NOT_FROM_HERE:
        return None
    needed_too = _NEEDED_TOO.get(entry.name, ())
    options = [option for option in command.options if not option.is_shared]
    for option in options:
        kind, name = option.value, _short(option)
        is_needed = option.is_required or option.names[-1] in needed_too
        # A second option of that kind names another one: the topic or server that something is copied from, or to.
        is_free = kind not in given if is_needed else not given or kind in _NARROWING
        if kind in selected and is_free and option.names[-1] not in _OTHER_ROLES:
            args += [name, selected[kind]]
            given.add(kind)
        elif is_needed and kind in known:
            args += [name, known[kind]]
        elif is_needed:
            missing = missing or name
    for argument in command.arguments:
        if argument.value not in selected:
            is_optional = argument.metavar.startswith("[") and argument.metavar not in needed_too
            missing = missing or ("" if is_optional else argument.metavar.strip("[]"))
            break
        args.append(selected[argument.value])
        given.add(argument.value)
    if not given:
        return None
    either = {Value.BROKER_ADDR, Value.CLUSTER}
    if {option.value for option in options} >= either and given.isdisjoint(either):
        place = _place(selected, known)
        args += place
        if not place and entry.effect in (Effect.CHANGE, Effect.DESTROY):
            missing = missing or "-c"
    return RowCommand(entry.name, entry.summary, args, missing, entry.effect in CHANGING)


def _place(selected: Mapping[str, str], known: Mapping[str, str]) -> list[str]:
    """Where a command acts that takes a broker or a cluster: on the selected broker, or else in the known cluster."""
    if Value.BROKER_ADDR in selected:
        return ["-b", selected[Value.BROKER_ADDR]]
    return ["-c", known[Value.CLUSTER]] if Value.CLUSTER in known else []


def _short(option: OptionInfo) -> str:
    return next((name for name in option.names if not name.startswith("--")), option.names[-1])
