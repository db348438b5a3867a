"""``check disk``: tells a monitoring system how full brokers' disks are."""

from __future__ import annotations

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.health_options import (
    BrokerNames,
    Critical,
    LongCluster,
    Warning,
    health_clients,
    limits,
    require_answer,
)
from rmqadmin.core.health.disk_limits import disk_limits, disk_percents
from rmqadmin.core.health.facts import BrokerFacts, read_facts
from rmqadmin.core.health.plugin_text import CheckedThing, CheckResult, Measure, PluginState, worst
from rmqadmin.core.health.thresholds import Quantity, Thresholds
from rmqproto.errors import NotFoundError
from rmqproto.wording import counted


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

    Examples:
      rmqadmin check disk -w 99% -c 100%
      rmqadmin check disk -b broker-a -c 100%
    """
    given = limits(warning, critical, (Quantity.PERCENT,), (None, None))
    thresholds = given if any(given) else None
    within = cluster.strip() if cluster else None
    with health_clients(call) as (admin, _):
        facts = read_facts(admin, within, with_tables=False)
    require_answer(facts, within)
    wanted = facts.broker_names(broker or ())
    brokers = [one for one in facts.brokers if not wanted or one.replica.broker_name in wanted]
    missing = wanted - {one.replica.broker_name for one in brokers}
    if missing:
        raise NotFoundError(f"no name server knows the broker {', '.join(sorted(missing))}")
    things = [_thing(one, thresholds) for one in brokers]
    fullest = max((measure.value for thing in things for measure in thing.measures), default=0.0)
    return CheckResult(things, f"{counted(len(things), 'broker')}, the fullest disk is {fullest:g}% full")


def _thing(broker: BrokerFacts, thresholds: tuple[Thresholds, Thresholds] | None) -> CheckedThing:
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
