"""``--columns`` and ``--no-header``: the columns as asked for, in the formats that have columns."""

from collections.abc import Sequence
from typing import Annotated, ClassVar

import pytest

from rmqadmin.cli.output.asked_columns import AskedColumns, ask_columns
from rmqadmin.cli.output.output_format import Format
from rmqadmin.cli.output.rendering import pieces
from rmqadmin.core.results import Result, Row, doc
from rmqadmin.core.tables.layout import TableView
from tests.rmqadmin.conftest import Rmqadmin


class ClientRow(Row, frozen=True):
    client_id: Annotated[str, doc("id", key=True)]
    group: Annotated[str, doc("group", minor=True)]
    version: Annotated[str, doc("version", wide=True)]
    error: Annotated[str | None, doc("why", sparse=True)]


class Clients(Result, frozen=True):
    """Clients."""

    row_type: ClassVar[type[Row]] = ClientRow

    def rows(self) -> Sequence[ClientRow]:
        return [ClientRow(client_id="127.0.0.1@4711#123456789", group="OrderGroup", version="V5_5_0", error=None)]


class OtherRow(Row, frozen=True):
    client_count: Annotated[int, doc("clients", key=True)]


class Others(Clients, frozen=True):
    """Another answer of the same command."""

    row_type: ClassVar[type[Row]] = OtherRow


def shown(names: str | None, format: Format, width: int | None = None, *, has_header: bool = True) -> str:
    asked = ask_columns(names, format, [Others, Clients], has_header=has_header)
    return "".join(pieces(Clients(), "c", format, TableView(width), asked=asked))


@pytest.mark.parametrize(
    ("format", "text"),
    [
        (Format.TABLE, "VERSION  ERROR  GROUP\nV5_5_0   -      OrderGroup\n"),
        (Format.WIDE, "VERSION  ERROR  GROUP\nV5_5_0   -      OrderGroup\n"),
        (Format.CSV, "version,error,group\nV5_5_0,,OrderGroup\n"),
        (Format.TSV, "version\terror\tgroup\nV5_5_0\t\tOrderGroup\n"),
    ],
)
def test_the_named_columns_in_the_order_of_their_names_with_or_without_head(format: Format, text: str) -> None:
    """Also a column that only ``wide`` shows, and one that no row has."""
    assert shown("version, error,group,version", format) == text
    assert shown("version,error,group", format, has_header=False) == text.partition("\n")[2]
    assert shown(None, format, has_header=False) == shown(None, format).partition("\n")[2]


def test_named_columns_are_shortened_and_never_left_out() -> None:
    assert "GROUP" not in shown(None, Format.TABLE, 14).splitlines()[0]
    narrow = shown("group,client_id,version", Format.TABLE, 29).splitlines()
    assert narrow == ["GROUP      CLIENT     VERSION", "Orde…roup  127.…6789  V5_5_0"]
    assert shown("group,client_id,version", Format.TABLE, 5).splitlines()[0].split() == ["GROUP", "CLIENT", "VE…ON"]


@pytest.mark.parametrize(("format", "line"), [(Format.TSV, "\tOrderGroup"), (Format.TABLE, "      -  OrderGroup")])
def test_a_column_of_another_answer_is_there_and_empty(format: Format, line: str) -> None:
    assert shown("client_count,group", format, has_header=False).rstrip("\n") == line


def test_without_either_option_nothing_is_chosen() -> None:
    assert "".join(pieces(Clients(), "c", Format.TSV, TableView(), asked=AskedColumns())) == shown(None, Format.TSV)


@pytest.mark.parametrize(
    ("args", "said", "hint"),
    [
        (["--columns", "topics"], "there is no column 'topics'", "Did you mean topic? The columns are topic"),
        (["--columns", ","], "no column is named", "The columns are topic"),
        (["--columns"], "--columns needs names of columns", "The columns are topic"),
        (["--columns", "--timeout", "3"], "--columns needs names of columns", "The columns are topic"),
        (["--columns", "topic", "--output", "jsonl"], "not for jsonl", "--json FIELDS"),
        (["--columns", "topic", "--json", "topic"], "not for json", "--json FIELDS"),
        (["--no-header", "--output", "mqadmin"], "not for mqadmin", "Leave it out"),
    ],
)
def test_what_makes_no_sense_is_told_before_any_server_is_asked(
    run: Rmqadmin, args: list[str], said: str, hint: str
) -> None:
    ran = run("topicList", "-n", "127.0.0.1:1", *args)
    assert (ran.status, said in ran.err, hint in ran.err) == (2, True, True), ran.err


def test_on_the_command_line_a_card_becomes_a_row(run: Rmqadmin) -> None:
    run("explain", "17", "--columns", "name,code", "--no-header", "-o", "tsv", status=0, out="TOPIC_NOT_EXIST\t17\n")
    assert run("explain", "17", "--columns", "name,code").out.splitlines() == [
        "NAME             CODE", "TOPIC_NOT_EXIST    17",
    ]  # fmt: skip
