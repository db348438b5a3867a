"""Compares a manifest with what brokers have, and plans the steps that make them match.

Creations and changes come first, topics before groups and users before ACLs; deletions come last, in the opposite
order. A second run finds nothing left to do.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.changes import KEEP, NOT_PLANNED, ChangeRow, FieldChange, Step, not_planned, unless_refused
from rmqadmin.core.manifests.kinds import KINDS, TOPIC_KIND, ObjectKind
from rmqadmin.core.manifests.manifest import Manifest, ManifestEntry
from rmqadmin.core.results import FoundRows, Row, doc, row_of
from rmqadmin.core.servers.broker_answers import ask_each
from rmqadmin.core.terminal_text import printable
from rmqadmin.core.topics.topic_changes import delete_in_namesrvs, loss
from rmqproto.errors import NotFoundError, RocketMQError, UsageError


class ManifestBroker(msgspec.Struct, frozen=True):
    """One broker. If no name server knows it, ``cluster`` is None and ``name`` is its address."""

    name: str
    cluster: str | None
    master_addr: str | None
    addrs: list[str]

    def kept_at(self, *, on_slaves: bool) -> list[str]:
        """The addresses at which the broker must be told of a change."""
        if on_slaves:
            return self.addrs
        return [] if self.master_addr is None else [self.master_addr]

    def named_in(self, entry: ManifestEntry) -> str | None:
        """The key in the entry's ``brokers`` that means this broker."""
        return next((key for key in entry.brokers or {} if key == self.name or key in self.addrs), None)


def brokers_of(
    admin: AdminClient, manifest: Manifest, broker_addr: str | None, cluster_name: str | None
) -> list[ManifestBroker]:
    """The brokers of ``-b`` or ``-c``. With neither, those that the entries name by address or, unless all do,
    those of the only cluster. NotFoundError for a broker that an entry names and that is not among them."""
    entries = [entry for section in manifest.values() for entry in section.values()]
    named = list(dict.fromkeys(key for entry in entries for key in entry.brokers or {}))
    all_named = bool(entries) and all(entry.brokers is not None for entry in entries)
    if broker_addr is not None or cluster_name is not None or not all_named or not all(":" in key for key in named):
        if broker_addr is None and cluster_name is None:
            cluster_name = targets.only_cluster(admin.cluster_info())
        addrs = targets.masters(admin, broker_addr, cluster_name)  # raises the same errors as in all commands
    else:
        addrs = named
    if cluster_name is not None:
        found = [
            ManifestBroker(each.broker_name, each.cluster, each.master_addr, targets.replicas_of_all([each]))
            for each in targets.cluster(admin, cluster_name)
        ]
    else:
        brokers = targets.all_brokers(admin.cluster_info())
        at = {addr: (each.broker_name, each.cluster) for each in brokers for addr in each.broker_addrs.values()}
        found = [ManifestBroker(*at.get(addr, (addr, None)), addr, [addr]) for addr in addrs]
    known = {key for broker in found for key in (broker.name, *broker.addrs)}
    unknown = [key for key in named if key not in known]
    if unknown and broker_addr is None:  # with -b, other brokers are left alone
        there = ", ".join(broker.name for broker in found)
        raise NotFoundError(f"there is no broker {unknown[0]}", hint=f"There are {there}.")
    return found


class ObjectStep(msgspec.Struct, frozen=True):
    """One change of one object on one server."""

    noun: str
    name: str
    step: Step


class Place(msgspec.Struct, frozen=True):
    """One server of one broker, and its objects of one kind: all of them, and those that are not the system's.
    ``failure``: why they are unknown."""

    broker: ManifestBroker
    addr: str
    found: dict[str, Any] = {}
    own: frozenset[str] = frozenset()
    failure: RocketMQError | None = None


def plan(
    admin: AdminClient, manifest: Manifest, brokers: Sequence[ManifestBroker], *, prune: bool = False
) -> list[ObjectStep]:
    """All steps, including those that change nothing; those that delete a topic warn of what is lost. With ``prune``,
    objects on a broker that their kind's section does not name are deleted. Servers that cannot be reached, or refuse,
    get failed steps; their error is raised if no server answers."""
    wished: list[ObjectStep] = []
    deletions: list[ObjectStep] = []
    for kind in KINDS:
        entries = manifest.get(kind.section)
        if entries is None:
            continue
        doomed: dict[str, list[Place]] = {}
        places = read_places(admin, kind, brokers, prune=prune)
        wished += [
            ObjectStep(kind.noun, "", not_planned(place.addr, place.failure))
            for place in places
            if place.failure is not None
        ]
        for place in (each for each in places if each.failure is None):
            for name, entry in entries.items():
                key, before = place.broker.named_in(entry), place.found.get(name)
                if key is None and entry.brokers is not None:
                    continue
                values = entry.on(key or "")
                if values is not None:
                    wished.append(ObjectStep(kind.noun, name, kind.plan(admin, place.addr, name, values, before)))
                elif before is not None:
                    doomed.setdefault(name, []).append(place)
            for name in sorted(place.own - entries.keys()) if prune else ():
                doomed.setdefault(name, []).append(place)
        of_kind: list[ObjectStep] = []
        for name, where in doomed.items():
            steps = [kind.plan_deletion(admin, place.addr, name, place.found[name]) for place in where]
            if kind is TOPIC_KIND:
                lost = f"{name}: {loss(admin, name, [place.addr for place in where])}"
                steps = [*(msgspec.structs.replace(step, warnings=[lost]) for step in steps)]
                steps = unless_refused(steps, _routes_left(admin, name, where))
            of_kind += [ObjectStep(kind.noun, name, step) for step in steps]
        deletions = of_kind + deletions
    return [*wished, *deletions]


