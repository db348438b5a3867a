"""What is wrong with a group: messages lost or soon to be lost, members with different subscriptions, queues that
nobody consumes or that stand still, a growing lag."""

from collections.abc import Callable, Collection, Iterator, Sequence

import msgspec

from rmqadmin.core import targets, units
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.groups.group_standing import GroupStanding, QueueStanding
from rmqadmin.core.groups.lag import FORETOLD_FROM_MS, LAG_AGE_MS, LagMotion, LagTrend
from rmqadmin.core.groups.queue_owners import QueueOwners, QueueState
from rmqadmin.core.health.facts import BrokerFacts, ClusterFacts
from rmqadmin.core.health.finding import Check, Finding, Grade, Subject, SubjectKind
from rmqadmin.core.messages.dead_letters import DeadLetters
from rmqadmin.core.servers.broker_answers import ask_each
from rmqadmin.core.units import at_least, count, duration, elapsed, rate
from rmqproto.bodies.base import MessageQueue
from rmqproto.names import (
    DLQ_PREFIX,
    REVIVE_GROUP,
    SCHEDULE_TOPIC,
    TRANSACTION_GROUP,
    TRANSACTION_HALF_TOPIC,
    TRANSACTION_OP_TOPIC,
    revive_topic,
)
from rmqproto.wording import NAMES_TOLD_MAX, counted, names_told

HOUR_MS = 3_600_000

STUCK_AFTER_MS, STUCK_STEADY_AFTER_MS = 60_000, 240_000
"""How long a group has consumed nothing: while its lag grows, and while it does not but members are online."""


def groups_findings(standings: Sequence[GroupStanding], now_ms: int) -> Iterator[Finding]:
    """The findings of many groups. That nobody is online, or nothing known, is told once of many."""
    offline, unknown = [], []
    for standing in standings:
        found = group_findings(standing, now_ms)
        if standing.error is not None or (standing.lacking and len(found) == 1):
            unknown.append((standing, found))
        elif [one.grade for one in found] == [Grade.NOTE] and not standing.member_count:
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
        what = f"{words}{reason}: {names}"
        yield Finding(
            first.grade, first.check, Subject(SubjectKind.GROUP, counted(len(alike), "group")), what, first.fix
        )


def group_findings(standing: GroupStanding, now_ms: int) -> list[Finding]:
    """One finding of grade OK if nothing is wrong."""
    if standing.error is not None:
        return [_finding(standing, Grade.WARNING, Check.OFFSETS, f"where it stands is not known: {standing.error}")]
    found = [*_retention(standing, now_ms)]
    if standing.owners is not None:
        waiting = {queue.queue for queue in standing.queues if queue.lag_count}
        found += members_findings(standing.group, standing.owners, waiting)
    found += [*_uncommitted(standing), *_unread(standing), *_stuck(standing, now_ms), *_lag(standing, now_ms)]
    if standing.lacking:
        name, error = next(iter(standing.lacking.items()))
        what = f"where it stands at {names_told(sorted(standing.lacking))} is not known: {name}: {error}"
        found.append(_finding(standing, Grade.WARNING, Check.OFFSETS, what))
    members = counted(standing.member_count or 0, "member")
    all_well = f"{counted(standing.lag_count, 'message')} behind, {members} online"
    return found or [_finding(standing, Grade.OK, Check.LAG, all_well)]


def _finding(standing: GroupStanding, grade: Grade, check: Check, what: str, fix: str | None = None) -> Finding:
    return Finding(grade, check, Subject(SubjectKind.GROUP, standing.group), what, fix)


def _retention(standing: GroupStanding, now_ms: int) -> Iterator[Finding]:
    lost = [queue for queue in standing.queues if queue.lost_count]
    if lost:
        messages = counted(sum(queue.lost_count for queue in lost), "message")
        what = f"has lost {messages}, deleted unconsumed: {_places(lost)}"
        yield _finding(standing, Grade.ERROR, Check.RETENTION, what, f"Keep more: {_keep_longer(lost)}")
    near = [(left_ms, queue) for queue in standing.queues if (left_ms := queue.retention_near_ms(now_ms)) is not None]
    if near:
        left_ms = min(left_ms for left_ms, _ in near)
        grade = Grade.WARNING if left_ms > 0 else Grade.ERROR
        queues = [queue for _, queue in near]
        what = f"soon loses messages: they may be {deletion_text(left_ms)}: {_places(queues)}"
        yield _finding(standing, grade, Check.RETENTION, what, f"Consume faster, or keep more: {_keep_longer(queues)}")


