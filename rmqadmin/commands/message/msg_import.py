"""``msg import``: sends the messages of a file unchanged. They are checked first, the import can be resumed, and every
refusal is reported."""

import contextlib
import hashlib
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, BinaryIO, NamedTuple

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.common_options import Value, argument, option
from rmqadmin.cli.options.message_options import Rate
from rmqadmin.cli.run_progress import StageLines
from rmqadmin.core.messages.bodies_in import STANDARD_INPUT
from rmqadmin.core.messages.files.exported_message import ExportedMessage
from rmqadmin.core.messages.files.formats import FileFormat, format_of_content, read_untrusted
from rmqadmin.core.messages.importing import progress_file
from rmqadmin.core.messages.importing.importer import Importer, forget
from rmqadmin.core.messages.importing.progress_file import ImportProgress, is_still_there
from rmqadmin.core.messages.importing.send_lanes import (
    Checked,
    Lanes,
    QueuesByTopic,
    RefusedRow,
    check_messages,
    check_named_queues,
    target_queues,
)
from rmqadmin.core.results import SENT_UNTOLD, FoundRows, Row, doc
from rmqproto.errors import ConnectError, ProtocolError, RequestTimeoutError, UsageError
from rmqproto.times import iso_local
from rmqproto.wording import counted

_COPY_SIZE_BYTES = 1 << 20
_SPOKEN = "standard input"


class ImportTotals(Row, frozen=True):
    file: Annotated[str, doc("what was read; - is standard input")]
    format: Annotated[str, doc("jsonl, msgpack or parquet")]
    messages: Annotated[int, doc("messages in it")]
    size_bytes: Annotated[int, doc("their bodies and properties")]
    topics: Annotated[str, doc("where they go, with counts")]
    executed: Annotated[bool, doc("false after --dry-run, and if nothing was sent because of refusals")]
    sent: Annotated[int | None, doc("messages that were stored, by this run and earlier ones", sparse=True)]
    present: Annotated[int | None, doc("messages that an earlier run had sent without noting it", sparse=True)]
    refused: Annotated[int, doc("messages that no broker takes, or that the broker did not take")]
    seconds: Annotated[float | None, doc("how long this run took", sparse=True)]


class ImportedMessages(FoundRows[RefusedRow], frozen=True):
    """Messages that were not taken, and how many were."""

    totals: ImportTotals
    is_refusing: bool = False

    def summary(self) -> Row:
        return self.totals

    def stopped_by(self, error: BaseException) -> str | None:
        return SENT_UNTOLD if self.totals.executed else None

    def problem(self) -> str | None:
        if not self.totals.refused:
            return None
        what = f"{self.totals.refused:,} of {counted(self.totals.messages, 'message')} cannot be imported"
        return f"{what}: nothing was sent; --skip-refused sends the others" if self.is_refusing else what


def msg_import(
    call: Call,
    file: Annotated[str, Value.FILE, argument("What `msg export` wrote; - is standard input.", metavar="FILE|-")],
    to: Annotated[str | None, Value.TOPIC, option("--to", "Send to this topic. Default: where each came from.")] = None,
    format: Annotated[FileFormat | None, option("--format", "Default: by the beginning of FILE.")] = None,
    rate: Rate = None,
    skip_refused: Annotated[bool, option("--skip-refused", "Leave out messages that no broker would take.")] = False,
    resume: Annotated[bool, option("--resume", "Continue where an import of the same file stopped.")] = False,
    restart: Annotated[
        bool, option("--restart", "Start over, after the end too: messages already sent are sent twice.")
    ] = False,
) -> ImportedMessages:
    """The whole file is read before the first message is sent. A copy keeps the body, properties, key, tag, unique key,
    flag and born time of its message. Messages of one queue go to one queue, in their order.

      rmqadmin msg import orders.jsonl --dry-run
      rmqadmin msg import orders.msgpack --to CopyTopic --rate 500 --yes
    """
    if resume and restart:
        raise UsageError("--resume and --restart exclude each other")
    if file == STANDARD_INPUT:
        call.tell_if_typed("lines of JSON")
    with _opened(file) as source:
        asked = _Asked(
            _SPOKEN if file == STANDARD_INPUT else file, source, format_of_content(source, format), to, rate,
            skip_refused=skip_refused, resume=resume, restart=restart,
        )  # fmt: skip
        return _import(call, asked)


class _Asked(NamedTuple):
    """What to import, and how. ``name`` is the file's, for people; ``rate`` is in messages a second."""

    name: str
    source: BinaryIO
    format: FileFormat
    to: str | None
    rate: float | None
    skip_refused: bool
    resume: bool
    restart: bool

    def messages(self) -> Iterator[ExportedMessage]:
        """All messages, from the file's beginning. UsageError, with the file's name, for those that cannot be read."""
        try:
            yield from read_untrusted(self.source, self.format)
        except ProtocolError as error:
            raise UsageError(f"{self.name}: {error}", hint=error.hint) from None


