"""The places that can be typed after ``:``, and the way there. One saves the rows of a table in a file: the shown rows,
in their order, with full values in the formats of `--output csv` and `jsonl`, without sparklines."""

from __future__ import annotations

import asyncio
import csv
import json
from pathlib import Path
from typing import Any

import msgspec
from textual.screen import Screen

from rmqadmin.core.files import expanded
from rmqadmin.core.names import did_you_mean
from rmqadmin.core.results import Shape
from rmqadmin.core.servers.broker_state import Replica
from rmqadmin.core.units import machine_text
from rmqadmin.tui.dashboard import Dashboard
from rmqadmin.tui.screens.base import DashboardScreen
from rmqadmin.tui.screens.messages import MessagesScreen
from rmqadmin.tui.screens.things import LISTS, list_of, screen_of
from rmqadmin.tui.sources.found import read_askable
from rmqadmin.tui.sources.groups import GroupFacts
from rmqadmin.tui.widgets.tables.columns import Column
from rmqadmin.tui.widgets.tables.rows import Line, Rows
from rmqproto.errors import NotFoundError, RocketMQError, UsageError
from rmqproto.names import dlq_topic
from rmqproto.wording import counted

FILE_NAMES, BROKER_NAMES = "file", "broker name"
"""The kind of names that cannot be completed, and that of brokers as people call them."""

_RUNS_COMMANDS = "Commands are run by the palette (ctrl+p) and by `rmqadmin shell`."


class PlaceKind(msgspec.Struct, frozen=True):
    """``names`` is the kind of name that follows; None if none does. ``noun``: the noun that the place belongs to; None
    for what is done where one is."""

    help: str
    names: str | None = None
    noun: str | None = None


