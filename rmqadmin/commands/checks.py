"""Checks for a monitoring system: one line, and the exit status of a plug-in."""

from typing import Annotated

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import TopicOnly
from rmqadmin.cli.options.common_options import Value, option
from rmqadmin.cli.options.health_options import (
    BrokerNames,
    Critical,
    Groups,
    LongCluster,
    Warning,
    health_clients,
    limits,
    require_answer,
)
from rmqadmin.cli.options.replay_options import Ledger
from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.groups.consumption import brokers_of_group, nothing_known
from rmqadmin.core.groups.group_standing import GroupStanding, StandingsReader
from rmqadmin.core.health.broker_checks import broker_findings, disk_limits, disk_percents
from rmqadmin.core.health.cluster_checks import cluster_findings
from rmqadmin.core.health.facts import BrokerFacts, read_facts
from rmqadmin.core.health.finding import Check, Finding, in_order
from rmqadmin.core.health.group_checks import uncommitted_words
from rmqadmin.core.health.ha_checks import (
    ServerFacts,
    behind_text,
    controllers_findings,
    read_settled,
    registered_brokers,
    set_findings,
)
from rmqadmin.core.health.plugin_text import (
    STATE_BY_GRADE,
    CheckedThing,
    CheckResult,
    Measure,
    PluginState,
    Quantity,
    Thresholds,
    worst,
)
from rmqadmin.core.messages.dead_letters import check_group, count_between, dead_letter_groups
from rmqadmin.core.servers.broker_answers import ask_each
from rmqadmin.core.servers.ha_sets import HaSet, in_sync_text, read_ha
from rmqadmin.core.units import duration
from rmqproto.errors import NotFoundError, RocketMQError
from rmqproto.names import dlq_topic, retry_topic
from rmqproto.times import time_range
from rmqproto.wording import counted

QUEUES_DATED_MAX = 8
DEFAULT = ("5m", "30m")


def check_lag(
    call: Call,
    group: Groups = None,
    topic: TopicOnly = None,
    broker: BrokerNames = None,
    warning: Warning = None,
    critical: Critical = None,
    cluster: LongCluster = None,
) -> CheckResult:
    """Thresholds are messages (1000, 10k) or the age of the oldest message that waits (5m), or both (10k,5m). Default:
    -w 5m -c 30m. A group is UNKNOWN if a broker does not report it, or if it consumes a topic without an offset there,
    unless what is known is critical. Exit status 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.

      rmqadmin check lag -g OrderGroup -w 1k,1h -c 10k,2h
      rmqadmin -o json check lag -g OrderGroup -t OrderTopic -b broker-a
    """
    thresholds = limits(warning, critical, (Quantity.COUNT, Quantity.TIME_MS), DEFAULT)
    now_ms = call.now_ms()
    within = cluster or None
    with health_clients(call) as (admin, _):
        reader = StandingsReader(
            admin=admin, members=None, sample_s=0, now_ms=now_ms, queues_dated_max=QUEUES_DATED_MAX,
            topic=topic or None,
        )  # fmt: skip
        deaf: dict[str, str] = {}
        if group:
            groups = {name.strip(): brokers_of_group(admin, name.strip(), reader.topic) for name in group}
        else:
            facts = read_facts(admin, within, with_tables=True)
            require_answer(facts, within)
            groups = facts.brokers_of_groups()
            deaf = {one.name: one.replica.error for one in facts.brokers if one.is_master and one.replica.error}
        wanted = {name.strip() for name in broker or ()}
        chosen = {
            name: [each for each in found if not wanted or wanted & {each.broker_name, *each.broker_addrs.values()}]
            for name, found in groups.items()
        }
        standings = reader.read(chosen)
    for standing in standings if group else ():
        if standing.error is None and not standing.queues and not standing.clients.count and not standing.lacking:
            raise nothing_known(standing.group, groups[standing.group], " there" if wanted or topic else "")
    is_named, is_whole = len(group or ()) == 1, not (topic or wanted)
    things = [_checked_group(each, now_ms, thresholds, is_named=is_named, is_whole=is_whole) for each in standings]
    things += [CheckedThing(name, PluginState.UNKNOWN, error) for name, error in deaf.items() if not wanted]
    lag_count = sum(standing.lag_count for standing in standings)
    return CheckResult(things, f"{counted(len(standings), 'group')}, {counted(lag_count, 'message')} behind together")


def _limits_s(thresholds: tuple[Thresholds, Thresholds]) -> list[float | None]:
    """The two thresholds of a time, in seconds; None for one that is not given."""
    return [None if (limit_ms := each.get(Quantity.TIME_MS)) is None else limit_ms / 1000 for each in thresholds]


