"""What is wrong with a group: messages lost or soon to be lost, members with different subscriptions, queues that
nobody consumes or that stand still, a growing lag."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rmqadmin.core import units
from rmqadmin.core.groups.group_standing import GroupStanding, QueueStanding
from rmqadmin.core.groups.lag_trend import FORETOLD_FROM_MS, LAG_AGE_MS, LagMotion
from rmqadmin.core.groups.queue_owners import QueueOwners, QueueState
from rmqadmin.core.health.health_finding import NAMES_TOLD_MAX, Check, Grade, HealthFinding, names_told
from rmqproto.wording import counted

HOUR_MS = 3_600_000


def groups_findings(standings: Sequence[GroupStanding], now_ms: int) -> Iterator[HealthFinding]:
    """The findings for many groups. Facts that many groups share are reported once: that nobody is online, or that
    nothing is known."""
    offline, unknown = [], []
    for standing in standings:
        found = group_findings(standing, now_ms)
        if standing.error is not None or (standing.lacking and len(found) == 1):
            unknown.append((standing, found))
        elif [one.grade for one in found] == [Grade.NOTE] and not standing.clients.count:
            offline.append((standing, found))
        else:
            yield from found
    for alike, words in ((unknown, "where they stand is not known"), (offline, "nobody is online, and messages wait")):
        if len(alike) <= NAMES_TOLD_MAX:
            yield from (one for _, found in alike for one in found)
            continue
        names = names_told([standing.group for standing, _ in alike])
        first, standing = alike[0][1][0], alike[0][0]
        error = standing.error or next(iter(standing.lacking.values()), None)
        reason = f" ({error})" if alike is unknown else ""
        yield HealthFinding(
            grade=first.grade,
            check=first.check,
            subject=counted(len(alike), "group"),
            what=f"{words}{reason}: {names}",
            fix=first.fix,
        )


def group_findings(standing: GroupStanding, now_ms: int) -> list[HealthFinding]:
    """One finding of grade OK if nothing is wrong."""
    if standing.error is not None:
        return [_finding(standing, Grade.WARNING, Check.OFFSETS, f"where it stands is not known: {standing.error}")]
    members = [] if standing.owners is None else members_findings(standing.group, standing.owners)
    found = [
        *_retention(standing, now_ms), *members, *_uncommitted(standing), *_unread(standing),
        *_stuck(standing, now_ms), *_lag(standing, now_ms),
    ]  # fmt: skip
    if standing.lacking:
        name, error = next(iter(standing.lacking.items()))
        what = f"where it stands at {names_told(sorted(standing.lacking))} is not known: {name}: {error}"
        found.append(_finding(standing, Grade.WARNING, Check.OFFSETS, what))
    return found or [_finding(standing, Grade.OK, Check.LAG, _ok_text(standing))]


def _finding(standing: GroupStanding, grade: Grade, check: Check, what: str, fix: str | None = None) -> HealthFinding:
    return HealthFinding(grade=grade, check=check, subject=standing.group, what=what, fix=fix)


def _ok_text(standing: GroupStanding) -> str:
    members = counted(standing.clients.count, "member")
    return f"{counted(standing.lag_count, 'message')} behind, {members} online"


def _retention(standing: GroupStanding, now_ms: int) -> Iterator[HealthFinding]:
    lost = [queue for queue in standing.queues if queue.lost_count]
    if lost:
        count = sum(queue.lost_count for queue in lost)
        what = f"{counted(count, 'message')} were deleted before it consumed them, of {_places(lost)}"
        yield _finding(standing, Grade.ERROR, Check.RETENTION, what, f"Keep more: {_keep_longer(lost)}")
    near = [(left_ms, queue) for queue in standing.queues if (left_ms := queue.retention_near_ms(now_ms)) is not None]
    if near:
        left_ms = min(left_ms for left_ms, _ in near)
        when = f"in {units.duration(left_ms)}" if left_ms > 0 else "at any time now"
        grade = Grade.WARNING if left_ms > 0 else Grade.ERROR
        queues = [queue for _, queue in near]
        what = f"what it has not consumed may be deleted {when}: {_places(queues)}"
        yield _finding(standing, grade, Check.RETENTION, what, f"Consume faster, or keep more: {_keep_longer(queues)}")


def _unread(standing: GroupStanding) -> Iterator[HealthFinding]:
    by_topic: dict[tuple[str, str], list[QueueStanding]] = {}
    for queue in standing.queues:
        if queue.is_unread:
            by_topic.setdefault((queue.queue.topic, queue.broker_addr or "ADDRESS"), []).append(queue)
    for (topic, addr), queues in by_topic.items():
        count = counted(sum(queue.lag_count for queue in queues), "message")
        what = f"{count} that it has not consumed are in queues that consumers do not read: {_places(queues)}"
        nums = max(queue.queue.queue_id for queue in queues) + 1
        fix = f"rmqadmin updateTopic -b {addr} -t '{topic}' -r {nums}"
        yield _finding(standing, Grade.WARNING, Check.UNREAD_QUEUES, what, fix)


def _keep_longer(queues: Sequence[QueueStanding]) -> str:
    """How to keep messages longer, at the broker that keeps them for the shortest time."""
    known = [queue for queue in queues if queue.broker_addr is not None]
    least = min(known, key=lambda queue: queue.reserved_ms or 0, default=None)
    addr = "ADDRESS" if least is None else least.broker_addr
    now = "" if least is None or least.reserved_ms is None else f" ({least.reserved_ms // HOUR_MS} now)"
    return f"rmqadmin updateBrokerConfig -b {addr} -k fileReservedTime -v HOURS{now}, and make room for it."


def members_findings(group: str, owners: QueueOwners) -> Iterator[HealthFinding]:
    """What is wrong with how the group's members share its queues."""
    ask = f"rmqadmin consumerStatus -g {group}"

    def found(grade: Grade, check: Check, what: str, fix: str) -> HealthFinding:
        return HealthFinding(grade=grade, check=check, subject=group, what=what, fix=fix)

    if owners.unequal:
        what = f"its members have different subscriptions, and take each other's queues: {names_told(owners.unequal)}"
        fix = f"All members of a group need the same subscriptions: {ask}"
        yield found(Grade.ERROR, Check.SUBSCRIPTIONS, what, fix)
    for state, text in ((QueueState.UNOWNED, "nobody consumes"), (QueueState.SHARED, "several members consume")):
        queues = [queue for queue in owners.queues if owners.state(queue) is state]
        if queues:
            names = names_told([f"{queue.topic}/{queue.broker_name}/{queue.queue_id}" for queue in queues])
            what = f"{text} {counted(len(queues), 'queue')}: {names}"
            fix = f"Members share queues out every 20 s: look again, then {ask}"
            yield found(Grade.WARNING, Check.QUEUE_OWNERS, what, fix)
    if owners.silent:
        what = f"{counted(len(owners.silent), 'member')} did not say what they consume: {owners.silent[0].error}"
        yield found(Grade.WARNING, Check.MEMBERS, what, ask)


