"""The renderer: every format of one result, as text."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Annotated, ClassVar

import msgspec
import pytest
import yaml

from rmqadmin import output, times
from rmqadmin.output import Color, Format, render
from rmqadmin.results import TIME, Result, Row, columns, doc
from rmqproto.errors import UsageError

TIMESTAMP_MS = 1_795_262_400_123


class Change(msgspec.Struct, frozen=True):
    field: str

    def __str__(self) -> str:
        return f"{self.field} changed"


class QueueRow(Row, frozen=True):
    broker: Annotated[str, doc("broker name", key=True)]
    queue_id: Annotated[int, doc("queue id", key=True)]
    tps: Annotated[float, doc("messages a second")]
    active: Annotated[bool | None, doc("whether it serves")]
    stored_ms: Annotated[int | None, TIME, doc("when")]
    addrs: Annotated[dict[int, str], doc("addresses", wide=True)]
    changes: Annotated[list[Change], doc("changes")]
    error: Annotated[str | None, doc("why", sparse=True)]


class Totals(Row, frozen=True):
    queue_count: Annotated[int, doc("queues")]
    note: Annotated[str | None, doc("a word")]


class Queues(Result, frozen=True):
    """Queues of a topic."""

    row_type: ClassVar[type[Row]] = QueueRow
    found: list[QueueRow]

    def rows(self) -> Sequence[QueueRow]:
        return self.found

    def summary(self) -> Totals:
        return Totals(queue_count=len(self.found), note=None)

    def mqadmin_text(self) -> str:
        return "as mqadmin says\n"


class Silent(Result, frozen=True):
    """Something that mqadmin does not have."""

    row_type: ClassVar[type[Row]] = QueueRow

    def rows(self) -> Sequence[QueueRow]:
        return []


def queue(broker: str = "broker-a", queue_id: int = 0, **fields: object) -> QueueRow:
    values: dict[str, object] = {
        "tps": 1.5, "active": True, "stored_ms": TIMESTAMP_MS, "addrs": {0: "h:1"}, "changes": [], "error": None,
        **fields,
    }  # fmt: skip
    return QueueRow(broker=broker, queue_id=queue_id, **values)  # type: ignore[arg-type]


TWO = Queues([queue(), queue("经纪人", 11, active=None, stored_ms=None, changes=[Change("perm"), Change("order")])])
STORED = times.iso_local(TIMESTAMP_MS)


def test_a_table_lines_up_by_terminal_cells_and_leaves_out_what_no_row_has() -> None:
    # A Chinese character is two cells wide; the sparse and the wide column are not shown.
    assert render(TWO, "c", Format.TABLE) == (
        f"BROKER    QUEUE_ID  TPS  ACTIVE  STORED{' ' * (len(STORED) - 6)}  CHANGES\n"
        f"broker-a         0  1.5  true    {STORED}\n"
        f"经纪人          11  1.5          {' ' * len(STORED)}  perm changed; order changed\n"
        "\nqueue_count: 2\n"
    )


def test_wide_shows_every_column_that_a_row_has() -> None:
    heading = render(Queues([queue(error="no")]), "c", Format.WIDE).splitlines()[0]
    assert heading.split() == ["BROKER", "QUEUE_ID", "TPS", "ACTIVE", "STORED", "ADDRS", "CHANGES", "ERROR"]


def test_json_is_one_document_with_numbers_as_numbers_and_unknown_as_null() -> None:
    document = json.loads(render(TWO, "topicStatus", Format.JSON))
    assert list(document) == ["_command", "_version", "summary", "items"]
    assert (document["_command"], document["_version"]) == ("topicStatus", 1)
    assert document["summary"] == {"queue_count": 2, "note": None}
    assert document["items"][1] == {
        "broker": "经纪人", "queue_id": 11, "tps": 1.5, "active": None, "stored_ms": None, "addrs": {"0": "h:1"},
        "changes": [{"field": "perm"}, {"field": "order"}], "error": None,
    }  # fmt: skip


def test_jsonl_is_one_item_a_line_and_under_watch_one_document_a_line() -> None:
    lines = [json.loads(line) for line in render(TWO, "c", Format.JSONL).splitlines()]
    assert [line["queue_id"] for line in lines] == [0, 11]
    assert all((line["_command"], line["_version"]) == ("c", 1) for line in lines)
    ticked = render(TWO, "c", Format.JSONL, one_line=True)
    assert ticked.count("\n") == 1
    assert len(json.loads(ticked)["items"]) == 2
    assert render(TWO, "c", Format.JSON, one_line=True) == ticked


def test_yaml_says_what_json_says() -> None:
    assert yaml.safe_load(render(TWO, "c", Format.YAML)) == {
        **json.loads(render(TWO, "c", Format.JSON)),
        "items": [dict(item, addrs={0: "h:1"}) for item in json.loads(render(TWO, "c", Format.JSON))["items"]],
    }


def test_csv_and_tsv_have_the_cells_of_the_table() -> None:
    rows = list(csv.reader(io.StringIO(render(TWO, "c", Format.CSV))))
    assert rows[0] == ["broker", "queue_id", "tps", "active", "stored", "addrs", "changes", "error"]
    assert rows[1] == ["broker-a", "0", "1.5", "true", STORED, "0=h:1", "", ""]
    assert [line.split("\t") for line in render(TWO, "c", Format.TSV).splitlines()] == rows


def test_tsv_keeps_one_row_a_line_whatever_a_cell_holds() -> None:
    text = render(Queues([queue("a\tb\nc\\d\r")]), "c", Format.TSV)
    assert text.splitlines()[1].split("\t")[0] == "a\\tb\\nc\\\\d\\r"


def test_name_is_each_key_once() -> None:
    assert render(Queues([queue(), queue(), queue("b", 3)]), "c", Format.NAME) == "broker-a/0\nb/3\n"


def test_schema_needs_no_rows() -> None:
    lines = dict(line.split("\t", 1) for line in render(TWO, "c", Format.SCHEMA).splitlines())
    assert lines["stored_ms"] == "integer or null, ms since the epoch\twhen"
    assert lines["addrs"] == "object\taddresses"
    assert output.schema([Queues, Silent]).startswith("# Queues of a topic.\nbroker\ttext")


def test_mqadmins_text_is_printed_as_it_is_and_missed_where_there_is_none() -> None:
    assert render(TWO, "c", Format.MQADMIN) == "as mqadmin says\n"
    with pytest.raises(UsageError):
        render(Silent(), "c", Format.MQADMIN)


def test_an_empty_answer_is_a_heading() -> None:
    assert render(Silent(), "c", Format.TABLE) == "BROKER  QUEUE_ID  TPS  ACTIVE  STORED  CHANGES\n"
    assert json.loads(render(Silent(), "c", Format.JSON)) == {"_command": "c", "_version": 1, "items": []}
    assert render(Silent(), "c", Format.JSONL) == ""


def test_text_from_a_server_cannot_drive_the_terminal_nor_break_a_row() -> None:
    text = render(Queues([queue("\x1b[2Jevil\nname")]), "c", Format.TABLE)
    assert "\x1b" not in text
    assert "\\x1b[2Jevil\\nname" in text


def test_on_a_terminal_text_from_a_server_is_no_markup(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "200")
    output.write(Queues([queue("[bold]broker[/bold] :smile:")]), "c", Format.TABLE, Color.NEVER)
    assert "[bold]broker[/bold] :smile:" in capsys.readouterr().out


def test_a_terminal_that_is_too_narrow_folds_cells_and_cuts_nothing_off(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    output.write(Queues([queue("b" * 60)]), "c", Format.TABLE, Color.NEVER)
    out = capsys.readouterr().out
    assert out.count("b") >= 60
    assert all(len(line) <= 40 for line in out.splitlines())


@pytest.mark.parametrize(
    ("color", "environment", "wanted"),
    [
        (Color.AUTO, {}, False),  # no terminal
        (Color.ALWAYS, {"NO_COLOR": "1"}, True),
        (Color.AUTO, {"FORCE_COLOR": "1"}, True),
        (Color.AUTO, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        (Color.AUTO, {"FORCE_COLOR": "1", "TERM": "dumb"}, False),
        (Color.NEVER, {"FORCE_COLOR": "1"}, False),
    ],
)
def test_colour_follows_the_conventions(
    monkeypatch: pytest.MonkeyPatch, color: Color, environment: dict[str, str], wanted: bool
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert output.wants_color(color, io.StringIO()) is wanted


def test_every_field_is_documented_and_in_snake_case() -> None:
    from rmqadmin.command_tree import all_commands

    for command in all_commands():
        for result in command.results:
            found = columns(result.row_type)
            assert any(column.is_key for column in found), f"{result.__name__} has no key for --output name"
            for column in found:
                where = f"{result.row_type.__name__}.{column.name}"
                assert column.description, f"{where} is not documented"
                assert column.name == column.name.lower(), where
                assert not column.is_time or column.name.endswith("_ms"), where
