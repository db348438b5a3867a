"""The renderer: every format of a single result, as text."""

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar

import msgspec
import pytest
import yaml

from rmqadmin.cli.output.asked_columns import Look
from rmqadmin.cli.output.output_format import Color, Format, wants_color
from rmqadmin.cli.output.rendering import pieces, render, schema, write
from rmqadmin.core import units
from rmqadmin.core.results import TIME, Result, Row, columns, doc
from rmqadmin.core.tables.layout import TableView, summary_lines
from rmqproto import times
from rmqproto.errors import UsageError
from tests.rmqadmin.conftest import Rmqadmin

TIMESTAMP_MS = 1_795_262_400_123


class Change(msgspec.Struct, frozen=True):
    field: str

    def __str__(self) -> str:
        return f"{self.field} changed"


class QueueRow(Row, frozen=True):
    broker: Annotated[str, doc("broker name", key=True)]
    queue_id: Annotated[int, doc("queue id", key=True)]
    in_tps: Annotated[float, doc("messages a second")]
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
        "in_tps": 1.5, "active": True, "stored_ms": TIMESTAMP_MS, "addrs": {0: "h:1"}, "changes": [], "error": None,
        **fields,
    }  # fmt: skip
    return QueueRow(broker=broker, queue_id=queue_id, **values)  # type: ignore[arg-type]


TWO = Queues([queue(), queue("经纪人", 11, active=None, stored_ms=None, changes=[Change("perm"), Change("order")])])
STORED = times.iso_local(TIMESTAMP_MS)


def test_a_table_lines_up_by_terminal_cells_and_leaves_out_what_no_row_has() -> None:
    # A Chinese character is two cells wide; the sparse and the wide column are not shown.
    view = TableView(now_ms=TIMESTAMP_MS + 4 * 60_000)
    assert render(TWO, "c", Format.TABLE, view=view) == (
        "BROKER    QUEUE  IN/S  ACTIVE  STORED  CHANGES\n"
        "broker-a      0   1.5  yes     4m ago  -\n"
        "经纪人       11   1.5  -       -       perm changed; order changed\n"
        "\nQueues: 2\n"
    )


def test_wide_shows_every_column_that_a_row_has_and_moments_instead_of_ages() -> None:
    head, row = render(Queues([queue(error="no")]), "c", Format.WIDE).splitlines()[:2]
    assert head.split() == ["BROKER", "QUEUE", "IN/S", "ACTIVE", "STORED", "ADDRS", "CHANGES", "ERROR"]
    assert units.moment(TIMESTAMP_MS) in row


