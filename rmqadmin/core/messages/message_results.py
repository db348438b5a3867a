"""Stored messages and what became of them, as the queries by id, unique key and offset show them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from rmqadmin.core.messages import lookup
from rmqadmin.core.messages.lookup import FoundMessage, Track
from rmqadmin.core.messages.message_rows import StoredMessageRow, message_values, unpacked
from rmqadmin.core.mqadmin_text import java_text, properties_text
from rmqadmin.core.results import Notice, ResultOf, doc
from rmqadmin.core.user_files import write_file
from rmqproto.message import properties as props
from rmqproto.message.record import host_text

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient

BODIES_DIR = Path("/tmp/rocketmq/msgbodys")
"""Where mqadmin puts bodies. Only ``--output mqadmin`` writes there, too, because its text names the file."""


class MessageRow(StoredMessageRow, frozen=True):
    tracks: Annotated[list[Track], doc("what became of it, by group")]


class Shown(msgspec.Struct, frozen=True):
    """A message and what is shown with it. ``charset`` is that of ``-f``."""

    message: FoundMessage
    tracks: list[Track]
    charset: str | None


class Messages(ResultOf[MessageRow], frozen=True):
    """Messages with what became of them."""

    shown: list[Shown]

    def rows(self) -> Sequence[MessageRow]:
        return [_message_row(one) for one in self.shown]

    def mqadmin_text(self) -> str:
        return "".join(mqadmin_block(one) for one in self.shown)


def _message_row(one: Shown) -> MessageRow:
    return MessageRow(**message_values(one.message), tracks=one.tracks)


def body_path(message_id: str, index: int = 0) -> Path:
    """Where mqadmin puts a body; ``index`` counts the messages of one unique key."""
    return BODIES_DIR / (f"{message_id}_{index}" if index else message_id)


def mqadmin_block(one: Shown, *, index: int = 0, with_offset_id: bool = True, track_end: str = "\n") -> str:
    """A message and its tracks as ``queryMsgById`` prints them. The other queries print them slightly differently."""
    from rmqproto.times import mqadmin_time

    stored, found = one.message.stored, one.message.properties
    fields = [
        *([("OffsetID:", stored.message_id)] if with_offset_id else []),
        ("Topic:", stored.topic),
        ("Tags:", f"[{java_text(found.get(props.TAGS))}]"),
        ("Keys:", f"[{java_text(found.get(props.KEYS))}]"),
        ("Queue ID:", stored.queue_id),
        ("Queue Offset:", stored.queue_offset),
        ("CommitLog Offset:", stored.log_offset),
        ("Reconsume Times:", stored.reconsume_times),
        ("Born Timestamp:", mqadmin_time(stored.born_timestamp_ms, milliseconds=True)),
        ("Store Timestamp:", mqadmin_time(stored.store_timestamp_ms, milliseconds=True)),
        ("Born Host:", host_text(stored.born_host)),
        ("Store Host:", host_text(stored.store_host)),
        ("System Flag:", stored.sys_flag),
        ("Properties:", properties_text(found)),
        ("Message Body Path:", body_path(one.message.message_id, index)),
    ]
    if one.charset is not None:
        fields.append(("Message Body:", one.message.stored.body.decode(one.charset, "replace")))
    text = "".join(f"{name:20} {value}\n" for name, value in fields)
    text += "\n\n"
    if not one.tracks:
        return text + "WARN: No Consumer"
    return text + "".join(
        f"MessageTrack [consumerGroup={track.group}, trackType={track.state}, "
        f"exceptionDesc={java_text(track.error)}]{track_end}"
        for track in one.tracks
    )


def show(
    admin: AdminClient,
    messages: Sequence[FoundMessage],
    charset: str | None,
    notice: Notice,
    *,
    leave_files: bool,
) -> list[Shown]:
    """Messages with their bodies and tracks. ``leave_files``: bodies are also written to files, as mqadmin does."""
    shown = [Shown(unpacked(message, notice), lookup.tracks(admin, message), charset) for message in messages]
    if leave_files:
        for index, one in enumerate(shown):
            same = sum(other.message.message_id == one.message.message_id for other in shown[:index])
            write_file(body_path(one.message.message_id, same), one.message.stored.body)
    return shown