def _unread(standing: GroupStanding) -> Iterator[Finding]:
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


def group_row_findings(group: str, may_consume: bool | None) -> list[Finding]:
    """What is wrong with a group's configuration, in a few words. ``may_consume``: None if its brokers differ."""
    if may_consume:
        return []
    what = "may consume on some brokers" if may_consume is None else "may not consume"
    return [Finding(Grade.WARNING, Check.PERMISSION, Subject(SubjectKind.GROUP, group), what)]


def _keep_longer(queues: Sequence[QueueStanding]) -> str:
    """How to keep messages longer, at the broker that keeps them for the shortest time."""
    known = [queue for queue in queues if queue.broker_addr is not None]
    least = min(known, key=lambda queue: queue.reserved_ms or 0, default=None)
    addr = "ADDRESS" if least is None else least.broker_addr
    now = "" if least is None or least.reserved_ms is None else f" ({least.reserved_ms // HOUR_MS} now)"
    return f"rmqadmin updateBrokerConfig -b {addr} -k fileReservedTime -v HOURS{now}, and make room for it."


def members_findings(
    group: str, owners: QueueOwners, waiting: Collection[MessageQueue] | None = None
) -> Iterator[Finding]:
    """What is wrong with how the group's members share its queues. A queue without an owner is worse if messages wait
    in it: ``waiting`` has those queues, None if that is not known."""
    ask, subject = f"rmqadmin consumerStatus -g {group}", Subject(SubjectKind.GROUP, group)
    if owners.unequal:
        what = f"subscriptions differ: its members take each other's queues: {names_told(owners.unequal)}"
        fix = f"All members of a group need the same subscriptions: {ask}"
        yield Finding(Grade.WARNING, Check.SUBSCRIPTIONS, subject, what, fix)
    for state, text in ((QueueState.UNOWNED, "nobody consumes"), (QueueState.SHARED, "several members own")):
        queues = [queue for queue in owners.queues if owners.state(queue) is state]
        if queues:
            names = names_told([f"{queue.topic}/{queue.broker_name}/{queue.queue_id}" for queue in queues])
            is_lost = state is QueueState.UNOWNED and any(queue in (waiting or ()) for queue in queues)
            what = f"{text} {counted(len(queues), 'queue')}{', where messages wait' if is_lost else ''}: {names}"
            fix = f"Members share queues out every 20 s: look again, then {ask}"
            yield Finding(Grade.ERROR if is_lost else Grade.WARNING, Check.QUEUE_OWNERS, subject, what, fix)
    if spare := owners.spare:
        members = counted(len(owners.members), "member")
        what = f"more members than queues, {members} for {owners.queue_count}: idle are {names_told(spare)}"
        fix = "Give the topic more queues (rmqadmin updateTopic -r NUMBER -w NUMBER), or run fewer members."
        yield Finding(Grade.NOTE, Check.MEMBERS, subject, what, fix)
    if owners.silent:
        what = f"{counted(len(owners.silent), 'member')} did not answer: {owners.silent[0].error}"
        yield Finding(Grade.WARNING, Check.MEMBERS, subject, what, ask)


def _uncommitted(standing: GroupStanding) -> Iterator[Finding]:
    if standing.uncommitted:
        what = f"it has committed nothing in {uncommitted_words(standing)}: what waits there is not known"
        fix = f"Members commit within 30 s of their start: look again, then rmqadmin consumerStatus -g {standing.group}"
        yield _finding(standing, Grade.WARNING, Check.OFFSETS, what, fix)


def uncommitted_words(standing: GroupStanding) -> str:
    """``orders (5,000 messages)``"""
    return names_told([f"{topic} ({counted(count, 'message')})" for topic, count in standing.uncommitted.items()])


