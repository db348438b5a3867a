"""A group's dead letters: counted, shown, and redriven from this process. ``rmqreplay`` does the work; plan, ledger and
guarantee are those of ``spark-replay``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import LONG
from rmqadmin.cli.options.common_options import Value, argument, option
from rmqadmin.cli.options.replay_options import (
    GuardOptions,
    JobOptions,
    Ledger,
    LetterOptions,
    Limit,
    OpenDlq,
    PaceOptions,
)
from rmqadmin.cli.replay_run import command_line, open_letters, run_job
from rmqadmin.core.messages.dead_letters import (
    Place,
    check_group,
    dead_letter_groups,
    no_dead_letters,
    place_of,
    read_dead_letters,
    redriven_before,
)
from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.messages.message_rows import StoredMessageRow, message_values
from rmqadmin.core.messages.message_source import QueueReader, Sieve, in_time_order
from rmqadmin.core.messages.queue_reading import all_queues, places_of
from rmqadmin.core.messages.redriving import Replayed
from rmqadmin.core.results import TIME, FoundRows, Row, doc, row_of, some_failed
from rmqadmin.core.servers.broker_answers import ask_each
from rmqadmin.core.targets import find_route
from rmqproto.errors import NotFoundError, StorageError, UsageError
from rmqproto.filters.message_conditions import MessageConditions, compile_conditions
from rmqproto.names import dlq_topic
from rmqproto.wording import counted

if TYPE_CHECKING:
    from rmqreplay.plans.plan import Plan
    from rmqreplay.plans.request import ReplayRequest


class DeadLettersRow(Row, frozen=True):
    group: Annotated[str, doc("consumer group that gave up on them", key=True)]
    messages: Annotated[int | None, doc("dead letters kept", vital=True)]
    redriven: Annotated[int | None, doc("those among them that were redriven, by the ledgers of this machine")]
    left: Annotated[int | None, doc("those that were not", vital=True)]
    oldest_ms: Annotated[int | None, TIME, doc("when the oldest was stored")]
    newest_ms: Annotated[int | None, TIME, doc("when the newest was stored")]
    topic: Annotated[str, doc("dead-letter topic", wide=True)]
    error: Annotated[str | None, doc("why this is not known", sparse=True)] = None


class DeadLetterGroups(FoundRows[DeadLettersRow], frozen=True):
    """Groups with their dead letters, those with most left first."""

    def problem(self) -> str | None:
        return some_failed([row.error for row in self.found], "group")


def dlq_ls(
    call: Call,
    group: Annotated[str | None, Value.GROUP, argument("This group only.", metavar="[GROUP]")] = None,
    all_groups: Annotated[bool, option("--all", "Also list groups whose dead letters are all gone.")] = False,
    ledger: Ledger = None,
) -> DeadLetterGroups:
    """A dead letter is a message that a group has failed to consume more often than it may. A redrive leaves it where
    it is, and notes in its ledger that it was sent again.

      rmqadmin dlq ls
      rmqadmin -o json dlq ls billing
    """
    topics = dead_letter_groups(call.admin)
    if not topics:
        call.notice_if_no_broker()
    if group is not None:
        check_group(group)
        if group not in topics:
            raise no_dead_letters(group)
        topics = {group: topics[group]}
    with call.counting("groups") as told:
        read = ask_each(lambda topic: read_dead_letters(call.admin, topic, ledger), list(topics.values()), told)
    found = [
        row_of(
            DeadLettersRow,
            letters,
            group=name,
            messages=letters.depth_count,
            redriven=letters.redriven_count,
            left=letters.left_count,
            topic=topic,
        )
        for (name, topic), letters in zip(topics.items(), read, strict=True)
    ]
    is_all = all_groups or group is not None
    shown = [row for row in found if is_all or row.messages != 0]
    return DeadLetterGroups(sorted(shown, key=lambda row: (-(row.left or 0), -(row.messages or 0))))


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


class ShownLetters(FoundRows[DeadLetterRow], frozen=True):
    """Dead letters, oldest first."""


def _letter_row(letter: FoundMessage, redriven: set[Place] | None) -> DeadLetterRow:
    """``redriven``: those that were redriven; None if no ledger can tell."""
    from rmqreplay.sending.redrive import origin_topic_of, round_of

    return DeadLetterRow(
        **message_values(letter),
        origin_topic=origin_topic_of(letter.properties, letter.stored.topic),
        redrives=round_of(letter.properties),
        redriven=None if redriven is None else place_of(letter) in redriven,
    )


def dlq_show(
    call: Call,
    group: Annotated[str, Value.GROUP, argument("Whose dead letters.")],
    letters: LetterOptions,
    limit: Annotated[int, LONG, option("--limit", "Show at most this many.", metavar="N", min=1)] = SHOWN_DEFAULT,
    ledger: Ledger = None,
) -> ShownLetters:
    """Nothing is consumed: no offset moves. If a broker does not answer, the other brokers' dead letters are shown.

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
    reader = QueueReader(call.admin, letters.tag, sieve, call.notice, call.answers)
    found = [letter for batch in in_time_order(reader, where) for letter in batch]
    if sieve.unreadable_count:
        call.notice(f"left out {counted(sieve.unreadable_count, 'dead letter')}: the body could not be unpacked")
    if not found:
        raise NotFoundError(f"none of the dead letters of {group} fits", hint=_LOOKED_AT)
    if len(found) > limit:
        call.notice(f"there are more than {limit}; --limit shows more")
    shown, redriven = found[:limit], None
    try:
        redriven = redriven_before(call.admin, shown, ledger)
    except StorageError as error:
        call.notice(f"not known what was redriven: {error}")
    return ShownLetters([_letter_row(letter, redriven) for letter in shown])


