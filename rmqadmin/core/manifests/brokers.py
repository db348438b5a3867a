"""Which brokers a manifest applies to: one broker, those of a cluster, or those that it names by address."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.manifests.manifest import Manifest, ManifestEntry
from rmqproto.bodies.routes import BrokerData
from rmqproto.errors import NotFoundError


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
    if broker_addr is not None or cluster_name is not None or not _all_are_addresses(entries):
        if broker_addr is None and cluster_name is None:
            cluster_name = targets.only_cluster(admin.cluster_info())
        addrs = targets.masters(admin, broker_addr, cluster_name)  # raises the same errors as in all commands
    else:
        addrs = list(dict.fromkeys(key for entry in entries for key in entry.brokers or {}))
    if cluster_name is not None:
        found = [_broker(each) for each in targets.cluster(admin, cluster_name)]
    else:
        found = list(_by_address(admin, addrs))
    if broker_addr is None:  # with -b, other brokers are left alone
        _check_named(entries, found)
    return found


def _broker(data: BrokerData) -> ManifestBroker:
    return ManifestBroker(
        data.broker_name,
        data.cluster,
        data.master_addr,
        [addr for _, addr in sorted(data.broker_addrs.items())],
    )


def _by_address(admin: AdminClient, addrs: list[str]) -> Iterator[ManifestBroker]:
    known = targets.all_brokers(admin.cluster_info())
    for addr in addrs:
        data = next((each for each in known if addr in each.broker_addrs.values()), None)
        yield ManifestBroker(
            addr if data is None else data.broker_name, None if data is None else data.cluster, addr, [addr]
        )


def _all_are_addresses(entries: list[ManifestEntry]) -> bool:
    return bool(entries) and all(
        entry.brokers is not None and all(":" in key for key in entry.brokers) for entry in entries
    )


def _check_named(entries: list[ManifestEntry], brokers: list[ManifestBroker]) -> None:
    known = {key for broker in brokers for key in (broker.name, *broker.addrs)}
    for entry in entries:
        for key in entry.brokers or {}:
            if key not in known:
                raise NotFoundError(
                    f"there is no broker {key}", hint=f"There are {', '.join(broker.name for broker in brokers)}."
                )
