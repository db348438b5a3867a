"""The columns that a frame needs to be written to a topic. Errors appear when the query is planned, not in its
tasks."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from rmqproto.errors import UsageError
from spark_tools.source_options import parse_write_options
from spark_tools.writer import INPUT_COLUMNS, check_input


def check(columns: dict[str, str], **options: str) -> None:
    check_input(list(columns.items()), parse_write_options({"nameServer": "h:1", **options}))


def test_every_column_of_the_manual_is_taken():
    assert set(INPUT_COLUMNS) == {
        "body", "topic", "tags", "keys", "properties", "queueId", "brokerName", "shardingKey", "delayTimeLevel",
        "deliverTimestamp", "flag",
    }  # fmt: skip
    for kind in (0, -1):
        check({name: kinds[kind] for name, kinds in INPUT_COLUMNS.items()})


@pytest.mark.parametrize(
    ("columns", "options", "problem"),
    [
        ({"topic": "string"}, {}, "a column body is needed"),
        ({"body": "binary"}, {}, "a column topic, or the option topic"),
        ({"body": "int"}, {"topic": "T"}, "body is int and should be binary or string"),
        ({"body": "string", "tag": "string"}, {"topic": "T"}, "column tag has no meaning here"),
        ({"body": "string", "properties": "map<string,int>"}, {"topic": "T"}, "properties is map<string,int>"),
        ({"body": "string"}, {"topic": "T", "queueSelector": "source"}, "needs the columns brokerName and queueId"),
        ({"body": "string"}, {"topic": "T", "queueSelector": "key"}, "needs the column shardingKey"),
        ({"body": "string"}, {"topic": "T", "onReject": "file"}, "belong together"),
        ({"body": "string"}, {"topic": "T", "rejectPath": "/x"}, "belong together"),
        ({"body": "string"}, {"topic": "T", "batchsizes": "3"}, "no option batchsizes"),
    ],
)
def test_what_would_be_ignored_or_fail_later_is_refused(columns, options, problem):
    with pytest.raises(UsageError, match=problem):
        check(columns, **options)