def test_json_is_one_document_with_numbers_as_numbers_and_unknown_as_null() -> None:
    document = json.loads(render(TWO, "topicStatus", Format.JSON))
    assert list(document) == ["_command", "_version", "summary", "items"]
    assert (document["_command"], document["_version"]) == ("topicStatus", 1)
    assert document["summary"] == {"queue_count": 2, "note": None}
    assert document["items"][1] == {
        "broker": "经纪人", "queue_id": 11, "in_tps": 1.5, "active": None, "stored_ms": None, "addrs": {"0": "h:1"},
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
    assert yaml.safe_load(render(TWO, "c", Format.YAML)) == json.loads(render(TWO, "c", Format.JSON))


def test_csv_and_tsv_have_the_cells_of_the_table() -> None:
    rows = list(csv.reader(io.StringIO(render(TWO, "c", Format.CSV))))
    assert rows[0] == ["broker", "queue_id", "in_tps", "active", "stored", "addrs", "changes", "error"]
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
    assert schema([Queues, Silent]).startswith("# Queues of a topic.\nbroker\ttext")


def test_mqadmins_text_is_printed_as_it_is_and_missed_where_there_is_none() -> None:
    assert render(TWO, "c", Format.MQADMIN) == "as mqadmin says\n"
    with pytest.raises(UsageError):
        render(Silent(), "c", Format.MQADMIN)


class Rates(Row, frozen=True):
    mb_tps: Annotated[float, doc("megabytes a second")]
    seconds: Annotated[float, doc("how long it took")]


def test_a_summary_keeps_the_capitals_of_units() -> None:
    lines = summary_lines(columns(Rates), Rates(1.5, 2), TableView())
    assert [line.partition(":")[0] for line in lines] == ["MB/s", "Duration"]


def test_an_empty_answer_is_a_heading() -> None:
    assert render(Silent(), "c", Format.TABLE) == "BROKER  QUEUE  IN/S  ACTIVE  STORED  CHANGES\n"
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
    write(Queues([queue("[bold]broker[/bold] :smile:")]), "c", Look(Format.TABLE, Color.NEVER))
    assert "[bold]broker[/bold] :smile:" in capsys.readouterr().out


def test_a_terminal_that_is_too_narrow_shortens_cells_and_keeps_one_line_a_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    write(Queues([queue("b" * 30 + "c" * 30)]), "c", Look(Format.TABLE, Color.NEVER))
    head, row, *_ = lines = capsys.readouterr().out.splitlines()
    assert head.startswith("BROKER")
    assert re.match("b+…c+ ", row)
    assert all(len(line) <= 40 for line in lines)


def test_what_is_wrong_is_red_and_colours_cost_no_width() -> None:
    view = TableView(now_ms=TIMESTAMP_MS, has_color=True)
    plain, coloured = (
        render(Queues([queue(active=False)]), "c", Format.TABLE, view=each)
        for each in (TableView(now_ms=TIMESTAMP_MS), view)
    )
    assert "\x1b[31mno\x1b[0m" in coloured
    assert re.sub("\x1b\\[\\d*m", "", coloured) == plain


class Stream(Queues, frozen=True):
    """Rows without an end."""

    def is_endless(self) -> bool:
        return True

    def batches(self) -> Iterator[Sequence[QueueRow]]:
        yield from ([row] for row in self.found)


def test_rows_without_an_end_are_shown_as_they_come_or_not_at_all() -> None:
    rows = Stream([queue(), queue("b", 1)])
    for format in (Format.TABLE, Format.JSONL, Format.CSV, Format.TSV, Format.NAME):
        parts = list(pieces(rows, "c", format, TableView()))
        assert sum("broker-a" in part for part in parts) == 1
        assert not any("broker-a" in part and "b/1" in part for part in parts)
    with pytest.raises(UsageError, match="no end"):
        list(pieces(rows, "c", Format.JSON, TableView()))


@pytest.mark.parametrize(
    ("color", "environment", "wanted"),
    [
        (Color.AUTO, {}, False),  # not a terminal
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
    assert wants_color(color, io.StringIO()) is wanted


def test_every_field_is_documented_and_in_snake_case() -> None:
    from rmqadmin.cli.parsing.command_tree import all_commands

    for command in all_commands():
        for result in command.results:
            found = columns(result.row_type)
            assert any(column.is_key for column in found), f"{result.__name__} has no key for --output name"
            for column in found:
                where = f"{result.row_type.__name__}.{column.name}"
                assert column.description, f"{where} is not documented"
                assert column.name == column.name.lower(), where
                assert not column.is_time or column.name.endswith("_ms"), where


def test_every_heading_is_words_and_names_one_column_of_its_table() -> None:
    from rmqadmin.cli.parsing.command_tree import all_commands

    for command in all_commands():
        for result in command.results:
            heads = [column.heading for column in columns(result.row_type)]
            assert not any("_" in head for head in heads), f"{result.__name__}: {heads}"
            twice = {head for head in heads if heads.count(head) > 1}
            assert not twice, f"{result.__name__} has two columns {twice}"


@pytest.mark.parametrize(("said", "meant"), [("ndjson", "jsonl"), ("jso", "json"), ("yml", "yaml")])
def test_a_format_by_another_programs_name_is_named(run: Rmqadmin, said: str, meant: str) -> None:
    run("topicList", "-o", said, status=2, err=f"hint: Did you mean {meant}? The formats are table, wide, ")
