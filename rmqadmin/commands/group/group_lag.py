"""``group lag``: shows a group's lag, its age, whether the group catches up, and what hinders it."""

import math
from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import TopicOnly
from rmqadmin.cli.options.common_options import Value, argument, option
from rmqadmin.cli.options.health_options import Sample, health_clients
from rmqadmin.core.groups.consumption import brokers_of_group, nothing_known
from rmqadmin.core.groups.group_standing import GroupStanding, StandingsReader
from rmqadmin.core.groups.lag import SAMPLE_DEFAULT_S
from rmqadmin.core.groups.running_info import Pace, mean_ms, pace_text
from rmqadmin.core.health.finding import Finding, Grade, finding_lines, in_order
from rmqadmin.core.health.group_checks import group_findings, look_closer, queue_findings
from rmqadmin.core.results import TIME, ResultOf, Row, doc, row_of
from rmqadmin.core.terminal_text import wrapped_lines
from rmqadmin.core.units import duration, rate
from rmqproto.errors import UsageError
from rmqproto.wording import counted


class Node(msgspec.Struct, frozen=True):
    """A machine that runs one member, and what a message costs there. ``waiting_ms``: for databases and other services;
    None to take what the members' consume time leaves."""

    cores: float
    computing_ms: float
    waiting_ms: float | None = None

    def consume_ms(self, told_ms: float | None) -> float | None:
        """How long a thread is busy with a message. ``told_ms``: the members' consume time."""
        if self.waiting_ms is not None:
            return self.waiting_ms + self.computing_ms
        return None if told_ms is None else max(told_ms, self.computing_ms)

    def thread_count(self, told_ms: float | None) -> int | None:
        """How many threads keep its cores busy: cores x (waiting + computing) / computing."""
        consume_ms = self.consume_ms(told_ms)
        return None if consume_ms is None else max(1, round(self.cores * consume_ms / self.computing_ms))


class PeakNeed(msgspec.Struct, frozen=True, kw_only=True):
    """``basis``: where ``member_tps`` is from, which is None if nobody says it. ``thread_count``: those of all members
    together. ``node_thread_count``: those of one machine."""

    peak_tps: float | None = None
    member_tps: float | None = None
    basis: str | None = None
    member_count: int | None = None
    thread_count: int | None = None
    queue_count: int = 0
    node_thread_count: int | None = None

    def lines(self) -> Iterator[str]:
        if self.node_thread_count is not None:
            yield f"threads of one machine: {self.node_thread_count:,}, by cores x (waiting + computing) / computing"
        if self.peak_tps is None:
            return
        peak = f"a peak of {rate(self.peak_tps)}/s needs"
        if self.member_count is None or self.member_tps is None:
            yield f"{peak}: not known, because no member says what it manages; give --cores and --computing-ms"
            return
        members = counted(self.member_count, "member")
        threads = "" if self.thread_count is None else f", or {counted(self.thread_count, 'thread')} in all"
        yield f"{peak} {members}{threads}: one manages {rate(self.member_tps)}/s ({self.basis})"
        if self.member_count > self.queue_count:
            queues = counted(self.queue_count, "queue")
            yield f"more than {queues} can feed: add queues first (rmqadmin updateTopic -r NUMBER -w NUMBER)"


def mean_pace(standing: GroupStanding) -> Pace | None:
    """What a member manages on average, of those that say it."""
    paces = [one.pace for one in (standing.owners.members if standing.owners else ()) if one.pace is not None]
    if not paces:
        return None
    threads = [one.thread_count for one in paces if one.thread_count is not None]
    return Pace(
        sum(one.consumed_tps for one in paces) / len(paces),
        mean_ms((one.consumed_tps, one.consume_ms) for one in paces),
        round(sum(threads) / len(threads)) if threads else None,
    )


