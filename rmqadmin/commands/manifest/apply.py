"""``apply``: makes brokers have what a file says."""

from __future__ import annotations

import msgspec

from rmqadmin.call import Call
from rmqadmin.core.changes import carry_out
from rmqadmin.core.manifests.plan import ObjectStep
from rmqadmin.core.manifests.planned_rows import Applied, applied_rows, what_changes
from rmqadmin.core.manifests.way_back import undo_command, write_undo
from rmqadmin.options.command_options import BrokerAddr, ClusterName
from rmqadmin.options.manifest_options import Files, Prune, planned
from rmqproto.errors import RocketMQError


def apply(
    call: Call,
    file: Files,
    broker_addr: BrokerAddr = None,
    cluster_name: ClusterName = None,
    prune: Prune = None,
) -> Applied:
    """Sections are topics, groups, users and acls, by name, as `rmqadmin export` writes them (docs/changes.md). What
    an object leaves out stays as it is; so does what the file does not name, without --prune. {absent: true} deletes.

    Examples:
      rmqadmin apply -f wanted.yaml -c DefaultCluster --dry-run
      rmqadmin apply -f wanted.yaml -c DefaultCluster --yes
    """
    steps = planned(call, file, broker_addr, cluster_name, prune)
    todo = what_changes(steps)
    preview = _outcome(call, todo, len(steps) - len(todo), dry_run=True)
    if call.dry_run or not todo:
        return preview
    where = (cluster_name or broker_addr or todo[0].step.target).strip()
    deletions = sum(one.step.action == "delete" for one in todo)
    what = f"This changes {len(todo)} objects" + (f", of which it deletes {deletions}." if deletions else ".")
    if deletions and prune is None:
        call.confirm_bulk(what, where, preview=preview)
    else:
        call.confirm(what, where, preview=preview)
    return _outcome(call, todo, preview.kept_count, dry_run=False)


def _outcome(call: Call, todo: list[ObjectStep], kept_count: int, *, dry_run: bool) -> Applied:
    """Writes the undo file before anything is changed. OSError if that cannot be done."""
    steps = [one.step for one in todo]
    path = None if dry_run else write_undo(call.command, [step for step in steps if not step.failure], call.now_ms())
    try:
        rows = applied_rows(todo, carry_out(steps, dry_run=dry_run))
    except RocketMQError:
        if path is not None:
            path.unlink()  # nothing was changed
        raise
    if path is not None:
        call.notice(f"to undo this: {undo_command(path)}")
    return msgspec.structs.replace(Applied(rows, kept_count), undo_file=None if path is None else str(path))
