"""Messages read from queues, in the order of the queues, as ``printMsg`` and similar commands show them."""

from collections.abc import Iterator, Sequence

import msgspec

from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.messages.message_rows import StoredMessageRow, message_ext_text, message_values, unpacked
from rmqadmin.core.messages.message_source import MessageSource
from rmqadmin.core.messages.queue_reading import MQADMIN_STATUS, QueuePlace, QueuePull, QueueRead, pulls
from rmqadmin.core.mqadmin_text import queue_text
from rmqadmin.core.results import Notice, ResultOf
from rmqclient.pull import PullStatus
from rmqproto.filters.message_filter import AcceptsProperties
from rmqproto.wording import counted


class BodyView(msgspec.Struct, frozen=True):
    """How bodies are shown."""

    charset: str
    with_body: bool

    def mqadmin_line(self, message: FoundMessage) -> str:
        body = message.stored.body
        shown = body.decode(self.charset, "replace") if self.with_body else "NOT PRINT BODY"
        return f"MSGID: {message.message_id} {message_ext_text(message, body)} BODY: {shown}\n"


class ReadMessages(ResultOf[StoredMessageRow], frozen=True):
    """Messages in the order of their queues."""

    reads: list[QueueRead]
    view: BodyView
    source: MessageSource | None = None
    """Yields the messages one by one; ``reads``, which mqadmin's text is made from, is empty then."""

    def rows(self) -> Sequence[StoredMessageRow]:
        return [row for batch in self.batches() for row in batch]

    def batches(self) -> Iterator[Sequence[StoredMessageRow]]:
        found = self.source or (pulled.messages for read in self.reads for pulled in read.pulls)
        charset, with_body = self.view.charset, self.view.with_body
        for batch in found:
            yield [StoredMessageRow(**message_values(one, charset=charset, with_body=with_body)) for one in batch]

    def is_endless(self) -> bool:
        return self.source is not None and self.source.is_endless

    def remark(self) -> str | None:
        return None if self.source is None else self.source.cut_remark()

    def mqadmin_text(self) -> str:
        text = ""
        for read in sorted(self.reads, key=lambda read: read.place.queue):
            where, name = read.place, queue_text(read.place.queue)
            text += f"minOffset={where.begin_offset}, maxOffset={where.end_offset}, {name}\n"
            for pulled in read.pulls:
                if pulled.status is PullStatus.FOUND:
                    text += "".join(map(self.view.mqadmin_line, pulled.as_java_has_them()))
                    continue
                what = "no matched msg." if pulled.status is PullStatus.NO_MATCHED else "print msg finished."
                text += f"{name} {what} status={MQADMIN_STATUS[pulled.status]}, offset={pulled.next_offset}\n"
            text += "-" * 56 + "\n"
        return text


def read_places(
    admin: AdminClient,
    places: Sequence[QueuePlace],
    expression: str,
    max_count: int,
    notice: Notice,
    *,
    accepts: AcceptsProperties | None = None,
) -> list[QueueRead]:
    """Reads queue after queue, as mqadmin does, until there are about ``max_count`` messages; gives a notice if there
    are more. ``accepts`` is as for ``pulls``. Messages of a batch past the end of a place count, too."""
    reads: list[QueueRead] = []
    count = 0
    for where in places:
        found: list[QueuePull] = []
        if count < max_count:
            for pulled in pulls(admin, where, expression=expression, accepts=accepts):
                found.append(decompressed(pulled, notice))
                count += len(pulled.messages)
                if count >= max_count:
                    break
        reads.append(QueueRead(where, found))
    if count >= max_count:
        notice(f"stopped after {counted(count, 'message')}; --limit reads more")
    return reads


def decompressed(pulled: QueuePull, notice: Notice) -> QueuePull:
    """The pull with decompressed bodies, for rows and texts. The other fields stay as stored."""
    return msgspec.structs.replace(pulled, messages=[unpacked(one, notice) for one in pulled.messages])
