"""The settings of brokers, name servers and controllers, one row per property."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.changes import FieldChange, Step
from rmqadmin.core.names import did_you_mean
from rmqadmin.core.results import ResultOf, Row, doc
from rmqproto.errors import NotFoundError, RocketMQError
from rmqproto.ha import MASTER_ID

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient

_KEY_WIDTH = 50


class ConfigRow(Row, frozen=True):
    server_addr: Annotated[str, doc("the server's address", apart=True, key=True)]
    key: Annotated[str, doc("name of the property", key=True)]
    value: Annotated[str, doc("its value, as text", vital=True)]


class Listing(msgspec.Struct, frozen=True):
    """One server's properties in the order it listed them. ``heading`` is mqadmin's line above them."""

    server_addr: str
    heading: str
    values: Mapping[str, str]


class Configs(ResultOf[ConfigRow], frozen=True):
    """What servers are configured to do, property by property."""

    listings: list[Listing]
    errors: list[str] = []
    mqadmin_end: str = ""

    def rows(self) -> Sequence[ConfigRow]:
        return [
            ConfigRow(server_addr=listing.server_addr, key=key, value=listing.values[key])
            for listing in self.listings
            for key in sorted(listing.values)
        ]

    def mqadmin_text(self) -> str:
        return "".join(
            listing.heading + property_lines(listing.values, sorted(listing.values), _KEY_WIDTH) + self.mqadmin_end
            for listing in self.listings
        )

    def problem(self) -> str | None:
        return "; ".join(self.errors) or None


def replica_headings(admin: AdminClient, broker_addr: str | None, cluster_name: str | None) -> list[tuple[str, str]]:
    """The replicas of ``-b`` or ``-c``, each with mqadmin's line above its answer. Errors are those of
    ``targets.replicas``."""
    targets.check_one_of(broker_addr, cluster_name)
    if cluster_name is None:
        (addr,) = targets.replicas(admin, broker_addr, None)
        return [(addr, f"============{addr}============\n")]
    found = []
    for broker in targets.cluster(admin, cluster_name):
        master = broker.master_addr or "NO_MASTER"
        for broker_id, addr in sorted(broker.broker_addrs.items()):
            whose = f"Master: {addr}" if broker_id == MASTER_ID else f"My Master: {master}=====Slave: {addr}"
            found.append((addr, f"============{whose}============\n"))
    return found


def property_lines(values: Mapping[str, Any], order: Sequence[str], width: int) -> str:
    return "".join(f"{key:{width}}=  {values[key]}\n" for key in order)


class ReadProperties(Protocol):
    """The signature of AdminClient's methods that read a server's properties."""

    def __call__(self, addr: str, /, *, with_own_defaults: bool) -> dict[str, str]: ...


def read_configs(
    wanted: Sequence[tuple[str, str]], ask: ReadProperties, *, as_mqadmin: bool, mqadmin_end: str = ""
) -> Configs:
    """Each server's properties. ``as_mqadmin``: as Apache's tool would list them, without our own properties that have
    their default values. A server that fails is reported if others answer; the first error if none does."""

    def ask_one(named: tuple[str, str]) -> Listing | RocketMQError:
        try:
            return Listing(*named, ask(named[0], with_own_defaults=not as_mqadmin))
        except RocketMQError as error:
            return error

    answers = targets.ask_each(ask_one, wanted)
    failed = [answer for answer in answers if isinstance(answer, RocketMQError)]
    found = [answer for answer in answers if isinstance(answer, Listing)]
    if failed and not found:
        raise failed[0]
    return Configs(found, [str(error) for error in failed], mqadmin_end)


class PassedOverError(RocketMQError):
    """The server answered with success and kept its old value."""


def plan_property(
    name: str,
    addr: str,
    key: str,
    value: str,
    *,
    read: ReadProperties,
    write: Callable[[str, Mapping[str, str]], None],
    is_checked: bool,
    listing: str,
    undo: list[str],
) -> Step:
    """Plans one property of one server. It is read back afterwards, because servers report success for properties that
    they do not know or understand. Without ``is_checked`` it is not, as in mqadmin. ``listing`` is the command that
    shows the properties, ``undo`` the words of the command that sets them, without property and value. NotFoundError if
    the server has no such property."""

    now = read(addr, with_own_defaults=True)
    before = now.get(key)
    if before is None and is_checked:
        meant = did_you_mean(key, now)
        lists = f"`{listing}` lists them."
        raise NotFoundError(f"the {name} has no property {key}", hint=f"{meant} {lists}" if meant else lists)
    changes = [FieldChange(key, before, value)] if before != value else []

    def act() -> None:
        write(addr, {key: value})
        after = read(addr, with_own_defaults=True).get(key) if is_checked and changes else value
        if after == before and value.lower() != (before or "").lower():
            raise PassedOverError(f"the {name} does not take {value!r} for {key}: it stays {before!r}")

    back = None if before is None else [[*undo, "-k", key, "-v", before]]
    return Step(addr, "change" if changes else "keep", changes, act, back)
