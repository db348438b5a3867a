"""Exports brokers' objects as a manifest that `apply` takes back unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rmqadmin.core import targets
from rmqadmin.core.manifests.brokers import ManifestBroker
from rmqadmin.core.manifests.kinds import ObjectKind
from rmqadmin.core.manifests.manifest import ManifestEntry, joined

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient


def exported_entries(
    admin: AdminClient, kind: ObjectKind[Any], brokers: Sequence[ManifestBroker]
) -> dict[str, ManifestEntry]:
    """The objects that are not the system's, by name. Slaves are not asked, because they have what their masters have.
    Every broker must answer: without its part, the file would say that its objects do not exist."""
    masters = {broker.name: broker.master_addr for broker in brokers if broker.master_addr is not None}
    names = list(masters)
    tables = targets.ask_each(lambda name: kind.own(admin, masters[name]), names)
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for broker, table in zip(names, tables, strict=True):
        for name, each in table.items():
            found.setdefault(name, {})[broker] = kind.exported(each)
    return {name: joined(found[name], names) for name in sorted(found)}