def _stuck(standing: GroupStanding, now_ms: int) -> Iterator[Finding]:
    """Watched for minutes, a group is stuck as a whole; in two readings, some of its queues may be."""
    see = f"See what its threads do: rmqadmin consumerStatus -g {standing.group}"
    if standing.idle is not None:
        idle, lag = standing.idle, count(standing.lag_count)
        is_growing = idle.lag_grown_count > 0 and idle.for_ms >= STUCK_AFTER_MS
        if (
            standing.lag_count
            and standing.member_count != 0
            and (is_growing or (standing.member_count and idle.for_ms >= STUCK_STEADY_AFTER_MS))
        ):
            consumed = f"only {count(idle.consumed_count)}" if idle.consumed_count else "nothing"
            lag = f"{at_least(lag) if standing.lacking else lag}{' and growing' if is_growing else ''}"
            what = f"stuck: {consumed} consumed for at least {elapsed(idle.for_ms)}, lag {lag}"
            yield _finding(standing, Grade.ERROR if is_growing else Grade.WARNING, Check.STUCK, what, f"{see} -s")
        return
    stuck = [queue for queue in standing.queues if queue.is_stuck]
    if stuck and standing.member_count and standing.trend is not None:
        moved = f"did not move in {duration(standing.trend.elapsed_s * 1000)} although messages wait"
        oldest_ms = min((one.oldest_waiting_ms for one in stuck if one.oldest_waiting_ms is not None), default=None)
        moved += "" if oldest_ms is None else f", the oldest for {duration(now_ms - oldest_ms)}"
        what = f"{counted(len(stuck), 'queue')} {moved}: {_places(stuck)}"
        owners = {owner for queue in stuck for owner in queue.owners}
        one = f" -i {min(owners)}" if len(owners) == 1 else ""
        yield _finding(standing, Grade.WARNING, Check.STUCK, what, f"{see}{one} -s")


def _lag(standing: GroupStanding, now_ms: int) -> Iterator[Finding]:
    oldest_ms, trend = standing.oldest_waiting_ms, standing.trend
    if standing.lag_count == 0:
        return
    messages = f"{counted(standing.lag_count, 'message')} {'waits' if standing.lag_count == 1 else 'wait'}"
    if standing.member_count == 0:
        waits = "" if oldest_ms is None else f", the oldest for {duration(now_ms - oldest_ms)}"
        grade = Grade.WARNING if standing.was_online or _is_left(standing, now_ms) else Grade.NOTE
        fix = f"Start its consumers; or, if nobody needs it: rmqadmin deleteSubGroup -g {standing.group} -c CLUSTER"
        yield _finding(standing, grade, Check.LAG, f"{standing.nobody_text}, and {messages}{waits}", fix)
    elif oldest_ms is not None and now_ms - oldest_ms >= LAG_AGE_MS:
        grows = trend is None or trend.motion is not LagMotion.SHRINKING
        what = f"{duration(now_ms - oldest_ms)} behind{_course(trend)}: {messages}"
        yield _finding(standing, Grade.WARNING if grows else Grade.NOTE, Check.LAG, what, look_closer(standing.group))


def _is_left(standing: GroupStanding, now_ms: int) -> bool:
    """Whether messages were consumed that are not older than a day, and none is now: somebody was online."""
    newest_ms = max((queue.entry.last_timestamp for queue in standing.queues), default=0)
    moves = standing.trend is not None and standing.trend.consumed_count > 0
    moves = moves or (standing.idle is not None and standing.idle.for_ms < STUCK_AFTER_MS)
    return newest_ms > 0 and now_ms - newest_ms < 24 * HOUR_MS and not moves


def deletion_text(left_ms: int) -> str:
    """When messages are deleted, in words. ``left_ms`` is from ``retention_near_ms``."""
    return f"deleted in {duration(left_ms)}" if left_ms > 0 else "deleted at any time now"


