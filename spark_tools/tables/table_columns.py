"""The columns of each table: those of the command that prints the same, in the words of the source's other columns."""

from __future__ import annotations

from collections.abc import Iterable

from spark_tools.schema import check_names

_MESSAGE = "topic string, tags string, keys string, msgId string, properties map<string,string>"

TABLES = {
    "offsets": "group string, topic string, brokerName string, queueId int, brokerOffset bigint, "
    "consumerOffset bigint, lagCount bigint, inflightCount bigint, unread boolean, lastConsumedTimestamp timestamp",
    "queues": "topic string, brokerName string, queueId int, minOffset bigint, maxOffset bigint, messageCount bigint, "
    "unread boolean, oldestTimestamp timestamp, newestTimestamp timestamp, problem string",
    "traces": "msgId string, topic string, kind string, timestamp timestamp, group string, clientHost string, "
    "costMs bigint, outcome string, retries int, latencyMs bigint, missing boolean",
    "deadletters": "group string, brokerName string, queueId int, queueOffset bigint, msgId string, "
    "offsetMsgId string, originTopic string, originMsgId string, tags string, keys string, cause string, "
    "reconsumeTimes int, redrives int, again boolean, redriven boolean, bornTimestamp timestamp, "
    "firstFailureTimestamp timestamp, storeTimestamp timestamp, bodySize int, properties map<string,string>",
    "halves": f"{_MESSAGE}, brokerName string, queueId int, queueOffset bigint, producerGroup string, checkTimes int, "
    "bornTimestamp timestamp, storeTimestamp timestamp",
    "timers": f"{_MESSAGE}, brokerName string, queueId int, logOffset bigint, rolls int, deliverTimestamp timestamp, "
    "bornTimestamp timestamp, storeTimestamp timestamp",
}
"""Table -> its columns, as a schema text for Spark."""


def kinds_of(table: str) -> dict[str, str]:
    """Column -> Spark's name of its type."""
    pairs = (each.split(" ") for each in TABLES[table].split(", "))
    return {name: kind for name, kind in pairs}


def check_table_columns(table: str, wanted: Iterable[tuple[str, str]]) -> list[str]:
    """As ``check_names``, of the table."""
    return check_names(wanted, kinds_of(table), f"the table {table}")