def _import(call: Call, asked: _Asked) -> ImportedMessages:
    digest = hashlib.file_digest(asked.source, "sha256").hexdigest()  # type: ignore[arg-type] # all files have readinto
    checked = _checked(asked)
    queues = target_queues(call.admin, sorted(checked.topics))
    check_named_queues(checked, queues)
    namesrv_addrs = list(call.admin.namesrv_addrs)
    path = progress_file.progress_path(digest, namesrv_addrs, sorted(checked.topics))
    finished = None if asked.restart else _finished(call, path, asked, queues)
    if not checked.count:
        call.notice(f"there is no message in {asked.name}")
    if call.dry_run or (checked.refused_count and not asked.skip_refused):
        if finished is not None:
            call.notice(finished)
        totals = _totals(asked, checked, None, None)
        return ImportedMessages(checked.refused, totals, is_refusing=not call.dry_run)
    if finished is not None and (asked.resume or not call.can_ask):
        raise UsageError(finished, hint="--restart sends them all again.")
    progress = _earlier(path, asked) or ImportProgress(
        source=asked.name, digest=digest, namesrv_addrs=namesrv_addrs, to=asked.to, total_count=checked.count
    )
    topics = ", ".join(sorted(checked.topics))
    left_count = checked.count - checked.refused_count - progress.done_count
    question = f"This sends {counted(max(0, left_count), 'message')} to {topics}."
    if checked.count:
        call.confirm(question if finished is None else f"{finished}. {question[:-1]} again.", topics)
    began_s = time.monotonic()
    weakly_stored_count = _send(call, asked, queues, progress, path)
    if weakly_stored_count:
        call.notice(f"not yet on the disk or on a slave, but stored: {counted(weakly_stored_count, 'message')}")
    totals = _totals(asked, checked, progress, round(time.monotonic() - began_s, 3))
    return ImportedMessages(progress.refused, totals)


def _send(call: Call, asked: _Asked, queues: QueuesByTopic, progress: ImportProgress, path: Path) -> int:
    """Sends what ``progress`` lacks. Returns how many messages are not yet as safe as their brokers are set to make
    them. If it fails after something may have been sent, ``path`` keeps the progress, and the user is told how to
    continue."""
    stage = StageLines(counted="imported", at_once=False)
    settings = call.settings
    lanes = Lanes(settings.credentials(), settings.tls(), settings.address_map(), call.admin.timeout_s)
    importer = Importer(call.admin, queues, progress, path, lanes, rate=asked.rate, on_done=stage.read)
    stage(f"importing {asked.name}")
    try:
        importer.go_on() if asked.resume else importer.begin()
        importer.run(asked.messages())
    except BaseException as error:  # Ctrl-C, too
        stage.stop()
        if isinstance(error, UsageError):
            pass  # another target: there is nothing to go on with
        elif importer.has_sent or isinstance(error, (ConnectError, RequestTimeoutError, KeyboardInterrupt)):
            done = f"{progress.done_count:,} of {counted(progress.total_count, 'message')} are done"
            to = f" --to {shlex.quote(asked.to)}" if asked.to else ""
            file = STANDARD_INPUT if asked.name == _SPOKEN else asked.name
            call.notice(f"{done}; to continue: rmqadmin msg import {shlex.quote(file)}{to} --resume")
        else:
            forget(path)  # certainly nothing was sent
        raise
    finally:
        stage.stop()
        lanes.close()
    importer.finish()
    return importer.weakly_stored_count


def _checked(asked: _Asked) -> Checked:
    stage = StageLines(at_once=False)
    stage(f"checking {asked.name}")
    try:
        return check_messages(asked.messages(), asked.to, stage.read)
    finally:
        stage.stop()


def _finished(call: Call, path: Path, asked: _Asked, queues: QueuesByTopic) -> str | None:
    """That the file was imported before, in words; None if it was not, or the target no longer has what was sent."""
    found = progress_file.load(path)
    if found is None or found.finished_ms is None:
        return None
    if not is_still_there(call.admin, {queue: addr for each in queues.values() for queue, addr in each}, found):
        return None
    count = counted(found.sent_count + found.present_count, "message")
    return f"{asked.name} was imported before, until {iso_local(found.finished_ms)}: {count}"


def _earlier(path: Path, asked: _Asked) -> ImportProgress | None:
    """The progress of an earlier run that has not come to its end. UsageError if there is one but neither --resume nor
    --restart was given, or if there is none to resume."""
    if asked.restart:
        return None
    found = progress_file.load(path)
    if found is not None and found.finished_ms is not None:
        found = None
    if found is None and asked.resume:
        raise UsageError(f"no import of {asked.name} was interrupted", hint="Leave out --resume.")
    if found is not None and not asked.resume:
        raise UsageError(
            f"an import of {asked.name} has not come to its end: "
            f"{found.done_count:,} of {found.total_count:,} are done",
            hint="--resume goes on; --restart begins again, and sends some twice.",
        )
    return found


def _totals(asked: _Asked, checked: Checked, progress: ImportProgress | None, seconds: float | None) -> ImportTotals:
    """``progress`` is None if nothing was sent."""
    return ImportTotals(
        file=STANDARD_INPUT if asked.name == _SPOKEN else asked.name,
        format=asked.format.value,
        messages=checked.count,
        size_bytes=checked.size_bytes,
        topics=", ".join(f"{topic} {count:,}" for topic, count in sorted(checked.topics.items())),
        executed=progress is not None,
        sent=progress.sent_count if progress is not None else None,
        present=progress.present_count or None if progress is not None else None,
        refused=len(progress.refused) if progress is not None else checked.refused_count,
        seconds=seconds,
    )


@contextlib.contextmanager
def _opened(file: str) -> Iterator[BinaryIO]:
    """The file, opened. It is read twice, so input from a pipe is copied to a temporary file. UsageError."""
    try:
        with contextlib.ExitStack() as open_files:
            found: BinaryIO = sys.stdin.buffer if file == STANDARD_INPUT else open_files.enter_context(open(file, "rb"))
            if file == STANDARD_INPUT or not found.seekable():
                spooled = open_files.enter_context(tempfile.TemporaryFile())
                shutil.copyfileobj(found, spooled, _COPY_SIZE_BYTES)
                spooled.seek(0)
                found = spooled
            yield found
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror or error}") from None