def _checked_group(
    standing: GroupStanding,
    now_ms: int,
    thresholds: tuple[Thresholds, Thresholds],
    *,
    is_named: bool,
    is_whole: bool,
) -> CheckedThing:
    if standing.error is not None:
        return CheckedThing(standing.group, PluginState.UNKNOWN, str(standing.error))
    oldest_ms = standing.oldest_waiting_ms
    age_ms = 0 if oldest_ms is None else max(0, now_ms - oldest_ms)
    prefix = "" if is_named else f"{standing.group} "
    measures = [
        Measure(f"{prefix}lag", standing.lag_count, "", *(each.get(Quantity.COUNT) for each in thresholds)),
        Measure(f"{prefix}age", age_ms / 1000, "s", *_limits_s(thresholds)),
    ]
    what = f"{counted(standing.lag_count, 'message')} behind"
    unread_count = sum(queue.lag_count for queue in standing.queues if queue.is_unread)
    if unread_count:
        what += f", {unread_count:,} of them in queues that consumers do not read"
    if oldest_ms is not None:
        what += f", the oldest waits for {duration(age_ms)}"
    if not standing.clients.count:
        what += f", {standing.nobody_text}"
    elif is_whole and standing.has_spare:
        what += ", more members than queues"
    states = [measure.state for measure in measures]
    states += [PluginState.WARNING] if unread_count else []
    if standing.lacking:
        name, error = next(iter(standing.lacking.items()))
        states.append(PluginState.UNKNOWN)
        what += f", without {name}: {error}"
    elif standing.uncommitted:
        states.append(PluginState.UNKNOWN)
        what += f", nothing committed in {uncommitted_words(standing)}"
    elif standing.lag_count and oldest_ms is None and any(Quantity.TIME_MS in each for each in thresholds):
        states.append(PluginState.UNKNOWN)
        what += ", since when is not known"
    return CheckedThing(standing.group, worst(states), what, measures)


def check_disk(
    call: Call,
    broker: BrokerNames = None,
    warning: Warning = None,
    critical: Critical = None,
    cluster: LongCluster = None,
) -> CheckResult:
    """Thresholds are percent (80%). Default: the broker's own limits. It warns above diskMaxUsedSpaceRatio, where the
    broker deletes expired files at any hour; it is critical above diskSpaceCleanForciblyRatio, where the broker deletes
    messages of any age. Exit status 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.

      rmqadmin check disk -w 99% -c 100%
      rmqadmin check disk -b broker-a -c 100%
    """
    given = limits(warning, critical, (Quantity.PERCENT,), (None, None))
    thresholds = given if any(given) else None
    within = cluster or None
    with health_clients(call) as (admin, _):
        facts = read_facts(admin, within, with_tables=False)
    require_answer(facts, within)
    wanted = facts.broker_names(broker or ())
    brokers = [one for one in facts.brokers if not wanted or one.replica.broker_name in wanted]
    missing = wanted - {one.replica.broker_name for one in brokers}
    if missing:
        raise NotFoundError(f"no name server knows the broker {', '.join(sorted(missing))}")
    things = [_checked_disk(one, thresholds) for one in brokers]
    fullest = max((measure.value for thing in things for measure in thing.measures), default=0.0)
    return CheckResult(things, f"{counted(len(things), 'broker')}, the fullest disk is {fullest:g}% full")


def _checked_disk(broker: BrokerFacts, thresholds: tuple[Thresholds, Thresholds] | None) -> CheckedThing:
    percents = disk_percents(broker.replica.info)
    if not percents:
        error = broker.replica.error or broker.refusal or "it does not say how full its disk is"
        return CheckedThing(broker.name, PluginState.UNKNOWN, error)
    own = disk_limits(broker.config)
    warning: float | None = own.warning
    critical: float | None = own.error
    if thresholds is not None:
        warning, critical = (each.get(Quantity.PERCENT) for each in thresholds)
    measures = [Measure(f"{broker.name} {what}", percent, "%", warning, critical) for what, percent in percents.items()]
    told = ", ".join(f"{what} {percent:g}%" for what, percent in percents.items())
    return CheckedThing(broker.name, worst([measure.state for measure in measures]), f"disk full to: {told}", measures)


CHECKS = frozenset({Check.REACHABLE, Check.SERVING, Check.PERMISSION, Check.ROLES, Check.BROKER_NAMES})
"""The doctor's checks that tell whether a broker does its work."""


