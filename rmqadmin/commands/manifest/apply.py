"""``apply``: changes brokers to match a file."""

from __future__ import annotations

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import BrokerAddr, NamedCluster
from rmqadmin.cli.options.manifest_options import Files, Prune, planned
from rmqadmin.core.access.enforcement import without_effect
from rmqadmin.core.changes import carry_out, warn
from rmqadmin.core.manifests.kinds import ACL_KIND, USER_KIND
from rmqadmin.core.manifests.plan import ObjectStep
from rmqadmin.core.manifests.planned_rows import Applied, AppliedRow, applied_rows, what_changes
from rmqadmin.core.manifests.way_back import carry_out_undoable


def apply(
    call: Call,
    file: Files,
    broker_addr: BrokerAddr = None,
    cluster_name: NamedCluster = None,
    prune: Prune = None,
) -> Applied:
    """The file has sections topics, groups, users and acls, by name, as `rmqadmin export` writes them
    (docs/changes.md). Fields that an object leaves out stay as they are; so do objects that the file does not name,
    without --prune. {absent: true} deletes.

    Examples:
      rmqadmin apply -f wanted.yaml -c DefaultCluster --dry-run
      rmqadmin apply -f wanted.yaml -c DefaultCluster --yes
    """
    steps = planned(call, file, broker_addr, cluster_name, prune)
    todo = what_changes(steps)
    warn([one.step for one in todo], call.notice)
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
    """Takes the steps, or shows them in a dry run. OSError if the undo file cannot be written; nothing is changed
    then."""
    steps = [one.step for one in todo]
    if dry_run:
        found = applied_rows(todo, carry_out(steps, dry_run=True))
        return Applied(found, kept_count, without_effect=_without_effect(call, found))
    rows, path = carry_out_undoable(call.command, steps, call.now_ms(), call.notice)
    found = applied_rows(todo, rows)
    return Applied(
        found,
        kept_count,
        undo_file=None if path is None else str(path),
        without_effect=_without_effect(call, found),
    )


def _without_effect(call: Call, rows: list[AppliedRow]) -> str | None:
    of_access = (USER_KIND.noun, ACL_KIND.noun)
    return without_effect(call.admin, [row.target for row in rows if row.kind in of_access and row.error is None])
