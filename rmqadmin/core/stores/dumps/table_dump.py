"""Tables below ``config/`` entry by entry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import msgspec

from rmqadmin.core.results import Row, doc
from rmqadmin.core.stores.dumps.dump import Dump, DumpWindow
from rmqproto.errors import UsageError

if TYPE_CHECKING:
    from rmqserver.store.checks.found_tables import FoundTable
    from rmqserver.store.checks.survey import Survey


class StoredEntryRow(Row, frozen=True):
    table: Annotated[str, doc("file below config/", key=True)]
    entry: Annotated[str, doc("name of the entry: topic, group, topic@group, delay level, ...", key=True)]
    value: Annotated[str | None, doc("the entry as JSON", vital=True)]
    problem: Annotated[str | None, doc("why a broker cannot use the table, or what is unusual in it", sparse=True)]


class DumpedTables(Dump[StoredEntryRow], frozen=True):
    """Of ``tables``: entries of the tables that a broker would take, by file."""


def table_rows(found: Survey, window: DumpWindow) -> Iterator[StoredEntryRow]:
    """The entries of all tables, or of the one named. A table comes from its file or, if that cannot be used, from its
    copy. UsageError for an unknown name."""
    from rmqserver.store.checks.found_tables import FoundTables

    tables = FoundTables(found.paths.config, found.disk)
    if window.table is not None:
        named = tables.all.get(window.table) or tables.all.get(f"{window.table}.json")
        if named is None:
            raise UsageError(f"there is no table {window.table}", hint=f"There are {', '.join(sorted(tables.all))}.")
        yield from _entries(named)
        return
    for name in tables.names():
        used = tables.used(name)
        for each in (tables.all.get(name), used):
            if each is not None and (each is used or each.problem):
                yield from _entries(each)
                if each is used:
                    break


def _entries(table: FoundTable) -> Iterator[StoredEntryRow]:
    if table.problem or table.oddity:
        yield StoredEntryRow(table=table.name, entry="", value=None, problem=table.problem or table.oddity)
    for key, value in table.entries.items():
        yield StoredEntryRow(table=table.name, entry=str(key), value=msgspec.json.encode(value).decode(), problem=None)