def check_broker(
    call: Call,
    broker: BrokerNames = None,
    warning: Warning = None,
    critical: Critical = None,
    cluster: LongCluster = None,
) -> CheckResult:
    """Critical: a broker does not answer at its registered address, does not serve, has no master, or is named but not
    registered. Warning: it keeps some clients out, or a name server is down. Thresholds, if given, are for the time of
    its answer (500ms). Exit status 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.

      rmqadmin check broker
      rmqadmin check broker -b broker-a -w 10s -c 20s
    """
    thresholds = limits(warning, critical, (Quantity.TIME_MS,), (None, None))
    with health_clients(call) as (admin, _):
        facts = read_facts(admin, cluster or None, with_tables=False)
    require_answer(facts, None, brokers_too=False)  # no broker at all is critical
    found = [one for one in (*broker_findings(facts), *cluster_findings(facts)) if one.check in CHECKS]
    wanted = facts.broker_names(broker or ())
    brokers = [one for one in facts.brokers if not wanted or one.replica.broker_name in wanted]
    things = [_checked_broker(one, found, thresholds) for one in brokers]
    things += _missing(wanted, {one.replica.broker_name for one in facts.brokers})
    things += [
        CheckedThing(one.addr, PluginState.WARNING, one.error) for one in facts.namesrvs if one.error is not None
    ]
    return CheckResult(things, f"{counted(len(brokers), 'broker')} serve")


def _missing(wanted: set[str], there: set[str]) -> list[CheckedThing]:
    """Brokers that are named and not registered, or that there is none at all."""
    if not wanted and not there:
        return [CheckedThing("brokers", PluginState.CRITICAL, "no name server knows one")]
    return [CheckedThing(name, PluginState.CRITICAL, "is not registered") for name in sorted(wanted - there)]


def _checked_broker(
    broker: BrokerFacts, found: list[Finding], thresholds: tuple[Thresholds, Thresholds]
) -> CheckedThing:
    names = {broker.name, broker.replica.broker_name, broker.replica.broker_addr}
    mine = in_order(one for one in found if one.subject.name in names and one.grade in STATE_BY_GRADE)
    measures = [Measure(f"{broker.name} time", broker.took_ms / 1000, "s", *_limits_s(thresholds))]
    states = [*(STATE_BY_GRADE[one.grade] for one in mine), measures[0].state]
    what = "; ".join(one.what for one in mine) or f"serves, answered in {broker.took_ms} ms"
    return CheckedThing(broker.name, worst(states), what, measures if broker.replica.error is None else [])


_DEFAULTS = ("15s,256MiB", "1m,1GiB")


def check_ha(
    call: Call,
    broker: BrokerNames = None,
    warning: Warning = None,
    critical: Critical = None,
    cluster: LongCluster = None,
    in_sync: Annotated[
        int | None, option("--in-sync", "Critical if fewer are in sync, master included.", metavar="COUNT", min=1)
    ] = None,
) -> CheckResult:
    """Critical: a set has no master or two; has fewer replicas in sync than it needs to take messages; has a slave that
    is ahead of its master or does not hear it; a master does not answer; or its controllers disagree or have no leader.
    Warning: not all are in sync, or a slave or a controller does not answer. Thresholds are how far a slave may be
    behind: the age of the first message that it lacks, and bytes (15s,256MiB; critical 1m,1GiB). Name servers forget a
    slave that is gone, so say with --in-sync how many there should be. Exit status 0 OK, 1 WARNING, 2 CRITICAL, 3
    UNKNOWN.

      rmqadmin check ha
      rmqadmin check ha -b broker-a -w 30s,1GiB -c 5m,10GiB
      rmqadmin check ha -b broker-a --in-sync 1
    """
    thresholds = limits(warning, critical, (Quantity.TIME_MS, Quantity.BYTES), _DEFAULTS)
    within = cluster or None
    with health_clients(call) as (admin, _):

        def read() -> ServerFacts:
            facts = read_facts(admin, within, with_tables=False)
            require_answer(facts, within, brokers_too=False)
            return ServerFacts(facts, read_ha(admin, registered_brokers(facts)))

        facts, found = read_settled(read, call.status)
    now_ms = call.now_ms()
    wanted = facts.broker_names(broker or ())
    sets = [one for one in found.sets if not wanted or one.broker_name in wanted]
    things = [checked_set(one, in_sync, thresholds, now_ms) for one in sets]
    things += _missing(wanted, {one.broker_name for one in sets})
    for group in found.controllers:
        if not wanted or wanted & set(group.broker_names):
            things += [
                CheckedThing(f"controller {one.subject.name}", STATE_BY_GRADE[one.grade], one.what)
                for one in controllers_findings(group)
                if one.grade in STATE_BY_GRADE
            ]
    return CheckResult(things, f"{counted(len(sets), 'set')} of brokers, {in_sync_text(sets)}")


