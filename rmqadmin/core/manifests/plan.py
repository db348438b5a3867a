"""Compares a manifest with what brokers have, and plans the steps that make them match.

Creations and changes come first, topics before groups and users before ACLs; deletions come last, in the opposite
order. A second run finds nothing left to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.changes import Step, not_planned
from rmqadmin.core.manifests.brokers import ManifestBroker
from rmqadmin.core.manifests.kinds import KINDS, TOPIC_KIND, ObjectKind
from rmqadmin.core.manifests.manifest import Manifest, ManifestEntry
from rmqadmin.core.topics.topic_changes import delete_in_namesrvs
from rmqproto.errors import RocketMQError

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient


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
    """All steps, including those that change nothing. With ``prune``, objects on a broker that their kind's section
    does not name are deleted. Servers that cannot be reached, or refuse, get failed steps; their error is raised if no
    server answers."""
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
            for name, values in _wished_on(place, entries):
                before = place.found.get(name)
                if values is not None:
                    wished.append(ObjectStep(kind.noun, name, kind.plan(admin, place.addr, name, values, before)))
                elif before is not None:
                    doomed.setdefault(name, []).append(place)
            for name in sorted(place.own - entries.keys()) if prune else ():
                doomed.setdefault(name, []).append(place)
        deletions[:0] = [step for name, where in doomed.items() for step in _deletion(admin, kind, name, where)]
    return [*wished, *deletions]


def _wished_on(place: Place, entries: Mapping[str, ManifestEntry]) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """What the manifest wants of each object on one broker: its values, or None if it is to be absent."""
    for name, entry in entries.items():
        key = place.broker.named_in(entry)
        if key is not None or entry.brokers is None:
            yield name, entry.on(key or "")


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

    found = targets.ask_each(
        read, [(broker, addr) for broker in brokers for addr in broker.kept_at(on_slaves=kind.on_slaves)]
    )
    if found and all(place.failure for place in found):
        assert found[0].failure is not None
        raise found[0].failure
    return found


def _deletion(admin: AdminClient, kind: ObjectKind[Any], name: str, places: Sequence[Place]) -> list[ObjectStep]:
    steps = [kind.plan_deletion(admin, place.addr, name, place.found[name]) for place in places]
    if kind is TOPIC_KIND:
        steps += _routes_left(admin, name, places)
    return [ObjectStep(kind.noun, name, step) for step in steps]


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
