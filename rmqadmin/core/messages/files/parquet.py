"""Messages as Parquet, with the columns of Spark's ``rocketmq`` source (``spark_tools.schema``). Spark reads a file of
``msg export`` as it reads a topic, and a file of ``spark-replay --to file:`` can be imported.

pyarrow comes with the extra ``[spark]``; it is imported only when it is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from rmqadmin.core.messages.files.exported_message import ExportedMessage
from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.messages.message_rows import is_damaged
from rmqadmin.core.names import did_you_mean
from rmqproto.errors import ProtocolError, UsageError
from rmqproto.message import properties as props
from rmqproto.message.record import host_text
from rmqproto.message.sys_flag import COMPRESSED, COMPRESSION_TYPE_MASK, compression_of

if TYPE_CHECKING:
    import pyarrow as pa

ROW_GROUP_MESSAGES_MAX = 20_000
ROW_GROUP_SIZE_MAX_BYTES = 32 << 20
"""The memory limit: a row group is written as a whole."""
READ_MESSAGES = 256
"""Rows read at once."""
BORN_MS_MAX = (1 << 63) // 1000 - 1
"""Times are microseconds in Parquet."""
COLUMNS = (
    "topic", "brokerName", "queueId", "queueOffset", "logOffset", "storeSize", "sysFlag", "flag", "bornTimestamp",
    "storeTimestamp", "bornHost", "storeHost", "reconsumeTimes", "preparedTransactionOffset", "msgId", "offsetMsgId",
    "tags", "keys", "properties", "body", "originTopic",
)  # fmt: skip
CORRUPT = "corrupt"
"""A column that Spark's source may add: why a message could not be read."""


def check_installed() -> None:
    """UsageError if pyarrow is missing."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        hint = "pip install 'rmqadmin[spark]', or choose jsonl or msgpack."
        raise UsageError("Parquet needs the package pyarrow", hint=hint) from None


class ParquetFileWriter:
    """Writes ``unpacked`` messages. ``close`` writes the end, without which the file is not valid."""

    def __init__(self, out: BinaryIO):
        import pyarrow as pa
        import pyarrow.parquet as pq

        from spark_tools.schema import arrow_type

        self._schema = pa.schema([(name, arrow_type(name)) for name in COLUMNS])
        self._writer = pq.ParquetWriter(out, self._schema)
        self._rows: list[dict[str, Any]] = []
        self._size_bytes = 0

    def write(self, messages: Iterable[FoundMessage]) -> None:
        """UsageError for a message that Parquet cannot hold."""
        for message in messages:
            self._rows.append(_row(message))
            self._size_bytes += message.stored.size_bytes
            if len(self._rows) >= ROW_GROUP_MESSAGES_MAX or self._size_bytes >= ROW_GROUP_SIZE_MAX_BYTES:
                self._flush()

    def close(self) -> None:
        if self._rows:
            self._flush()
        self._writer.close()

    def _flush(self) -> None:
        import pyarrow as pa

        self._writer.write_table(pa.Table.from_pylist(self._rows, schema=self._schema), len(self._rows))
        self._rows, self._size_bytes = [], 0


def _row(message: FoundMessage) -> dict[str, Any]:
    from rmqreplay.sending.redrive import origin_topic_of

    stored, found = message.stored, message.properties
    if is_damaged(message):
        raise _unfit(message, "its properties are not UTF-8")
    if abs(stored.born_timestamp_ms) > BORN_MS_MAX:
        raise _unfit(message, f"its born time, {stored.born_timestamp_ms} ms, is too far off")
    packed_bits = COMPRESSED | COMPRESSION_TYPE_MASK
    return {
        "topic": stored.topic,
        "brokerName": message.broker_name,
        "queueId": stored.queue_id,
        "queueOffset": stored.queue_offset,
        "logOffset": stored.log_offset,
        "storeSize": stored.size_bytes,
        "sysFlag": stored.sys_flag if message.packed else stored.sys_flag & ~packed_bits,
        "flag": stored.flag,
        "bornTimestamp": stored.born_timestamp_ms * 1000,
        "storeTimestamp": stored.store_timestamp_ms * 1000,
        "bornHost": host_text(stored.born_host),
        "storeHost": host_text(stored.store_host),
        "reconsumeTimes": stored.reconsume_times,
        "preparedTransactionOffset": stored.prepared_transaction_offset,
        "msgId": message.message_id,
        "offsetMsgId": stored.message_id,
        "tags": found.get(props.TAGS),
        "keys": found.get(props.KEYS),
        "properties": list(found.items()),
        "body": stored.body,
        "originTopic": origin_topic_of(found, stored.topic),
    }


def _unfit(message: FoundMessage, why: str) -> UsageError:
    place = f"{message.stored.topic}@{message.broker_name}:{message.stored.queue_id}:{message.stored.queue_offset}"
    return UsageError(f"Parquet cannot hold the message {place}: {why}", hint="jsonl and msgpack can.")


# --- reading ---------------------------------------------------------------------------------------------------------


def read_parquet_untrusted(file: BinaryIO) -> Iterator[ExportedMessage]:
    """The messages. ProtocolError for a file that is not Parquet, or has no bodies."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file) as found:
            names = set(found.schema_arrow.names)
            if "body" not in names or "topic" not in names:
                raise ProtocolError("this Parquet file has no columns topic and body", hint="`msg export` writes them.")
            strange = sorted(names - {*COLUMNS, CORRUPT})
            if strange:
                hint = did_you_mean(strange[0], COLUMNS) or f"Known are: {', '.join(COLUMNS)}."
                raise ProtocolError(f"this Parquet file has a column {strange[0]!r}, which no message has", hint=hint)
            wanted = [name for name in COLUMNS if name in names]
            for batch in found.iter_batches(READ_MESSAGES, columns=wanted):
                yield from map(_message, _plain_rows(batch))
    except (pa.ArrowException, OSError, TypeError, ValueError) as error:
        raise ProtocolError(f"this Parquet file cannot be read: {str(error).splitlines()[0]}") from None


