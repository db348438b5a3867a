"""``check lag``: tells a monitoring system how far groups are behind."""

from __future__ import annotations

from collections.abc import Sequence

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import TopicOnly
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
from rmqadmin.core.groups.consumption import brokers_of_group, nothing_known
from rmqadmin.core.groups.group_standing import GroupStanding, StandingsReader
from rmqadmin.core.health.facts import read_facts
from rmqadmin.core.health.group_checks import uncommitted_words
from rmqadmin.core.health.plugin_text import CheckedThing, CheckResult, Measure, PluginState, worst
from rmqadmin.core.health.thresholds import Quantity, Thresholds
from rmqadmin.core.units import duration
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

    Examples:
      rmqadmin check lag -g OrderGroup -w 1k,1h -c 10k,2h
      rmqadmin -o json check lag -g OrderGroup -t OrderTopic -b broker-a
    """
    thresholds = limits(warning, critical, (Quantity.COUNT, Quantity.TIME_MS), DEFAULT)
    now_ms = call.now_ms()
    within = cluster.strip() if cluster else None
    with health_clients(call) as (admin, _):
        reader = StandingsReader(
            admin=admin, members=None, sample_s=0, now_ms=now_ms, queues_dated_max=QUEUES_DATED_MAX,
            topic=topic.strip() if topic else None,
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
    things = [_thing(each, now_ms, *thresholds, is_named=is_named, is_whole=is_whole) for each in standings]
    things += [CheckedThing(name, PluginState.UNKNOWN, error) for name, error in deaf.items() if not wanted]
    return CheckResult(things, _headline(standings))


def _headline(standings: Sequence[GroupStanding]) -> str:
    lag_count = sum(standing.lag_count for standing in standings)
    return f"{counted(len(standings), 'group')}, {counted(lag_count, 'message')} behind together"


def _thing(
    standing: GroupStanding, now_ms: int, warning: Thresholds, critical: Thresholds, *, is_named: bool, is_whole: bool
) -> CheckedThing:
    if standing.error is not None:
        return CheckedThing(standing.group, PluginState.UNKNOWN, str(standing.error))
    oldest_ms = standing.oldest_waiting_ms
    age_ms = 0 if oldest_ms is None else max(0, now_ms - oldest_ms)
    prefix = "" if is_named else f"{standing.group} "

    def seconds(thresholds: Thresholds) -> float | None:
        limit_ms = thresholds.get(Quantity.TIME_MS)
        return None if limit_ms is None else limit_ms / 1000

    measures = [
        Measure(f"{prefix}lag", standing.lag_count, "", warning.get(Quantity.COUNT), critical.get(Quantity.COUNT)),
        Measure(f"{prefix}age", age_ms / 1000, "s", seconds(warning), seconds(critical)),
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
    elif standing.lag_count and oldest_ms is None and Quantity.TIME_MS in {**warning, **critical}:
        states.append(PluginState.UNKNOWN)
        what += ", since when is not known"
    return CheckedThing(standing.group, worst(states), what, measures)