SPARK_IS_FASTER_MESSAGES = 200_000
"""Above this number, Spark is faster on two cores despite its slow start (docs/performance-tools.md)."""


def dlq_redrive(
    call: Call,
    letters: LetterOptions,
    work: JobOptions,
    pace: PaceOptions,
    guards: GuardOptions,
    group: Annotated[
        str | None, Value.GROUP, argument("Whose dead letters. Not needed with --job or --resume.", metavar="[GROUP]")
    ] = None,
    to: Annotated[
        str | None,
        Value.NAME,
        option(
            "--to",
            "Default: group, GROUP alone. same: the origin topic, which reaches every group that reads it.",
            metavar="group|same|topic:NAME",
        ),
    ] = None,
    limit: Limit = None,
    open_dlq: OpenDlq = False,
) -> Replayed:
    """Shows what would be sent; with --execute, sends each message once, whatever crashes on the way. Does the same as
    spark-replay, but in this process alone: it starts at once, and is slower for very many messages. --resume continues
    an interrupted job.

      rmqadmin dlq redrive billing
      rmqadmin dlq redrive billing --jsonpath '$.type=refund' --execute
      rmqadmin dlq redrive billing --to same
    """
    from rmqreplay.run.entry import redrive

    if group is not None:
        check_group(group)
    if to is not None and to.startswith("file:"):
        raise UsageError(
            "dlq redrive sends messages; it writes no file",
            hint=f"`rmqadmin msg export '%DLQ%{group or 'GROUP'}' FILE` does, and spark-replay --to file:PATH",
        )

    def propose_spark(plan: Plan) -> None:
        if plan.shown.get("selected", 0) > SPARK_IS_FASTER_MESSAGES:
            call.notice(f"spark-replay sends this many faster: rmqadmin spark-replay --execute --job {plan.job}")

    if open_dlq:
        if group is None:
            raise UsageError("--open-dlq needs the group whose dead letters it opens")
        open_letters(call, group)
    request = None if group is None else _request(call, group, letters, pace, guards, to, limit)
    return run_job(call, redrive, request, work=work, pace=pace, guards=guards, on_plan=propose_spark)


def _request(
    call: Call,
    group: str,
    letters: LetterOptions,
    pace: PaceOptions,
    guards: GuardOptions,
    to: str | None,
    limit: int | None,
) -> ReplayRequest:
    """UsageError for inconsistent options."""
    from rmqreplay.plans.plan import Selection, Transform, wave_messages_for
    from rmqreplay.plans.request import ReplayRequest

    between, access = letters.between(call.now_ms(), call.notice), call.settings.access()
    return ReplayRequest(
        name_server=";".join(call.namesrv_addrs),
        dlq_group=group,
        start_ms=between.begin_ms,
        end_ms=between.end_ms,
        start_text=letters.start,
        end_text=letters.end,
        selection=Selection(ids=letters.ids or [], **letters.as_conditions()),
        to=to,
        limit=limit,
        transform=Transform(redrives_max=guards.redrives_max, park_topic=guards.park_topic),
        dedup=guards.dedup,
        dedup_keep=guards.dedup_keep,
        skip_redriven=guards.skip_redriven,
        canary=guards.canary,
        wave_messages=pace.wave or wave_messages_for(pace.rate),
        command=command_line(access["credentials"]),
        **access,
        client=call.connections,
    )