def _plain_rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """The rows, with times in microseconds, because Python's own times are limited to its calendar."""
    import pyarrow as pa

    columns = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        plain = column.cast(pa.timestamp("us")).cast(pa.int64()) if name.endswith("Timestamp") else column
        columns[name] = plain.to_pylist()
    return (dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True))


def _message(row: dict[str, Any]) -> ExportedMessage:
    """A message from a row. ProtocolError for a column of another type. Without ``builtin_types``, text would be taken
    for Base64."""
    sys_flag = int(row.get("sysFlag") or 0)
    # A table that people make may have tags and keys only in columns of their own.
    named = {name: text for name, text in ((props.TAGS, row.get("tags")), (props.KEYS, row.get("keys"))) if text}
    fields = dict(
        message_id=row.get("msgId") or "",
        offset_message_id=row.get("offsetMsgId") or "",
        topic=row["topic"] or "",
        broker_name=row.get("brokerName"),
        queue_id=row.get("queueId"),
        queue_offset=row.get("queueOffset"),
        log_offset=row.get("logOffset"),
        born_ms=_ms(row.get("bornTimestamp")),
        stored_ms=_ms(row.get("storeTimestamp")),
        born_host=row.get("bornHost"),
        store_host=row.get("storeHost"),
        reconsume_times=row.get("reconsumeTimes") or 0,
        sys_flag=sys_flag,
        flag=row.get("flag") or 0,
        properties=dict(row.get("properties") or ()) | named,
        body=row["body"] or b"",
        body_compression=compression_of(sys_flag),
    )
    try:
        return msgspec.convert(fields, ExportedMessage, builtin_types=(bytes,))
    except msgspec.ValidationError as error:
        raise ProtocolError(f"a row of this Parquet file is not a message: {error}") from None


def _ms(microseconds: int | None) -> int | None:
    return None if microseconds is None else microseconds // 1000
