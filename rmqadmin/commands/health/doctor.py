"""``doctor``: shows what is wrong with a cluster, and what to do about it."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.call import Call
from rmqadmin.core.groups.lag_trend import SAMPLE_DEFAULT_S
from rmqadmin.core.health.examination import Diagnosis, Examiner
from rmqadmin.core.health.health_finding import Check
from rmqadmin.options.command_options import ClusterOnly
from rmqadmin.options.health_options import Sample, health_clients
from rmqclient.addresses import parse_addresses


def doctor(
    call: Call,
    cluster: ClusterOnly = None,
    quick: Annotated[bool, typer.Option("--quick", help="Name servers and brokers alone.")] = False,
    show_all: Annotated[bool, typer.Option("--all", help="Also what is as it should be.")] = False,
    ignore: Annotated[
        list[Check] | None,
        typer.Option("--ignore", metavar="CHECK", help="Leave out findings of this check. Repeatable."),
    ] = None,
    sample_s: Sample = SAMPLE_DEFAULT_S,
    controllers: Annotated[
        str | None,
        typer.Option(
            "--controllers",
            metavar="HOST:PORT[;...]",
            help="Besides those that brokers name: they know sets of which no broker is registered.",
        ),
    ] = None,
) -> Diagnosis:
    """Asks every name server and every broker, at the address that it registered: whether it is reached from here,
    serves, has the right time and room on its disk; whether name servers and brokers agree; what permissions somebody
    left behind; what is wrong with each group. Nothing is changed. A server that does not answer is a finding, and
    costs one --timeout. Where groups lag, their offsets are read twice, so that it is seen whether they move.

    Exit status 1 if there are errors or warnings, 0 if not; notes do not count.

    Examples:
      rmqadmin doctor --quick
      rmqadmin doctor --quick --all
      rmqadmin -o json doctor --quick --ignore flush --all
    """
    controller_addrs = parse_addresses(controllers) if controllers else []
    with health_clients(call, pause_s=sample_s) as (admin, members):
        examiner = Examiner(
            admin=admin,
            members=members,
            cluster=cluster.strip() if cluster else None,
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
