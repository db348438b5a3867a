"""``msg get``: finds messages by any id or key."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated

import msgspec

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.common_options import Value, argument, option
from rmqadmin.core import units
from rmqadmin.core.messages.any_id import Finder, Identified
from rmqadmin.core.messages.body_text import body_kind, lines_by_kind
from rmqadmin.core.messages.lookup import FoundMessage, unknown_broker_of
from rmqadmin.core.messages.message_rows import StoredMessageRow, message_values, unpacked
from rmqadmin.core.results import ResultOf, doc
from rmqadmin.core.servers.broker_answers import is_silence
from rmqadmin.core.terminal_text import printable
from rmqproto.errors import NotFoundError, RocketMQError, UsageError
from rmqproto.message import properties as props
from rmqproto.message.record import host_text
from rmqproto.times import iso_local
from rmqproto.wording import counted

TERMINAL_LINES_MAX = 200
"""The most lines of a body shown on a terminal. One option shows the whole body."""

_LABEL_WIDTH = 11
_WITH_FIELDS_OF_THEIR_OWN = frozenset({props.TAGS, props.KEYS, props.UNIQUE_KEY})


def message_card(message: FoundMessage, head: str, *, now_ms: int | None, is_whole: bool) -> Iterator[str]:
    """Lines that end with a line feed. ``head`` comes first. ``now_ms``: what ages are relative to, None to show only
    points in time. ``is_whole``: the body to its end."""
    body = message.stored.body
    packed = f", compressed still ({message.packed})" if message.packed else ""
    yield printable(head) + "\n"
    for label, value in _fields(message, now_ms):
        yield f"  {label:{_LABEL_WIDTH}} {printable(value)}\n"
    yield f"  {'body':{_LABEL_WIDTH}} {body_kind(body).value}, {units.count(len(body))} bytes{packed}\n"
    lines = lines_by_kind(body)
    yield from (line + "\n" for line in (lines if is_whole else islice(lines, TERMINAL_LINES_MAX)))
    left_count = sum(1 for _ in lines)
    if left_count:
        yield f"({units.count(left_count)} more lines; --body-only writes the whole body)\n"


def _fields(message: FoundMessage, now_ms: int | None) -> Iterator[tuple[str, str]]:
    stored, found = message.stored, message.properties
    yield "topic", stored.topic
    yield (
        "place",
        (
            f"{message.broker_name}, queue {stored.queue_id}, queue offset {stored.queue_offset}, "
            f"commit log offset {stored.log_offset}"
        ),
    )
    yield "offset id", stored.message_id
    for label, name in (("unique key", props.UNIQUE_KEY), ("tag", props.TAGS), ("keys", props.KEYS)):
        if name in found:
            yield label, found[name]
    yield "born", f"{_moment(stored.born_timestamp_ms, now_ms)}, at {host_text(stored.born_host)}"
    yield "stored", f"{_moment(stored.store_timestamp_ms, now_ms)}, at {host_text(stored.store_host)}"
    if stored.reconsume_times:
        yield "came back", counted(stored.reconsume_times, "time")
    if stored.flag:
        yield "flag", str(stored.flag)
    if stored.sys_flag:
        yield "sysFlag", f"{stored.sys_flag:#x}"
    label = "properties"
    for name, value in found.items():
        if name not in _WITH_FIELDS_OF_THEIR_OWN:
            yield label, f"{name}={value}"
            label = ""


def _moment(timestamp_ms: int, now_ms: int | None) -> str:
    moment = iso_local(timestamp_ms)
    return moment if now_ms is None else f"{moment} ({units.age(timestamp_ms, now_ms)})"


KEY_COUNT_DEFAULT = 64
_SHOWN_IDS_MAX = 5


class FoundRow(StoredMessageRow, frozen=True):
    asked: Annotated[str, doc("the id or key that was asked for")]
    found_as: Annotated[str, doc("what it turned out to be: offset id, unique key, key ...")]
    body_kind: Annotated[str, doc("JSON, text or binary")]


class FoundMessages(ResultOf[FoundRow], frozen=True):
    """Messages that were found, in the order in which they were asked for."""

    shown: list[Identified]
    missing: list[str]
    body_only: bool
    silent: list[RocketMQError]
    """Of the brokers that did not answer."""

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
        told = [f"nothing was found of: {', '.join(self.missing)}"] if self.missing else []
        if self.silent:
            told.append(f"{counted(len(self.silent), 'broker')} did not answer: {self.silent[0]}")
        return "; ".join(told) or None


def msg_get(
    call: Call,
    ids: Annotated[list[str], Value.ID, argument("Any id or key.", metavar="ID...")],
    topic: Annotated[
        str | None,
        Value.TOPIC,
        option("-t", "--topic", "Look for keys in this topic only. Default: all but system topics."),
    ] = None,
    body_only: Annotated[bool, option("--body-only", "Write the body of one message as it is.")] = False,
    limit: Annotated[
        int, option("--limit", "Most messages a broker may return for a key.", metavar="N", min=1)
    ] = KEY_COUNT_DEFAULT,
) -> FoundMessages:
    """An ID is an offset id, a unique key, a key, a recall handle, TOPIC@[BROKER:]QUEUE:OFFSET with a queue offset, or
    BROKER@OFFSET with a commit log offset. No time limits the search, and all messages that share a key are shown.

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
    for error in finder.errors:
        if not is_silence(error):
            call.notice(f"not asked: {error}")
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
    return FoundMessages(shown, missing, body_only, list(filter(is_silence, finder.errors)))


def _nothing(missing: Sequence[str], finder: Finder) -> NotFoundError:
    count = len(finder.topics())
    hint = f"{count} topics were looked into for keys. A message is gone once its commit log file is deleted."
    if count == 1:
        hint = f"{next(iter(finder.topics()))} was looked into for keys; without -t all topics are."
    no_place = next(filter(None, map(finder.why_no_place, missing)), None)
    if no_place is not None:
        hint = no_place if len(missing) == 1 else f"{no_place} {hint}"
    gone = next(filter(None, (unknown_broker_of(finder.brokers(), asked) for asked in missing)), None)
    if gone is not None:
        hint = f"If it is an offset id, it is of a broker at {gone}, which is none of those that were asked. {hint}"
    return NotFoundError(f"nothing was found of: {', '.join(missing)}", hint=hint)


def _check_one(asked: str, messages: Sequence[Identified]) -> None:
    if len(messages) > 1:
        ids = [one.message.stored.message_id for one in messages]
        more = " …" if len(ids) > _SHOWN_IDS_MAX else ""
        raise UsageError(
            f"{len(ids)} messages have {asked}, and --body-only writes one",
            hint=f"Their offset ids are {' '.join(ids[:_SHOWN_IDS_MAX])}{more}",
        )