def read_places(
    admin: AdminClient, kind: ObjectKind[Any], brokers: Iterable[ManifestBroker], *, prune: bool = False
) -> list[Place]:
    """The objects on every server. The first error if none can be read."""

    def read(at: tuple[ManifestBroker, str]) -> Place:
        broker, addr = at
        try:
            own = frozenset(kind.prunable(admin, addr)) if prune else frozenset()
            return Place(broker, addr, kind.read(admin, addr), own)
        except RocketMQError as error:
            return Place(broker, addr, failure=error)

    found = ask_each(read, [(broker, addr) for broker in brokers for addr in broker.kept_at(on_slaves=kind.on_slaves)])
    if found and all(place.failure for place in found):
        assert found[0].failure is not None
        raise found[0].failure
    return found


def _routes_left(admin: AdminClient, topic: str, places: Sequence[Place]) -> list[Step]:
    """Deletes a topic's routes from the name servers in each cluster where no broker has the topic any more."""
    route = targets.find_route(admin, topic)
    if route is None:
        return []
    gone = {place.broker.name for place in places}
    left = {broker.cluster for broker in route.broker_datas if broker.broker_name not in gone}
    clusters = dict.fromkeys(place.broker.cluster for place in places)
    return [
        step
        for cluster in clusters
        if cluster is not None and cluster not in left
        for step in delete_in_namesrvs(admin, topic, cluster, has_route=True)
    ]


_MARKS = {"create": "+", "delete": "-", **dict.fromkeys(NOT_PLANNED, "!")}


class AppliedRow(Row, frozen=True):
    kind: Annotated[str, doc("topic, group, user or acl", key=True)]
    name: Annotated[str, doc("its name; empty for a server that cannot be reached, or refuses", key=True)]
    target: Annotated[str, doc("address of the server", key=True)]
    action: Annotated[str, doc("create, change, delete, unreached or refused", vital=True)]
    changes: Annotated[list[FieldChange], doc("field, before, after", vital=True)]
    done: Annotated[bool, doc("false under --dry-run and of diff, and where it failed", vital=True)]
    error: Annotated[str | None, doc("why it failed", sparse=True)]


class AppliedTotals(Row, frozen=True):
    created_count: Annotated[int, doc("to be created, or created: each on each server")]
    changed_count: Annotated[int, doc("to be changed, or changed")]
    deleted_count: Annotated[int, doc("to be deleted, or deleted")]
    kept_count: Annotated[int, doc("as the file says already")]
    failed_count: Annotated[int, doc("not done, with an error")]
    undo_file: Annotated[str | None, doc("what `apply -f` takes back to how topics and groups were", sparse=True)]


class Applied(FoundRows[AppliedRow], frozen=True):
    """What differs from the file, by object and server. ``without_effect``: which brokers ignore users, and why."""

    kept_count: int
    undo_file: str | None = None
    without_effect: str | None = None

    def summary(self) -> AppliedTotals:
        counts = Counter("failed" if row.error is not None else row.action for row in self.found)
        return AppliedTotals(
            created_count=counts["create"],
            changed_count=counts["change"],
            deleted_count=counts["delete"],
            kept_count=self.kept_count,
            failed_count=counts["failed"],
            undo_file=self.undo_file,
        )

    def cards(self, width: int | None, now_ms: int | None) -> Iterator[str]:
        """The lines of a diff: each object and server, then its fields, then the counts."""
        for row in self.found:
            how = f": {row.error}" if row.error is not None else ", done" if row.done else ""
            yield printable(f"{_MARKS.get(row.action, '~')} {row.kind} {row.name} on {row.target}{how}") + "\n"
            for change in row.changes if row.action != "delete" else ():
                said = change.for_people()
                yield printable(f"    {said.replace(' none -> ', ' ') if row.action == 'create' else said}") + "\n"
        totals, is_done = self.summary(), any(row.done for row in self.found)
        numbers = (
            (totals.created_count, "created" if is_done else "to create"),
            (totals.changed_count, "changed" if is_done else "to change"),
            (totals.deleted_count, "deleted" if is_done else "to delete"),
            (totals.failed_count, "failed"),
            (self.kept_count, "kept"),
        )
        counts = ", ".join(f"{count:,} {word}" for count, word in numbers if count)
        yield f"{counts or 'the file names nothing'}\n"

    def remark(self) -> str | None:
        return self.without_effect

    def problem(self) -> str | None:
        failed = [row for row in self.found if row.error is not None]
        return f"{len(failed)} of {len(self.found)} failed: {failed[0].error}" if failed else None


class NotComparedError(UsageError):
    """A server refused a question of `diff`, which ends with status 2, as diff(1) in trouble."""


class Differences(Applied, frozen=True):
    """What `apply` would do. The status says whether there is anything."""

    def exit_status(self) -> int:
        return 1 if self.found else 0


def applied_rows(steps: Sequence[ObjectStep], rows: Sequence[ChangeRow]) -> list[AppliedRow]:
    return [row_of(AppliedRow, row, kind=one.noun, name=one.name) for one, row in zip(steps, rows, strict=True)]


def what_changes(steps: Sequence[ObjectStep]) -> list[ObjectStep]:
    """The steps that change something."""
    return [one for one in steps if one.step.action != KEEP]
