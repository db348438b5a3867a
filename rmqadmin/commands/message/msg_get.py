"""``msg get``: finds messages by any id or key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar

import msgspec
import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core.messages.any_id import Finder, Identified
from rmqadmin.core.messages.body_text import body_kind
from rmqadmin.core.messages.message_card import message_card
from rmqadmin.core.messages.message_rows import StoredMessageRow, message_values, unpacked
from rmqadmin.core.results import Result, Row, doc
from rmqproto.errors import NotFoundError, UsageError
from rmqproto.wording import counted

KEY_COUNT_DEFAULT = 64
_SHOWN_IDS_MAX = 5


class FoundRow(StoredMessageRow, frozen=True):
    asked: Annotated[str, doc("the id or key that was asked for")]
    found_as: Annotated[str, doc("what it turned out to be: offset id, unique key, key ...")]
    body_kind: Annotated[str, doc("JSON, text or binary")]


class FoundMessages(Result, frozen=True):
    """Messages that were found, in the order in which they were asked for."""

    row_type: ClassVar[type[Row]] = FoundRow
    shown: list[Identified]
    missing: list[str]
    body_only: bool

    def rows(self) -> Sequence[FoundRow]:
        return [
            FoundRow(
                **message_values(one.message),
                asked=one.asked,
                found_as=one.found_as.value,
                body_kind=body_kind(one.message.stored.body).value,
            )
            for one in self.shown
        ]

    def cards(self, width: int | None, now_ms: int | None) -> Iterator[str]:
        for at, one in enumerate(self.shown):
            if at:
                yield "\n"
            head = f"{one.asked}: found as {one.found_as.value}"
            yield from message_card(one.message, head, now_ms=now_ms, is_whole=width is None)

    def raw(self) -> Iterator[bytes] | None:
        return iter([self.shown[0].message.stored.body]) if self.body_only else None

    def problem(self) -> str | None:
        return f"nothing was found of: {', '.join(self.missing)}" if self.missing else None


def msg_get(
    call: Call,
    ids: Annotated[list[str], Value.ID, typer.Argument(metavar="ID...", help="Any id or key.")],
    topic: Annotated[
        str | None,
        Value.TOPIC,
        typer.Option(
            "-t", "--topic", metavar="TOPIC", help="Look for keys in this topic only. Default: all but system topics."
        ),
    ] = None,
    body_only: Annotated[bool, typer.Option("--body-only", help="Write the body of one message as it is.")] = False,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, help="Most messages a broker may return for a key.")
    ] = KEY_COUNT_DEFAULT,
) -> FoundMessages:
    """An ID is an offset id, a unique key, a key, a recall handle, TOPIC@[BROKER:]QUEUE:OFFSET with a queue offset, or
    BROKER@OFFSET with a commit log offset. No time limits the search, and all messages that share a key are shown.

    Examples:
      rmqadmin msg get 7F000001041D4E0E2F2A69B4378A0009
      rmqadmin msg get OrderTopic@broker-a:0:5 broker-a@0
      rmqadmin msg get ORDER-1 -t OrderTopic -o jsonl
      rmqadmin msg get OrderTopic@0:5 --body-only
    """
    if body_only and len(ids) > 1:
        raise UsageError("--body-only writes the body of one message", hint="Ask for one ID.")
    with call.counting("topics") as told:
        finder = Finder(call.admin, topic, limit, told)
        found = {asked: finder.find(asked) for asked in dict.fromkeys(map(str.strip, ids))}
    for problem in dict.fromkeys(finder.problems):
        call.notice(f"not asked: {problem}")
    missing = [asked for asked, messages in found.items() if not messages]
    if len(missing) == len(found):
        raise _nothing(missing, finder)
    if body_only:
        _check_one(ids[0], found[ids[0].strip()])
    if any(len(messages) >= limit for messages in found.values()):
        call.notice(f"a broker answers with {counted(limit, 'message')} of a key at most; --limit asks for more")
    shown = [
        msgspec.structs.replace(one, message=unpacked(one.message, call.notice))
        for messages in found.values()
        for one in messages
    ]
    return FoundMessages(shown, missing, body_only)


def _nothing(missing: Sequence[str], finder: Finder) -> NotFoundError:
    count = len(finder.topics())
    return NotFoundError(
        f"nothing was found of: {', '.join(missing)}",
        hint=f"{count} topics were looked into for keys. A message is gone once its commit log file is deleted."
        if count != 1
        else f"{next(iter(finder.topics()))} was looked into for keys; without -t all topics are.",
    )


def _check_one(asked: str, messages: Sequence[Identified]) -> None:
    if len(messages) > 1:
        ids = [one.message.stored.message_id for one in messages]
        more = " …" if len(ids) > _SHOWN_IDS_MAX else ""
        raise UsageError(
            f"{len(ids)} messages have {asked}, and --body-only writes one",
            hint=f"Their offset ids are {' '.join(ids[:_SHOWN_IDS_MAX])}{more}",
        )