def needs(standing: GroupStanding, peak_tps: float | None, node: Node | None) -> PeakNeed:
    """What a peak needs. What a member does while messages wait is what it manages; if none wait, its threads and its
    consume time say it; and of a ``node``, its cores and the computing time."""
    pace, tps, basis = mean_pace(standing), None, None
    consume_ms = None if pace is None else pace.consume_ms
    node_thread_count = None
    if node is not None:
        node_thread_count, consume_ms = node.thread_count(consume_ms), node.consume_ms(consume_ms)
        tps, basis = node.cores * 1000 / node.computing_ms, "cores / computing time"
    elif standing.lag_count and pace is not None and pace.consumed_tps:
        tps, basis = pace.consumed_tps, "what it does while messages wait"
    elif standing.lag_count and standing.trend is not None and standing.clients.count:
        tps, basis = standing.trend.consumed_tps / standing.clients.count, "what was committed while messages wait"
    elif pace is not None and pace.most_tps is not None:
        tps, basis = pace.most_tps, f"{counted(pace.thread_count or 0, 'thread')} / {duration(consume_ms)}"
    is_known = peak_tps is not None and bool(tps)
    return PeakNeed(
        peak_tps=peak_tps,
        member_tps=tps or None,
        basis=basis if tps else None,
        member_count=math.ceil(peak_tps / tps) if peak_tps is not None and tps else None,
        thread_count=math.ceil(peak_tps * consume_ms / 1000) if is_known and peak_tps and consume_ms else None,
        queue_count=standing.queue_count,
        node_thread_count=node_thread_count,
    )


class QueueLagRow(Row, frozen=True):
    topic: Annotated[str, doc("topic name", key=True)]
    broker_name: Annotated[str, doc("broker name", key=True)]
    queue_id: Annotated[int, doc("queue id", key=True)]
    lag_count: Annotated[int, doc("messages that the group has not committed", vital=True)]
    oldest_waiting_ms: Annotated[int | None, TIME, doc("when the first of them was stored", vital=True)]
    moved_count: Annotated[int | None, doc("by how much the committed offset moved meanwhile; with lag only")]
    owner: Annotated[str | None, doc("clients that consume the queue, as they say", minor=True)]
    problem: Annotated[
        str | None, doc("nobody consumes or reads it, it stands still, messages were deleted", sparse=True)
    ]
    retention_left_ms: Annotated[int | None, doc("how long the first waiting message is kept for its age", wide=True)]
    consumer_offset: Annotated[int, doc("queue offset that the group has committed", wide=True)]
    broker_offset: Annotated[int, doc("queue offset that the next message will get", wide=True)]
    min_offset: Annotated[int | None, doc("queue offset of the first message that is left", wide=True)]


class MemberPace(msgspec.Struct, frozen=True):
    """``manages`` is None if the client does not say it."""

    client_id: str
    manages: Pace | None


class LagTotals(Row, frozen=True):
    lag_count: Annotated[int, doc("lag of all queues, retry topics included")]
    oldest_waiting_ms: Annotated[int | None, TIME, doc("when the oldest waiting message was stored")]
    course: Annotated[str | None, doc("growing, shrinking or steady")]
    arrived_tps: Annotated[float | None, doc("messages that came a second, between two readings")]
    consumed_tps: Annotated[float | None, doc("messages committed a second, between two readings")]
    drain: Annotated[str | None, doc("when nothing is left if it goes on like this; else `never at this rate`")]
    drain_ms: Annotated[int | None, doc("the same as a number; unknown if it does not shrink", wide=True)]
    client_count: Annotated[int, doc("clients that are online")]
    sharing: Annotated[str | None, doc("how they share the queues out")]
    problems: Annotated[list[str] | None, doc("what is wrong, the worst first, and what to do", wide=True)]
    members: Annotated[list[MemberPace] | None, doc("what each client manages, as it says", wide=True)]
    needs: Annotated[PeakNeed | None, doc("with --peak or --cores: members and threads", wide=True)]


