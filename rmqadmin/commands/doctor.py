"""``doctor``: shows what is wrong with a cluster, and what to do about it."""

from typing import Annotated

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import ClusterOnly
from rmqadmin.cli.options.common_options import Value, option
from rmqadmin.cli.options.health_options import Sample, health_clients
from rmqadmin.core.groups.lag import SAMPLE_DEFAULT_S
from rmqadmin.core.health.examination import Diagnosis, Examiner
from rmqadmin.core.health.finding import Check
from rmqclient.addresses import parse_addresses


def doctor(
    call: Call,
    cluster: ClusterOnly = None,
    quick: Annotated[bool, option("--quick", "Check no topics, and 50 groups at most.")] = False,
    show_all: Annotated[bool, option("--all", "Also show what is in order.")] = False,
    ignore: Annotated[
        list[Check] | None, option("--ignore", "Leave out findings of this check. Repeatable.", metavar="CHECK")
    ] = None,
    sample_s: Sample = SAMPLE_DEFAULT_S,
    controllers: Annotated[
        str | None,
        Value.ADDRESSES,
        option("--controllers", "Also ask these controllers: they know sets without any registered broker."),
    ] = None,
) -> Diagnosis:
    """Asks every name server, and every broker at its registered address. Checks whether each can be reached from here,
    serves, has the right time and disk space; whether name servers and brokers agree; which permissions were left
    changed; what is wrong with each group. Changes nothing. A server that does not answer is a finding, and costs one
    --timeout. Offsets of lagging groups are read twice, to see whether they move. Exit status 1 if there are errors or
    warnings, 0 if not; notes do not count.

      rmqadmin doctor --quick
      rmqadmin doctor --quick --all
      rmqadmin -o json doctor --quick --ignore flush --all
    """
    controller_addrs = parse_addresses(controllers) if controllers else []
    with health_clients(call, pause_s=sample_s) as (admin, members):
        examiner = Examiner(
            admin=admin,
            members=members,
            cluster=cluster or None,
            controller_addrs=controller_addrs,
            is_quick=quick,
            ignored=frozenset(ignore or ()),
            sample_s=sample_s,
            now_ms=call.now_ms,
            say=call.status,
        )
        try:
            return examiner.diagnosis(shows_all=show_all)
        finally:
            call.status(None)