def checked_set(
    one: HaSet, in_sync_wanted: int | None, thresholds: tuple[Thresholds, Thresholds], now_ms: int
) -> CheckedThing:
    """What is told about one set. ``in_sync_wanted``: how many there should be; None to take any number."""
    bad = in_order(each for each in set_findings(one, now_ms) if each.grade in STATE_BY_GRADE)
    states = [STATE_BY_GRADE[each.grade] for each in bad]
    words = [each.what if each.subject.name == one.broker_name else f"{each.subject.name} {each.what}" for each in bad]
    measures = []
    count = one.in_sync_count
    if count is None:
        states.append(PluginState.UNKNOWN)
        words.append("nobody says who is in sync")
    else:
        measures.append(Measure(f"{one.broker_name} in sync", count))
        if in_sync_wanted is not None and count < in_sync_wanted:
            states.append(PluginState.CRITICAL)
            words.append(f"{count} in sync, and {in_sync_wanted} are wanted")
    for member in one.members:
        if member.error is not None and member.in_sync is not False:  # who is not in sync was told above
            states.append(PluginState.CRITICAL if member is one.master else PluginState.WARNING)
            words.append(f"{one.name_of(member)} cannot be asked: {member.error}")
    for slave in one.slaves:
        behind_bytes, behind_ms = one.behind_bytes(slave), one.behind_ms(slave, now_ms)
        if behind_bytes is None or behind_bytes < 0:
            continue
        name, sizes = one.name_of(slave), [each.get(Quantity.BYTES) for each in thresholds]
        mine = [Measure(f"{name} behind", behind_bytes, "B", *sizes)]
        if behind_ms is not None:
            mine.append(Measure(f"{name} age", behind_ms / 1000, "s", *_limits_s(thresholds)))
        measures += mine
        if (state := worst([each.state for each in mine])) is not PluginState.OK:
            states.append(state)
            words.append(f"{name} {behind_text(behind_bytes, behind_ms)}")
    well = "no slave is known" if len(one.members) == 1 else f"{count} of {len(one.members)} in sync"
    return CheckedThing(one.broker_name, worst(states), "; ".join(words) or well, measures)


def check_dlq(
    call: Call,
    group: Groups = None,
    since: Annotated[
        str | None, Value.TIME, option("--since", "Count only those stored since then, e.g. 1h; or a range A..B.")
    ] = None,
    until: Annotated[str | None, Value.TIME, option("--until", "Count only those before.")] = None,
    warning: Warning = None,
    critical: Critical = None,
    ledger: Ledger = None,
) -> CheckResult:
    """Thresholds are dead letters of one group (10) that were not redriven, by the ledgers of this machine. Default:
    -w 0, so one dead letter is a warning. Only retention removes dead letters; --since ignores the old ones sooner. A
    group that no broker knows is UNKNOWN. Exit status 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.

      rmqadmin check dlq -g OrderGroup --since 1h -w 10 -c 100
      rmqadmin check dlq -g OrderGroup
    """
    below, above = limits(warning, critical, (Quantity.COUNT,), ("0", None))
    between = time_range(since, until, call.now_ms(), tell=call.notice)
    with health_clients(call) as (admin, _):
        existing = dead_letter_groups(admin)
        wanted = sorted({name.strip() for name in group}) if group else list(existing)
        for name in wanted:
            check_group(name)

        redriven_counts: list[int] = []

        def look(name: str) -> CheckedThing:
            try:
                if name not in existing:
                    _require_known(admin, name)
                count, redriven = (0, 0)
                if name in existing:
                    count, redriven = count_between(admin, dlq_topic(name), between, ledger)
            except RocketMQError as error:
                return CheckedThing(name, PluginState.UNKNOWN, str(error))
            redriven_counts.append(redriven)
            left = count - redriven
            label = "dead letters" if len(group or ()) == 1 else f"{name} dead letters"
            measure = Measure(label, left, "", below.get(Quantity.COUNT), above.get(Quantity.COUNT))
            beside = f" left, {redriven:,} redriven" if redriven else ""
            return CheckedThing(name, measure.state, counted(left, "dead letter") + beside, [measure])

        things = ask_each(look, wanted)
    total = sum(measure.value for thing in things for measure in thing.measures)
    left = " left" if any(redriven_counts) else ""
    return CheckResult(things, f"{counted(len(things), 'group')} with {counted(round(total), 'dead letter')}{left}")


def _require_known(admin: AdminClient, group: str) -> None:
    """NotFoundError if a group without dead letters does not exist: its name may be mistyped."""
    if targets.find_route(admin, retry_topic(group)) is not None:
        return
    addrs = targets.selected_addrs(targets.all_brokers(admin.cluster_info()))
    if not any(ask_each(lambda addr: group in admin.all_groups(addr).subscription_group_table, addrs)):
        raise NotFoundError(f"no broker knows the group {group}")