def queue_findings(queue: QueueStanding, now_ms: int, *, has_members: bool) -> Iterator[Finding]:
    """What is wrong with one queue of a group, in a few words."""
    at = queue.queue
    subject = Subject(SubjectKind.QUEUE, f"{at.topic}/{at.broker_name}/{at.queue_id}")
    if queue.is_unread:
        yield Finding(Grade.WARNING, Check.UNREAD_QUEUES, subject, "consumers do not read it")
    if queue.lost_count:
        yield Finding(Grade.ERROR, Check.RETENTION, subject, f"{queue.lost_count:,} deleted before")
    if (left_ms := queue.retention_near_ms(now_ms)) is not None:
        yield Finding(Grade.WARNING if left_ms > 0 else Grade.ERROR, Check.RETENTION, subject, deletion_text(left_ms))
    if queue.state is QueueState.UNOWNED:
        yield Finding(Grade.ERROR if queue.lag_count else Grade.WARNING, Check.QUEUE_OWNERS, subject, "no owner")
    if queue.state is QueueState.SHARED:
        yield Finding(Grade.WARNING, Check.QUEUE_OWNERS, subject, "several owners")
    if queue.is_stuck and has_members:
        is_long = (queue.idle_ms or 0) >= STUCK_AFTER_MS
        for_long = "" if queue.idle_ms is None else f" for {elapsed(queue.idle_ms)}"
        yield Finding(Grade.ERROR if is_long else Grade.WARNING, Check.STUCK, subject, f"stuck{for_long}")


def look_closer(group: str) -> str:
    """The command that shows where a group's messages wait."""
    return f"rmqadmin group lag {group}"


def _course(trend: LagTrend | None) -> str:
    if trend is None:
        return ""
    if trend.motion is LagMotion.GROWING:
        return f", growing by {rate((trend.lag_count - trend.lag_before_count) / trend.elapsed_s)}/s"
    if trend.drain_ms is None:
        return ", not catching up"
    if trend.drain_ms < FORETOLD_FROM_MS:
        return ", nearly caught up"
    return f", done in about {duration(trend.drain_ms)} if it goes on like this"


def _places(queues: Sequence[QueueStanding]) -> str:
    return names_told([f"{one.queue.topic}/{one.queue.broker_name}/{one.queue.queue_id}" for one in queues])


RECENT_MS = 3_600_000
"""A group gets a warning if its newest dead letter is younger than this."""


def dead_letter_topics(facts: ClusterFacts, *, of_all: bool) -> list[str]:
    """The dead-letter topics of the masters; where those were not asked for their topics, those that name servers know:
    ``of_all`` clusters, or else of the masters' groups."""
    names = {topic for master in facts.masters for topic in master.topics or {}}
    if any(master.topics is None for master in facts.masters):
        groups = {group for master in facts.masters for group in master.groups or {}}
        registered = {topic for namesrv in facts.answering for topic in namesrv.topics}
        names |= {topic for topic in registered if of_all or topic.removeprefix(DLQ_PREFIX) in groups}
    return sorted(topic for topic in names if topic.startswith(DLQ_PREFIX))


def dead_letter_findings(group: str, found: DeadLetters, now_ms: int) -> Iterator[Finding]:
    subject = Subject(SubjectKind.DEAD_LETTERS, group)
    fix = f"rmqadmin dlq show {group}"
    if found.error is not None and found.depth_count is None:
        yield Finding(Grade.WARNING, Check.DEAD_LETTERS, subject, found.error)
    elif found.left_count:
        newest_ms = found.newest_ms or 0
        beside = f" that were not redriven, and {found.redriven_count:,} that were" if found.redriven_count else ""
        grade = Grade.WARNING if now_ms - newest_ms < RECENT_MS else Grade.NOTE
        what = f"has {counted(found.left_count, 'dead letter')}{beside}, the newest {units.age(newest_ms, now_ms)}"
        yield Finding(grade, Check.DEAD_LETTERS, subject, what, fix)