PLACES = {
    "pulse": PlaceKind("Is all well?", noun="pulse"),
    "brokers": PlaceKind("The brokers.", noun="brokers"),
    "topics": PlaceKind("All topics.", noun="topics"),
    "groups": PlaceKind("All groups.", noun="groups"),
    "letters": PlaceKind("Dead letters of all groups.", noun="letters"),
    "search": PlaceKind("Look messages up.", noun="search"),
    "topic": PlaceKind("The queues of a topic.", "topic", "topics"),
    "messages": PlaceKind("The messages of a topic.", "topic", "topics"),
    "group": PlaceKind("Offsets and members of a group.", "group", "groups"),
    "broker": PlaceKind("State and settings of a broker.", BROKER_NAMES, "brokers"),
    "dlq": PlaceKind("The dead letters of a group.", "group", "letters"),
    "alerts": PlaceKind("Your alerts, and which are on.", noun="pulse"),
    "clients": PlaceKind("The members of all groups.", noun="groups"),
    "delays": PlaceKind("Delay levels and timers.", noun="brokers"),
    "half": PlaceKind("Half messages of open transactions.", noun="topics"),
    "log": PlaceKind("What was changed from this machine.", noun="pulse"),
    "nameservers": PlaceKind("The name servers.", noun="brokers"),
    "producers": PlaceKind("Who sends.", noun="topics"),
    "replicas": PlaceKind("Masters, slaves and controllers.", noun="brokers"),
    "users": PlaceKind("Users and what they may do.", noun="brokers"),
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


def understand(text: str) -> PlaceAsked:
    """Parses a typed line. UsageError if it is no place."""
    word, _, name = text.strip().partition(" ")
    word, name = word.lower(), name.strip()
    if not word:
        raise UsageError("the line is empty")
    place = PLACES.get(word)
    if place is None:
        raise UsageError(f"there is no place {word}", hint=did_you_mean(word, PLACES) or _RUNS_COMMANDS)
    if bool(name) is not (place.names is not None):
        takes = f"a {place.names}" if place.names else "nothing"
        raise UsageError(f"{word} is followed by {takes}", hint=_RUNS_COMMANDS if name else None)
    return PlaceAsked(word, name)


async def open_place(dashboard: Dashboard, asked: PlaceAsked) -> None:
    """Goes to a place, or shows why that is impossible. Does neither if another context was opened meanwhile."""
    settings = dashboard.settings
    try:
        if asked.word == "ctx" and settings.open_context is None:
            dashboard.say("a recording is shown, and has no context to leave", is_error=True)
        elif asked.word == "ctx":
            await dashboard.open_context(asked.name)
        elif asked.word == "q":
            dashboard.leave()
        elif asked.word == "save":
            _save(dashboard, asked.name)
        elif asked.word in ("unlock", "lock"):
            dashboard.ask_to_unlock() if asked.word == "unlock" else dashboard.set_read_only(True)
        else:
            noun = PLACES[asked.word].noun
            assert noun is not None
            screen = await _screen_of(dashboard, asked)
            if dashboard.settings is settings:
                await dashboard.go_into(noun, screen)
    except RocketMQError as error:
        if dashboard.settings is settings:
            dashboard.say(f"{error}. {error.hint or ''}".rstrip(), is_error=True)


def _save(dashboard: Dashboard, name: str) -> None:
    """Saves the focused table in a file on the machine where rmqadmin runs."""
    screen = dashboard.screen
    table = screen.filtered_table() if isinstance(screen, DashboardScreen) else None
    if table is None:
        raise UsageError("there is no table on this screen")
    row_count = write_table(expanded(name), table.model)
    dashboard.say(f"saved {counted(row_count, 'row')} in {name}")


async def _screen_of(dashboard: Dashboard, asked: PlaceAsked) -> Screen[None] | None:
    """The screen of a place; None if that is the first screen of its noun."""
    if asked.word in LISTS:
        return list_of(asked.word)
    if not asked.name:
        return None
    if asked.word == "topic":
        return screen_of(asked.name)
    if asked.word in ("group", "broker"):
        with dashboard.make_client(read_only=True) as client:
            cluster = await asyncio.to_thread(read_askable, client, dashboard.memory)
        if asked.word == "group":
            return screen_of(GroupFacts(asked.name, cluster.brokers, None, tuple(cluster.gone)))
        names = {name: one.replica for one in reversed(cluster.seen.values()) for name in broker_names(one.replica)}
        if asked.name not in names:
            raise NotFoundError(f"the name servers list no broker {asked.name}")
        return screen_of(names[asked.name])
    return MessagesScreen(dlq_topic(asked.name) if asked.word == "dlq" else asked.name)


def broker_names(replica: Replica) -> tuple[str, str]:
    """``broker-a/1``; and ``broker-a``, which is the master, or else the next of its name."""
    return replica.broker_name, replica.name


LACKING = "lacking"
"""The last field, present if any sum lacks a broker: the names of the brokers missing from the row's sums."""


def write_table(path: Path, rows: Rows) -> int:
    """Writes the file and returns the number of rows. UsageError if the file exists, cannot be written, or has another
    ending."""
    if path.suffix not in (".csv", ".jsonl"):
        raise UsageError(f"{path} must end in .csv or .jsonl")
    columns = [(at, column) for at, column in enumerate(rows.columns) if column.kind is not Shape.TREND]
    lacking = [_lacking(line) for line in rows.shown]
    names = [*(column.name for _, column in columns), *([LACKING] if any(lacking) else [])]
    records = [
        [*(_value(line, at, column) for at, column in columns), *([without] if any(lacking) else [])]
        for line, without in zip(rows.shown, lacking, strict=True)
    ]
    try:
        with path.open("x", encoding="utf-8", newline="") as file:
            if path.suffix == ".csv":
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(names)
                for record in records:
                    cells = [machine_text(value, column) for value, (_, column) in zip(record, columns, strict=False)]
                    writer.writerow([*cells, *record[len(columns) :]])
            else:
                told = (dict(zip(names, record, strict=True)) for record in records)
                file.writelines(f"{json.dumps(one, ensure_ascii=False)}\n" for one in told)
    except FileExistsError:
        raise UsageError(f"{path} exists already and is not replaced") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None
    return len(records)


def _value(line: Line, at: int, column: Column) -> Any:
    """The value as it was read, or as text if that is not a plain value. None if it is not known (yet)."""
    if column.part not in line.parts:
        return None
    value = column.of(line.parts[column.part])
    return value if value is None or isinstance(value, str | int | float) else line.texts[at]


def _lacking(line: Line) -> str:
    return ", ".join(sorted({name for part in line.parts.values() for name in getattr(part, "lacking", ())}))
