"""``msg export``: writes messages of a topic to a file or to standard output, with everything known about them."""

import sys
from collections.abc import Iterator, Sequence
from typing import Annotated

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.common_options import Value, argument, option
from rmqadmin.cli.options.message_options import ConditionOptions, StopAfter, WindowOptions
from rmqadmin.cli.output import diagnostics
from rmqadmin.cli.run_progress import StageLines
from rmqadmin.core.messages.bodies_in import STANDARD_INPUT
from rmqadmin.core.messages.files.formats import FileFormat, checked_format, encoded, write_whole
from rmqadmin.core.messages.message_source import QueueReader, Sieve, SiftExtent, covered_text, sifted
from rmqadmin.core.messages.queue_reading import places
from rmqadmin.core.results import ResultOf, Row, doc
from rmqproto.errors import UsageError
from rmqproto.filters.message_conditions import MessageConditions, compile_conditions


class ExportRow(Row, frozen=True):
    file: Annotated[str, doc("what was written", key=True)]
    format: Annotated[str, doc("jsonl, msgpack or parquet")]
    messages: Annotated[int, doc("messages in it", vital=True)]
    file_size_bytes: Annotated[int, doc("its size")]
    topic: Annotated[str, doc("where they came from")]


class ExportedMessages(ResultOf[ExportRow], frozen=True):
    """The file that was written. Standard output, where it is the file, has the messages instead."""

    sieve: Sieve
    written: ExportRow | None = None
    parts: Iterator[bytes] | None = None

    def rows(self) -> Sequence[ExportRow]:
        return [self.written] if self.written is not None else []

    def raw(self) -> Iterator[bytes] | None:
        return self.parts

    def remark(self) -> str | None:
        return str(self.sieve)

    def stopped_by(self, error: BaseException) -> str | None:
        if self.parts is not None:
            self.sieve.end_by(error)
        return str(self.sieve)


def msg_export(
    call: Call,
    window: WindowOptions,
    conditions: ConditionOptions,
    topic: Annotated[str, Value.TOPIC, argument("Topic name.")],
    file: Annotated[
        str, Value.FILE, argument("Default: -, standard output. Its name says the format.", metavar="[FILE|-]")
    ] = STANDARD_INPUT,
    format: Annotated[FileFormat | None, option("--format", "Default: by the name of FILE, else jsonl.")] = None,
    limit: StopAfter = None,
    overwrite: Annotated[bool, option("--overwrite", "Replace FILE if it exists.")] = False,
) -> ExportedMessages:
    """Keeps bodies, properties, keys, tags, flags and born times to the byte: `msg import` makes the same messages from
    them. FILE gets its name when it is complete. Parquet needs pip install 'rmqadmin[spark]'.

      rmqadmin msg export OrderTopic orders.jsonl --from -1d --overwrite
      rmqadmin msg export OrderTopic orders.msgpack --tag paid --overwrite
      rmqadmin msg export OrderTopic --limit 10
    """
    path = None if file == STANDARD_INPUT else file
    wanted = checked_format(path, format, overwrite=overwrite)
    if path is None and wanted is not FileFormat.JSONL and sys.stdout.isatty():
        raise UsageError(f"{wanted} is nothing for a terminal", hint="Name a FILE, or write > FILE.")
    try:
        between = window.between(call.now_ms(), call.notice)
    except UsageError as error:
        if path is None and window.end is not None and str(error).startswith("--to"):
            hint = f"--to is a time; to write to a file: rmqadmin msg export {topic} {window.end}"
            raise UsageError(str(error), hint=hint) from None
        raise
    sieve = Sieve(
        compile_conditions(
            MessageConditions(start_time_ms=between.begin_ms, end_time_ms=between.end_ms, **conditions.as_conditions())
        )
    )
    reader = QueueReader(call.admin, conditions.tag, sieve, call.notice)
    found = places(call.admin, topic, between, window.queues or [], notice=call.notice)
    sieve.covered = covered_text(is_part=window.is_given)
    batches = sifted(reader, found, SiftExtent(limit))
    parts = encoded(batches, wanted, call.command)
    if path is None:
        return ExportedMessages(sieve, parts=parts)
    size_bytes = _write(path, parts, sieve)
    row = ExportRow(
        file=path, format=wanted.value, messages=sieve.matched_count, file_size_bytes=size_bytes, topic=topic
    )
    return ExportedMessages(sieve, written=row)


def _write(path: str, parts: Iterator[bytes], sieve: Sieve) -> int:
    """``write_whole`` with progress."""
    stage = StageLines(counted="written", at_once=False)
    told_count = 0

    def tell() -> None:
        nonlocal told_count
        stage.read(sieve.matched_count - told_count)
        told_count = sieve.matched_count

    stage(f"exporting to {path}")
    try:
        return write_whole(path, parts, tell)
    except KeyboardInterrupt as error:
        sieve.end_by(error)
        diagnostics.notice(f"{path} is not written: {sieve}")
        raise
    finally:
        stage.stop()
