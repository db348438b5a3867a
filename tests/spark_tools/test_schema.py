"""The columns of the source, and how a user's own schema may name them."""

import pytest

from rmqproto.errors import UsageError
from spark_tools.arrow_records import BatchMaker, BatchOptions
from spark_tools.schema import NAMES, check_columns, ddl

KINDS = {
    "topic": "string", "brokerName": "string", "queueId": "int", "queueOffset": "bigint", "logOffset": "bigint",
    "storeSize": "int", "sysFlag": "int", "flag": "int", "bornTimestamp": "timestamp", "storeTimestamp": "timestamp",
    "bornHost": "string", "storeHost": "string", "reconsumeTimes": "int", "preparedTransactionOffset": "bigint",
    "msgId": "string", "offsetMsgId": "string", "tags": "string", "keys": "string",
    "properties": "map<string,string>", "body": "binary", "originTopic": "string", "corrupt": "string",
}  # fmt: skip


def columns_of(text: str) -> dict[str, str]:
    return dict(column.split(" ") for column in text.split(", "))


def test_the_schema_is_what_the_manual_says():
    assert columns_of(ddl(corrupt=True)) == KINDS
    assert set(KINDS) - set(columns_of(ddl())) == {"corrupt"}
    assert set(KINDS) - set(columns_of(ddl(include_body=False))) == {"corrupt", "body"}
    assert set(KINDS) - set(columns_of(ddl(properties="none"))) == {"corrupt", "properties"}
    assert columns_of(ddl(properties="raw"))["properties"] == "string"


def test_any_subset_in_any_order_is_honoured():
    for names in (["body", "topic"], [*reversed(NAMES)]):
        assert check_columns([(name, KINDS[name]) for name in names], corrupt=True) == names
        assert BatchMaker(BatchOptions(columns=names)).schema.names == names


@pytest.mark.parametrize(
    ("name", "kind", "problem"),
    [
        ("Topic", "string", "no column Topic"),
        ("queueId", "bigint", "queueId is int, not bigint"),
        ("properties", "string", "properties is map<string,string>, not string"),
        ("corrupt", "string", "onCorrupt=column"),
        ("topic", "string", "there are two columns topic"),
    ],
)
def test_a_column_that_would_be_empty_or_wrong_is_refused(name, kind, problem):
    with pytest.raises(UsageError, match=problem):
        check_columns([("topic", "string"), (name, kind)])