class GroupLagResult(ResultOf[QueueLagRow], frozen=True):
    """One row a queue, the largest lag first."""

    standing: GroupStanding
    now_ms: int
    peak_tps: float | None = None
    node: Node | None = None

    def rows(self) -> Sequence[QueueLagRow]:
        has_members = bool(self.standing.member_count)
        queues = sorted(self.standing.queues, key=lambda one: -one.lag_count)
        return [
            row_of(
                QueueLagRow,
                one,
                topic=one.queue.topic,
                broker_name=one.queue.broker_name,
                queue_id=one.queue.queue_id,
                owner=",".join(one.owners) or None,
                problem=", ".join(
                    found.what for found in in_order(queue_findings(one, self.now_ms, has_members=has_members))
                )
                or None,
                retention_left_ms=one.retention_left_ms(self.now_ms),
                consumer_offset=one.entry.consumer_offset,
                broker_offset=one.entry.broker_offset,
            )
            for one in queues
        ]

    def _findings(self) -> list[Finding]:
        """The findings without the advice to run this command."""
        look = look_closer(self.standing.group)
        found = in_order(one for one in group_findings(self.standing, self.now_ms) if one.grade is not Grade.OK)
        return [msgspec.structs.replace(one, fix=None) if one.fix == look else one for one in found]

    def lines_below(self, width: int | None) -> Iterator[str]:
        found = self._findings()
        if found:
            yield "\n"
        yield from finding_lines(found, width)
        needed = self._needs()
        lines = [f"{one.client_id} manages: {pace_text(one.manages)}" for one in self._paces()]
        lines += [] if needed is None else needed.lines()
        if lines:
            yield "\n"
        for line in lines:
            yield from wrapped_lines(line, width, 0)

    def _paces(self) -> list[MemberPace]:
        owners = self.standing.owners
        return [] if owners is None else [MemberPace(one.client_id, one.pace) for one in owners.members]

    def _needs(self) -> PeakNeed | None:
        is_asked = self.peak_tps is not None or self.node is not None
        return needs(self.standing, self.peak_tps, self.node) if is_asked else None

    def summary(self) -> LagTotals:
        standing, trend, found = self.standing, self.standing.trend, self._findings()
        return LagTotals(
            lag_count=standing.lag_count,
            oldest_waiting_ms=standing.oldest_waiting_ms,
            course=None if trend is None else trend.motion,
            arrived_tps=None if trend is None else round(trend.arrived_tps, 2),
            consumed_tps=None if trend is None else round(trend.consumed_tps, 2),
            drain=None if trend is None else trend.drain_text,
            drain_ms=None if trend is None else trend.drain_ms,
            client_count=standing.clients.count,
            sharing=None if standing.owners is None else standing.owners.summary(),
            problems=[f"{one.what} ({one.fix})" if one.fix else one.what for one in found] or None,
            members=self._paces() or None,
            needs=self._needs(),
        )

    def problem(self) -> str | None:
        lacking = self.standing.lacking
        if not lacking:
            return None
        name, error = next(iter(lacking.items()))
        return f"the lag at {counted(len(lacking), 'broker')} is not known and not included: {name}: {error}"


def group_lag(
    call: Call,
    group: Annotated[str, Value.GROUP, argument("The group.")],
    topic: TopicOnly = None,
    sample_s: Sample = SAMPLE_DEFAULT_S,
    peak_tps: Annotated[
        float | None,
        Value.NUMBER,
        option("--peak", "Say how many members N messages a second need.", metavar="N", min=0.001),
    ] = None,
    cores: Annotated[
        float | None,
        Value.NUMBER,
        option("--cores", "A member has N cores; with --computing-ms.", metavar="N", min=0.01),
    ] = None,
    computing_ms: Annotated[
        float | None, Value.NUMBER, option("--computing-ms", "What one message costs a core.", metavar="MS", min=0.001)
    ] = None,
    waiting_ms: Annotated[
        float | None,
        Value.NUMBER,
        option(
            "--waiting-ms",
            "How long one message waits for other services; default: consume time less computing time.",
            metavar="MS",
            min=0,
        ),
    ] = None,
) -> GroupLagResult:
    """Shows where messages wait and since when. From two readings, also shows whether the lag grows and when it will be
    gone. Asks the group's clients which queues they own and what they subscribe to. Problems are listed below: queues
    that nobody consumes or that stand still, members with different subscriptions, messages that retention has deleted
    or will delete soon.

    --peak: members = peak / what one manages, threads in all = peak x consume time. For work that waits for other
    services, with --cores and --computing-ms: threads of one member = cores x (waiting + computing) / computing.

      rmqadmin group lag OrderGroup --sample 0
      rmqadmin group lag OrderGroup --peak 5000 --cores 4 --computing-ms 2 --waiting-ms 30
      rmqadmin -o json group lag OrderGroup -t OrderTopic --sample 0
    """
    if (cores is None) is not (computing_ms is None) or (waiting_ms is not None and cores is None):
        hint = "For example: --cores 4 --computing-ms 2 --waiting-ms 30."
        raise UsageError("--cores and --computing-ms go together, and --waiting-ms with them", hint=hint)
    node = None if cores is None or computing_ms is None else Node(cores, computing_ms, waiting_ms)
    topic_name = topic or None
    with health_clients(call, pause_s=sample_s) as (admin, members):
        reader = StandingsReader(
            admin=admin, members=members, sample_s=sample_s, now_ms=call.now_ms(), topic=topic_name
        )
        call.status("reading offsets")
        try:
            brokers = brokers_of_group(admin, group, topic_name)
            (standing,) = reader.read({group: brokers})
        finally:
            call.status(None)
        if standing.error is not None:
            raise standing.error
        if not standing.queues and not standing.clients.count:
            raise nothing_known(group, brokers)
    return GroupLagResult(standing, call.now_ms(), peak_tps, node)
