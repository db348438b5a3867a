"""Files for ``apply``: written from what brokers have, compared with it (exit statuses as of diff(1)), applied."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import BrokerAddr, ClusterName, NamedCluster
from rmqadmin.cli.options.manifest_options import Files, Prune, planned
from rmqadmin.cli.output import diagnostics
from rmqadmin.cli.shared.exported_objects import ExportedObjects, FileText, export_objects
from rmqadmin.core.access.enforcement import without_effect
from rmqadmin.core.changes import carry_out, warn
from rmqadmin.core.exit_codes import ExitCode
from rmqadmin.core.manifests.documents import TextFormat
from rmqadmin.core.manifests.kinds import ACL_KIND, GROUP_KIND, TOPIC_KIND, USER_KIND, UserKind
from rmqadmin.core.manifests.plan import ObjectStep
from rmqadmin.core.manifests.planned_rows import (
    Applied,
    AppliedRow,
    Differences,
    NotComparedError,
    applied_rows,
    what_changes,
)
from rmqadmin.core.manifests.way_back import carry_out_undoable
from rmqproto.errors import RocketMQError


def export_topics(
    call: Call, broker_addr: BrokerAddr = None, cluster_name: ClusterName = None, format: FileText = TextFormat.YAML
) -> ExportedObjects:
    """Leaves out retry topics, dead-letter queues and system topics.

    Examples:
      rmqadmin export topics -c DefaultCluster
      rmqadmin export topics -b 127.0.0.1:10911 --format json
    """
    return export_objects(call, TOPIC_KIND, broker_addr, cluster_name, format)


def export_groups(
    call: Call, broker_addr: BrokerAddr = None, cluster_name: ClusterName = None, format: FileText = TextFormat.YAML
) -> ExportedObjects:
    """Leaves out system groups.

    Examples:
      rmqadmin export groups -c DefaultCluster
      rmqadmin export groups -b 127.0.0.1:10911 --format json
    """
    return export_objects(call, GROUP_KIND, broker_addr, cluster_name, format)


def export_users(
    call: Call,
    broker_addr: BrokerAddr = None,
    cluster_name: ClusterName = None,
    format: FileText = TextFormat.YAML,
    with_passwords: Annotated[
        bool, typer.Option("--with-passwords", help="Include passwords in clear text: keep the file secret.")
    ] = False,
) -> ExportedObjects:
    """Reads the users of the masters. Without passwords, the file can change users but not create any.

    Examples:
      rmqadmin export users -c DefaultCluster
      rmqadmin export users -b 127.0.0.1:10911 --with-passwords
    """
    kind = UserKind(with_passwords=with_passwords)
    return export_objects(call, kind, broker_addr, cluster_name, format)


def export_acls(
    call: Call, broker_addr: BrokerAddr = None, cluster_name: ClusterName = None, format: FileText = TextFormat.YAML
) -> ExportedObjects:
    """Reads the ACLs of the masters and groups them by subject.

    Examples:
      rmqadmin export acls -c DefaultCluster
      rmqadmin export acls -b 127.0.0.1:10911 --format json
    """
    return export_objects(call, ACL_KIND, broker_addr, cluster_name, format)


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
