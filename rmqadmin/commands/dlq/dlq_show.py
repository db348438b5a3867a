"""``dlq show``: shows a group's dead letters, chosen as ``dlq redrive`` chooses them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import LONG
from rmqadmin.cli.options.replay_options import Ledger, LetterOptions
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core.messages.dead_letters import check_group, no_dead_letters
from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.messages.message_rows import StoredMessageRow, message_values
from rmqadmin.core.messages.message_source import QueueReader
from rmqadmin.core.messages.queue_reading import all_queues, places_of
from rmqadmin.core.messages.redriven_letters import Place, place_of, redriven_before
from rmqadmin.core.messages.sieve import Sieve
from rmqadmin.core.messages.time_order import in_time_order
from rmqadmin.core.results import Result, Row, doc
from rmqadmin.core.targets import find_route
from rmqproto.errors import NotFoundError, StorageError, UsageError
from rmqproto.filters.message_conditions import MessageConditions, compile_conditions
from rmqproto.names import dlq_topic
from rmqproto.wording import counted

SHOWN_DEFAULT = 20
_LOOKED_AT = "`rmqadmin dlq show GROUP` without conditions shows the oldest."


class DeadLetterRow(StoredMessageRow, frozen=True):
    """One dead letter. Its place is shown only with ``--output wide``, because a terminal has little room."""

    topic: Annotated[str, doc("dead-letter topic", wide=True)]
    broker_name: Annotated[str, doc("broker that stores it", wide=True)]
    queue_id: Annotated[int, doc("queue id", wide=True)]
    queue_offset: Annotated[int, doc("its place in the queue", wide=True)]
    body_size_bytes: Annotated[int, doc("size of the body, decompressed", wide=True)]
    origin_topic: Annotated[str, doc("topic that it was first sent to")]
    redrives: Annotated[int, doc("how often it had been redriven before it failed again")]
    redriven: Annotated[bool | None, doc("whether it was redriven since, by the ledgers of this machine")]


class ShownLetters(Result, frozen=True):
    """Dead letters, oldest first."""

    row_type: ClassVar[type[Row]] = DeadLetterRow
    letters: list[FoundMessage]
    sent: set[Place] | None = None
    """Those that were redriven; None if no ledger can tell."""

    def rows(self) -> Sequence[DeadLetterRow]:
        from rmqreplay.sending.redrive import origin_topic_of, round_of

        return [
            DeadLetterRow(
                **message_values(letter),
                origin_topic=origin_topic_of(letter.properties, letter.stored.topic),
                redrives=round_of(letter.properties),
                redriven=None if self.sent is None else place_of(letter) in self.sent,
            )
            for letter in self.letters
        ]


def dlq_show(
    call: Call,
    group: Annotated[str, Value.GROUP, typer.Argument(metavar="GROUP", help="Whose dead letters.")],
    letters: LetterOptions,
    limit: Annotated[
        int, LONG, typer.Option("--limit", metavar="N", min=1, help="Show at most this many.")
    ] = SHOWN_DEFAULT,
    ledger: Ledger = None,
) -> ShownLetters:
    """Nothing is consumed: no offset moves. If a broker does not answer, the other brokers' dead letters are shown.

    Examples:
      rmqadmin dlq show billing
      rmqadmin -o json dlq show billing --from -2h --jsonpath '$.type=refund' --limit 100
    """
    check_group(group)
    topic, between = dlq_topic(group), letters.between(call.now_ms(), call.notice)
    conditions = MessageConditions(
        ids=letters.ids or [], start_time_ms=between.begin_ms, end_time_ms=between.end_ms, **letters.as_conditions()
    )
    sieve = Sieve(compile_conditions(conditions), limit + 1)
    route = find_route(call.admin, topic)
    if route is None:
        raise no_dead_letters(group)
    queues = all_queues(call.admin, route, topic, call.notice)
    closed = {each.broker_name for each in route.queue_datas} - {queue.broker_name for queue, _ in queues}
    hint = f"`rmqadmin updateTopicPerm -c CLUSTER -t '{topic}' -p RW` opens them, and redrives take --open-dlq."
    if not queues:
        raise UsageError(f"{topic} cannot be read (perm 2)", hint=hint)
    if closed:
        call.notice(f"dead letters on {', '.join(sorted(closed))} cannot be read (perm 2); {hint}")
    where = places_of(call.admin, queues, between, call.answers)
    if all(place.begin_offset >= place.end_offset for place in where):
        raise NotFoundError(f"{topic}: no message in this range")
    reader = QueueReader(call.admin, letters.tag, sieve, call.notice)
    found = [letter for batch in in_time_order(reader, where) for letter in batch]
    if sieve.unreadable_count:
        call.notice(f"left out {counted(sieve.unreadable_count, 'dead letter')}: the body could not be unpacked")
    if not found:
        raise NotFoundError(f"none of the dead letters of {group} fits", hint=_LOOKED_AT)
    if len(found) > limit:
        call.notice(f"there are more than {limit}; --limit shows more")
    shown = found[:limit]
    try:
        return ShownLetters(shown, redriven_before(call.admin, shown, ledger))
    except StorageError as error:
        call.notice(f"not known what was redriven: {error}")
        return ShownLetters(shown)
