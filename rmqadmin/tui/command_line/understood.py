"""Parses a typed line: a place in the dashboard, or a command of rmqadmin and how it may run from here.

A command that only reads is run. A command that could change something is run with ``--dry-run``, which makes its
client refuse every change. The real line is for a shell: changes in the dashboard have dialogs with a preview and a
name to type, and a line has neither.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rmqadmin.cli import registry
from rmqadmin.cli.output import diagnostics
from rmqadmin.cli.prompt.candidates import LineSoFar, read_words
from rmqadmin.cli.prompt.command_lines import command_words
from rmqadmin.cli.prompt.line import parse_line, typed
from rmqadmin.cli.registry import Effect
from rmqadmin.core.near_names import did_you_mean
from rmqproto.errors import UsageError

DRY_RUN = "--dry-run"
_RUN_AS_THEY_ARE = frozenset({Effect.LOCAL, Effect.READ, Effect.STREAM, Effect.CHECK})
NOT_FROM_HERE = frozenset({Effect.SCREEN, Effect.SETTINGS})
"""Commands that take over the terminal or change settings of this program."""

_ASK_NO_SERVER = frozenset({Effect.LOCAL, Effect.SETTINGS})


class PlaceKind(msgspec.Struct, frozen=True):
    """A word of the dashboard. ``names`` is the kind of name that follows; None if none does."""

    help: str
    names: str | None = None


FILE_NAMES = "file"
"""The kind of names that cannot be completed."""

PLACES = {
    "pulse": PlaceKind("Is all well?"),
    "cluster": PlaceKind("The brokers."),
    "masters": PlaceKind("Masters, slaves and controllers."),
    "topics": PlaceKind("All topics."),
    "groups": PlaceKind("All groups."),
    "letters": PlaceKind("Dead letters of all groups."),
    "search": PlaceKind("Look messages up."),
    "topic": PlaceKind("The queues of a topic.", "topic"),
    "messages": PlaceKind("The messages of a topic.", "topic"),
    "group": PlaceKind("Offsets and members of a group.", "group"),
    "dlq": PlaceKind("The dead letters of a group.", "group"),
    "ctx": PlaceKind("Another context; - is the one before.", "context"),
    "unlock": PlaceKind("Permit changes in a read-only or protected context."),
    "lock": PlaceKind("Forbid them again."),
    "save": PlaceKind("The rows of the table into a new file: NAME.csv or NAME.jsonl.", FILE_NAMES),
    "q": PlaceKind("Leave."),
}


class PlaceAsked(msgspec.Struct, frozen=True):
    """``name`` is empty for a place that takes none."""

    word: str
    name: str = ""


class CommandAsked(msgspec.Struct, frozen=True):
    """``words`` are run. ``line`` does the same in a shell, but without a dry run."""

    words: list[str]
    line: str
    is_dry_run: bool


def understand(text: str, reach: Sequence[str] | None) -> PlaceAsked | CommandAsked:
    """Parses a line. ``reach``: options that make a command use the dashboard's servers; None if there are no servers.
    UsageError if the line is neither, or cannot run from here. A command wins over a place: ``group lag`` is the
    command."""
    parsed = parse_line(text)
    words = command_words(parsed)
    if parsed.piped_to is not None:
        raise UsageError("| does not work in the dashboard", hint="It does in `rmqadmin shell`.")
    if not words:
        raise UsageError("the line is empty")
    found = read_words(words)
    if found.command is not None:
        return _command(words, found, reach)
    word = words[0].lower()
    place = PLACES.get(word)
    if place is None:
        raise _unknown(" ".join(words[:2] if found.noun else words[:1]))
    names = words[1:]
    if len(names) != (place.names is not None):
        raise UsageError(f"{word} takes {'one name' if place.names else 'no name'}")
    return PlaceAsked(word, *names)


def _command(words: list[str], found: LineSoFar, reach: Sequence[str] | None) -> CommandAsked:
    assert found.command is not None
    entry = found.command.entry
    if entry.effect in NOT_FROM_HERE:
        why = "takes the terminal" if entry.effect is Effect.SCREEN else "changes settings of this program"
        raise UsageError(f"{entry.name} {why}: run it in a shell")
    is_help = not {"-h", "--help"}.isdisjoint(found.args) or words[0].lower() == "help"
    head, said = words[: len(words) - len(found.args)], found.values.keys()
    asks_no_server = entry.effect in _ASK_NO_SERVER or is_help
    if reach is None and not asks_no_server:
        raise UsageError("a recording is shown, and has no servers that a command could ask")
    more = [] if asks_no_server or {"--namesrvAddr", "--context"} & said else list(reach or ())
    is_dry_run = entry.effect not in _RUN_AS_THEY_ARE and not is_help
    line = [diagnostics.PROGRAM, *head, *more, *found.args]
    dry = [DRY_RUN] if is_dry_run else []  # right after the command, so that no option takes it as a value
    return CommandAsked(
        [*head, *dry, *more, *found.args],
        " ".join(map(typed, line)),
        is_dry_run and "--dry-run" not in said,
    )


def _unknown(name: str) -> UsageError:
    known = [*PLACES, *(entry.name for entry in registry.ENTRIES)]
    return UsageError(f"there is no command {name}", hint=did_you_mean(name, known))