def new_letters_finding(group: str, found: DeadLetters, more: str, *, is_part: bool) -> Finding:
    """For who watches. ``more``: how many came in the last minutes; ``is_part``: a broker may have others."""
    left = units.count(found.depth_count if found.redriven_count is None else found.left_count)
    what = f"{more}, {units.at_least(left) if is_part else left} {'not redriven' if found.redriven_count else 'in all'}"
    subject = Subject(SubjectKind.DEAD_LETTERS, group)
    return Finding(Grade.WARNING, Check.DEAD_LETTERS, subject, what, f"rmqadmin dlq show {group}")


_REVIVE_QUEUES, _REVIVE_QUEUES_DEFAULT, _REVIVE_QUEUES_MAX = "reviveQueueNum", 8, 64
_TIMER_BEHIND = "timerOffsetBehind"


def position_findings(facts: ClusterFacts) -> Iterator[Finding]:
    """One finding for each kind of position that a master has beyond an end."""
    fix = "Were its config files carried here from another store? Start rmqserver on the store: it sets such positions "
    fix += "back; `rmqadmin store verify DIR` shows them while no broker runs."
    for master in facts.masters:
        for effect, ahead in master.ahead.items():
            what = f"{effect}: it reads on from beyond the end of {names_told(ahead)}"
            yield Finding(Grade.ERROR, Check.POSITIONS, master.subject, what, fix)


def with_positions(admin: AdminClient, facts: ClusterFacts) -> ClusterFacts:
    """The facts with the read positions of masters."""

    def asked(broker: BrokerFacts) -> BrokerFacts:
        is_asked = broker.is_master and broker.error is None
        return msgspec.structs.replace(broker, ahead=read_ahead(admin, broker)) if is_asked else broker

    return msgspec.structs.replace(facts, brokers=ask_each(asked, facts.brokers))


def read_ahead(admin: AdminClient, master: BrokerFacts) -> dict[str, list[str]]:
    """The positions of a master that lie beyond an end, by what that does. What a broker does not tell is left out."""
    addr, replica, halves = master.replica.broker_addr, master.replica, (TRANSACTION_HALF_TOPIC, TRANSACTION_OP_TOPIC)
    text = master.config.get(_REVIVE_QUEUES, "")
    count = min(int(text), _REVIVE_QUEUES_MAX) if text.isdecimal() else _REVIVE_QUEUES_DEFAULT
    behind = replica.count(_TIMER_BEHIND) or 0
    reads = {
        "delayed messages come late or never": _delay_levels(admin, addr),
        "half messages are not asked about": [
            ahead for topic in halves for ahead in _committed(admin, addr, TRANSACTION_GROUP, topic, 1)
        ],
        "messages that POP consumers did not acknowledge do not come back": _committed(
            admin, addr, REVIVE_GROUP, revive_topic(replica.cluster), count
        ),
        "timers are lost": [f"the timer topic (by {-behind:,})"] if behind < 0 else [],
    }
    return {effect: ahead for effect, ahead in reads.items() if ahead}


def _delay_levels(admin: AdminClient, addr: str) -> list[str]:
    def ahead(of: tuple[int, int]) -> str | None:
        level, offset = of
        return _beyond(offset, f"delay level {level}", lambda: admin.max_offset(addr, SCHEDULE_TOPIC, level - 1))

    told = targets.or_none(lambda: admin.delay_offsets(addr))
    offsets = {} if told is None else told.offset_table
    return list(filter(None, ask_each(ahead, sorted(offsets.items()))))


def _committed(admin: AdminClient, addr: str, group: str, topic: str, queue_count: int) -> list[str]:
    """Queues of a topic that end before the group's committed offset. The offset is read first: ends only grow."""

    def ahead(queue_id: int) -> str | None:
        offset = targets.or_none(lambda: admin.consumer_offset(addr, group, topic, queue_id))
        return _beyond(offset, f"{topic}/{queue_id}", lambda: admin.max_offset(addr, topic, queue_id))

    return list(filter(None, ask_each(ahead, range(queue_count))))


def _beyond(offset: int | None, what: str, read_end: Callable[[], int]) -> str | None:
    end = targets.or_none(read_end) if offset and offset > 0 else None
    return None if not offset or end is None or offset <= end else f"{what} ({offset:,} of {end:,})"
