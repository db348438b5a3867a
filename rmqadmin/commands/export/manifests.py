"""Files for ``apply``: written from what brokers have, compared with it (exit statuses as of diff(1)), applied."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import msgspec

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import BrokerAddr, Masters, NamedCluster
from rmqadmin.cli.options.common_options import Value, option
from rmqadmin.cli.output import diagnostics
from rmqadmin.core.access.users import without_effect
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.changes import carry_out, warn, without_foretold
from rmqadmin.core.exit_codes import ExitCode
from rmqadmin.core.manifests.kinds import ACL_KIND, GROUP_KIND, TOPIC_KIND, USER_KIND, ObjectKind, UserKind
from rmqadmin.core.manifests.manifest import (
    STANDARD_INPUT,
    ManifestEntry,
    TextFormat,
    document_of,
    joined,
    read_manifest,
    text_of,
)
from rmqadmin.core.manifests.plan import (
    Applied,
    Differences,
    ManifestBroker,
    NotComparedError,
    ObjectStep,
    applied_rows,
    brokers_of,
    plan,
    what_changes,
)
from rmqadmin.core.manifests.undo import carry_out_undoable
from rmqadmin.core.results import ResultOf, Row, doc
from rmqadmin.core.servers.broker_answers import ask_each
from rmqproto.errors import RocketMQError, UsageError


def exported_entries(
    admin: AdminClient, kind: ObjectKind[Any], brokers: Sequence[ManifestBroker]
) -> dict[str, ManifestEntry]:
    """The objects that are not the system's, by name. Slaves are not asked, because they have what their masters have.
    Every broker must answer: without its part, the file would say that its objects do not exist."""
    masters = {broker.name: broker.master_addr for broker in brokers if broker.master_addr is not None}
    names = list(masters)
    tables = ask_each(lambda name: kind.own(admin, masters[name]), names)
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for broker, table in zip(names, tables, strict=True):
        for name, each in table.items():
            found.setdefault(name, {})[broker] = kind.exported(each)
    return {name: joined(found[name], names) for name in sorted(found)}


Files = Annotated[
    list[str], Value.FILE, option("-f", "--file", "YAML or JSON; repeatable. - is standard input.", metavar="FILE|-")
]
Prune = Annotated[
    str | None,
    Value.CLUSTER,
    option("--prune", "Also delete what the file's sections do not name. Type the cluster's name."),
]


def planned(
    call: Call, files: Sequence[str], broker_addr: str | None, cluster_name: str | None, prune: str | None
) -> list[ObjectStep]:
    """The steps from the present state to the one in the files. UsageError for invalid files, and for a name after
    ``--prune`` that is not the cluster's."""
    if STANDARD_INPUT in files:
        call.tell_if_typed("the wanted state")
    manifest = read_manifest(files)
    if prune is not None and (cluster_name is None or prune.strip() != cluster_name.strip()):
        raise UsageError(
            f"--prune {prune}: that is not the cluster of -c", hint="It deletes, so type the cluster's full name."
        )
    brokers = brokers_of(call.admin, manifest, broker_addr, cluster_name)
    steps = plan(call.admin, manifest, brokers, prune=prune is not None)
    if call.dry_run:
        return steps
    tried = without_foretold(one.step for one in steps)  # what is foretold is no difference either
    return [msgspec.structs.replace(one, step=step) for one, step in zip(steps, tried, strict=True)]


FileText = Annotated[TextFormat, option("--format", "Format of the file; `apply` reads both.")]


class ExportedRow(Row, frozen=True):
    name: Annotated[str, doc("its name", key=True)]
    kind: Annotated[str, doc("topic, group, user or acl")]
    values: Annotated[dict[str, Any], doc("its fields, by Apache's names")]
    brokers: Annotated[
        dict[str, dict[str, Any]] | None, doc("the brokers that have it, with what is different there; none: all")
    ]


class ExportedObjects(ResultOf[ExportedRow], frozen=True):
    """Objects, by name; as a table, the file for `apply`."""

    kind: str
    section: str
    command: str
    format: TextFormat
    entries: dict[str, ManifestEntry]

    def rows(self) -> Sequence[ExportedRow]:
        return [
            ExportedRow(name=name, kind=self.kind, values=entry.values, brokers=entry.brokers)
            for name, entry in self.entries.items()
        ]

    def cards(self, width: int | None, now_ms: int | None) -> Iterator[str]:
        yield text_of(document_of({self.section: self.entries}, self.command), self.format)


def _exported(call: Call, kind: ObjectKind[Any], where: Masters, format: TextFormat) -> ExportedObjects:
    brokers = brokers_of(call.admin, {}, where.broker_addr, where.cluster_name)
    entries = exported_entries(call.admin, kind, brokers)
    return ExportedObjects(kind.noun, kind.section, call.command, format, entries)


def export_topics(call: Call, where: Masters, format: FileText = TextFormat.YAML) -> ExportedObjects:
    """Leaves out retry topics, dead-letter queues and system topics.

    rmqadmin export topics -c DefaultCluster
    rmqadmin export topics -b 127.0.0.1:10911 --format json
    """
    return _exported(call, TOPIC_KIND, where, format)


def export_groups(call: Call, where: Masters, format: FileText = TextFormat.YAML) -> ExportedObjects:
    """Leaves out system groups.

    rmqadmin export groups -c DefaultCluster
    rmqadmin export groups -b 127.0.0.1:10911 --format json
    """
    return _exported(call, GROUP_KIND, where, format)


def export_users(
    call: Call,
    where: Masters,
    format: FileText = TextFormat.YAML,
    with_passwords: Annotated[
        bool, option("--with-passwords", "Include passwords in clear text: keep the file secret.")
    ] = False,
) -> ExportedObjects:
    """Reads the users of the masters. Without passwords, the file can change users but not create any.

    rmqadmin export users -c DefaultCluster
    rmqadmin export users -b 127.0.0.1:10911 --with-passwords
    """
    return _exported(call, UserKind(with_passwords=with_passwords), where, format)


def export_acls(call: Call, where: Masters, format: FileText = TextFormat.YAML) -> ExportedObjects:
    """Reads the ACLs of the masters and groups them by subject.

    rmqadmin export acls -c DefaultCluster
    rmqadmin export acls -b 127.0.0.1:10911 --format json
    """
    return _exported(call, ACL_KIND, where, format)


def diff(
    call: Call,
    file: Files,
    broker_addr: BrokerAddr = None,
    cluster_name: NamedCluster = None,
    prune: Prune = None,
) -> Differences:
    """Exit status 0: brokers have what the file says. 1: they do not. 2 or more: unknown.

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
    """Takes the steps, or shows them in a dry run. StorageError if the undo file cannot be written; nothing is changed
    then."""
    steps, undo_file = [one.step for one in todo], None
    if dry_run:
        found = applied_rows(todo, carry_out(steps, dry_run=True))
    else:
        done = carry_out_undoable(call.command, steps, call.now_ms(), call.notice)
        found = applied_rows(todo, done.rows)
        undo_file = None if done.undo_file is None else str(done.undo_file)
    of_access = (USER_KIND.noun, ACL_KIND.noun)
    addrs = [row.target for row in found if row.kind in of_access and row.error is None]
    return Applied(found, kept_count, undo_file=undo_file, without_effect=without_effect(call.admin, addrs))
