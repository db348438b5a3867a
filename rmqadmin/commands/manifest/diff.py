"""``diff``: shows what `apply` would change. The exit status is that of diff(1): 0 for no differences, 1 for
differences, 2 and more for errors."""

from __future__ import annotations

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import BrokerAddr, NamedCluster
from rmqadmin.cli.options.manifest_options import Files, Prune, planned
from rmqadmin.cli.output import diagnostics
from rmqadmin.core.changes import carry_out, warn
from rmqadmin.core.exit_codes import ExitCode
from rmqadmin.core.manifests.planned_rows import Differences, NotComparedError, applied_rows, what_changes
from rmqproto.errors import RocketMQError


def diff(
    call: Call,
    file: Files,
    broker_addr: BrokerAddr = None,
    cluster_name: NamedCluster = None,
    prune: Prune = None,
) -> Differences:
    """Exit status 0: brokers have what the file says. 1: they do not. 2 or more: unknown.

    Examples:
      rmqadmin diff -f wanted.yaml -c DefaultCluster
    """
    try:
        steps = planned(call, file, broker_addr, cluster_name, prune)
        for one in steps:
            if one.step.failure is not None:
                raise one.step.failure
    except RocketMQError as error:
        if diagnostics.exit_code(error) is ExitCode.REFUSED:
            raise NotComparedError(str(error), hint=error.hint) from error
        raise
    todo = what_changes(steps)
    warn([one.step for one in todo], call.notice)
    rows = carry_out([one.step for one in todo], dry_run=True)
    return Differences(applied_rows(todo, rows), len(steps) - len(todo))