def _uncommitted(standing: GroupStanding) -> Iterator[HealthFinding]:
    if standing.uncommitted:
        what = f"it has committed nothing in {uncommitted_words(standing)}: what waits there is not known"
        fix = f"Members commit within 30 s of their start: look again, then rmqadmin consumerStatus -g {standing.group}"
        yield _finding(standing, Grade.WARNING, Check.OFFSETS, what, fix)


def uncommitted_words(standing: GroupStanding) -> str:
    """``orders (5,000 messages)``"""
    return names_told([f"{topic} ({counted(count, 'message')})" for topic, count in standing.uncommitted.items()])


def _stuck(standing: GroupStanding, now_ms: int) -> Iterator[HealthFinding]:
    stuck = [queue for queue in standing.queues if queue.is_stuck]
    if stuck and standing.clients.count and standing.trend is not None:
        moved = f"did not move in {units.duration(standing.trend.elapsed_s * 1000)} although messages wait"
        oldest_ms = min((one.oldest_waiting_ms for one in stuck if one.oldest_waiting_ms is not None), default=None)
        moved += "" if oldest_ms is None else f", the oldest for {units.duration(now_ms - oldest_ms)}"
        what = f"{counted(len(stuck), 'queue')} {moved}: {_places(stuck)}"
        owners = {owner for queue in stuck for owner in queue.owners}
        one = f" -i {min(owners)}" if len(owners) == 1 else ""
        fix = f"See what its threads do: rmqadmin consumerStatus -g {standing.group}{one} -s"
        yield _finding(standing, Grade.WARNING, Check.STUCK, what, fix)


def _lag(standing: GroupStanding, now_ms: int) -> Iterator[HealthFinding]:
    oldest_ms, trend = standing.oldest_waiting_ms, standing.trend
    if standing.lag_count == 0:
        return
    waits = "" if oldest_ms is None else f", the oldest for {units.duration(now_ms - oldest_ms)}"
    wait = f"{counted(standing.lag_count, 'message')} {'waits' if standing.lag_count == 1 else 'wait'}{waits}"
    if not standing.clients.count:
        nobody = "nobody is known to be online" if standing.lacking else "nobody is online"
        fix = f"Start its consumers; or, if nobody needs it: rmqadmin deleteSubGroup -g {standing.group} -c CLUSTER"
        yield _finding(standing, Grade.NOTE, Check.LAG, f"{nobody}, and {wait}", fix)
    elif oldest_ms is not None and now_ms - oldest_ms >= LAG_AGE_MS:
        grows = trend is not None and trend.motion is not LagMotion.SHRINKING
        grade = Grade.WARNING if grows or trend is None else Grade.NOTE
        yield _finding(standing, grade, Check.LAG, f"{wait}{_course(standing)}", look_closer(standing.group))


def look_closer(group: str) -> str:
    """The command that shows where a group's messages wait."""
    return f"rmqadmin group lag {group}"


def _course(standing: GroupStanding) -> str:
    trend = standing.trend
    if trend is None:
        return ""
    if trend.drain_ms is None:
        return f"; {trend.motion}: {trend.arrived_tps:.1f} come and {trend.consumed_tps:.1f} are consumed a second"
    if trend.drain_ms < FORETOLD_FROM_MS:
        return "; it has nearly caught up"
    return f"; nothing is left in about {units.duration(trend.drain_ms)} if it goes on like this"


def _places(queues: Sequence[QueueStanding]) -> str:
    return names_told([f"{one.queue.topic}/{one.queue.broker_name}/{one.queue.queue_id}" for one in queues])
