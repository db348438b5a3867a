"""A command's essential columns are shown at every width, whatever else is left out."""

from types import SimpleNamespace
from typing import Any

import pytest

from rmqadmin.cli.output.output_format import Format
from rmqadmin.cli.output.rendering import render
from rmqadmin.cli.registry import ENTRIES, Effect
from rmqadmin.core.messages.message_rows import StoredMessageRow
from rmqadmin.core.results import Result, ResultColumn, Row, columns, heading
from rmqadmin.core.servers.server_configs import Configs, Listing
from rmqadmin.core.tables.layout import Layout, TableView
from tests.support.quick import in_one_test

NAME = "payments-settlement-service-europe-frankfurt-production-orders-created-v2"
MATTERS = {"behind_bytes", "done", "fail_count", "is_leader", "lag_count", "value"}


def value(column: ResultColumn) -> Any:
    kind = column.type_name.partition(" or ")[0].partition(",")[0]
    if kind == "integer":
        return 6 if column.name.endswith(("_id", "_nums")) else 1_234_567
    return {"boolean": True, "number": 12.5, "list": ["one"], "object": {"one": 1}}.get(kind, NAME)


def row_types() -> list[type[Row]]:
    """The row types of results that are shown as tables."""
    entries = [entry for entry in ENTRIES if entry.effect is not Effect.SCREEN]
    results = [result for entry in entries for result in entry.result_types()]
    return list(dict.fromkeys(result.row_type for result in results if result.cards is Result.cards))


@pytest.mark.parametrize("width", [30, 80])
def test_what_matters_is_never_left_out(width: int) -> None:
    """At 30 columns `consumerProgress` used to show no lag, and `getBrokerConfig` names without values. At 80 columns
    `haStatus` did not show how far a slave is behind."""
    lacking = []
    for row_type in row_types():
        there = [column for column in columns(row_type) if not column.is_wide and not column.is_sparse]
        row: Any = SimpleNamespace(column_of=lambda column: column, shown=value)
        shown = {column.name for column, _ in Layout(there, [row], TableView(width, 0)).shown}
        lacking += [f"{row_type.__name__}.{name}" for name in MATTERS & {one.name for one in there} - shown]
    assert lacking == []


def test_rows_of_several_servers_say_whose_they_are() -> None:
    """`user ls` used to show the same line for each broker, so nobody saw which broker lacked a user."""
    one, other = (Listing(addr, "", {"fileReservedTime": "48"}) for addr in ("10.0.0.1:10911", "10.0.0.2:10911"))
    assert render(Configs([one]), "getBrokerConfig", Format.TABLE).split() == ["KEY", "VALUE", "fileReservedTime", "48"]
    both = render(Configs([one, other]), "getBrokerConfig", Format.TABLE).splitlines()
    assert [line.split()[0] for line in both] == ["SERVER", "10.0.0.1:10911", "10.0.0.2:10911"]


@in_one_test(
    ("is_leader", "leader"),
    ("master_addr", "master"),
    ("replica_addrs", "replicas"),
    ("queue_nums", "queues"),
    ("retry_queue_nums", "retry queues"),
    ("client_count", "clients"),
    ("skipped_count", "skipped"),
    ("commit_tps", "commit/s"),
    ("behind_bytes", "behind"),
)
def test_a_heading_is_what_people_say(field: str, said: str) -> None:
    assert heading(field) == said


def stored_message(at: int, topic: str = "orders") -> StoredMessageRow:
    row = dict.fromkeys(StoredMessageRow.__struct_fields__, "x" * 20) | {
        "message_id": f"7F0000011119281EEF4C8C23FAB4{at:04X}", "topic": topic, "queue_id": at, "queue_offset": at,
        "keys": "ORDER-12345", "tags": "paid", "stored_ms": 0, "body_size_bytes": 100, "body": "b" * 100,
    }  # fmt: skip
    return StoredMessageRow(**row)


@pytest.mark.parametrize(("width", "body_cells"), [(80, 16), (120, 24), (160, 32)])
def test_of_messages_ids_and_bodies_have_their_room_first(width: int, body_cells: int) -> None:
    """At 120 columns the body was `hell…`, no id could be copied, and every row named the same topic."""
    there = [one for one in columns(StoredMessageRow) if not one.is_wide and not one.is_sparse]
    found = {
        one.name: cells
        for one, cells in Layout(there, [stored_message(at) for at in (1, 2)], TableView(width, 0)).shown
    }
    assert found["message_id"] == 32
    assert found["body"] >= body_cells
    assert found["keys"] == len("ORDER-12345")
    assert "topic" not in found or "queue_id" in found
    several = [stored_message(1), stored_message(2, "refunds")]
    names = [one.name for one, _ in Layout(there, several, TableView(width, 0)).shown]
    assert ("topic" in names) is (width > 80)
