"""``dumpCompactionLog``: shows the messages in a file of a compacted topic's log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core.messages.lookup import FoundMessage, found_message
from rmqadmin.core.messages.message_rows import StoredMessageRow, message_ext_text, message_values, unpacked
from rmqadmin.core.results import Result, Row
from rmqproto.errors import ProtocolError, StorageError, UsageError
from rmqproto.message.record import MAGIC_BLANK, StoredMessage, decode_record_untrusted

FILE_SIZE_MAX_BYTES = 2 << 30
"""Apache maps the file, which cannot be larger than this."""

_BLANK_MAGIC = MAGIC_BLANK.to_bytes(4, "big", signed=True)
"""Stands behind its size, where a full file of a commit log has no room for another message."""


class LoggedMessages(Result, frozen=True):
    """The messages of a file, up to the first bytes that are not a message."""

    row_type: ClassVar[type[Row]] = StoredMessageRow
    found: list[FoundMessage]
    broken: str | None = None
    """What is wrong with the bytes behind the last message; None if nothing is."""

    def rows(self) -> Sequence[StoredMessageRow]:
        return [StoredMessageRow(**message_values(message)) for message in self.found]

    def mqadmin_text(self) -> str:
        return "".join(f"{message_ext_text(message, message.stored.body)}\n" for message in self.found)

    def damage(self) -> str | None:
        return self.broken


def dump_compaction_log(
    call: Call,
    file: Annotated[
        str | None,
        Value.FILE,
        typer.Option("-f", "--file", metavar="FILE", help="A file of store/compaction/compactionLog."),
    ] = None,
) -> LoggedMessages:
    """Asks no server. Only reads the file; mqadmin maps it for writing. Any file of whole records will do, such as one
    of a commit log.

    Examples:
      rmqadmin dumpCompactionLog -f compaction.log
      rmqadmin -o jsonl dumpCompactionLog -f compaction.log
    """
    if file is None:
        raise UsageError("miss dump log file name", hint="Give it with -f.")
    path = Path(file.strip())
    if path.is_dir():
        raise UsageError(f"file {path} is a directory.", hint="Give one of the files in it.")
    try:
        if path.stat().st_size > FILE_SIZE_MAX_BYTES:
            raise UsageError(f"{path} is larger than 2 GiB", hint="A file of a log has at most 1 GiB.")
        data = path.read_bytes()
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from None
    records, broken = _records(data)
    if broken is not None and not records:
        raise UsageError(f"{path} is not a log: {broken}", hint="The files of a log are named by 20 digits.")
    found = [unpacked(found_message(stored, "", ""), call.notice) for stored in records]
    return LoggedMessages(found, broken and f"{path} is damaged: {broken}")


def _records(data: bytes) -> tuple[list[StoredMessage], str | None]:
    """The messages up to the first bytes that are not a message, and what is wrong with these bytes: nothing if they
    are a blank record, or zeros, which means that the rest is not written yet."""
    at = 0
    found: list[StoredMessage] = []
    while at < len(data):
        try:
            message = decode_record_untrusted(data, at)
        except ProtocolError as error:
            is_end = data.startswith(_BLANK_MAGIC, at + 4) or data.count(0, at) == len(data) - at
            return found, None if is_end else str(error)
        found.append(message)
        at += message.size_bytes
    return found, None
