"""Whether name servers and controllers check who their clients are. (Brokers also have permissions:
``broker_checks``.)"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from rmqadmin.core import targets
from rmqadmin.core.health.finding import Check, Finding, Grade, Subject, SubjectKind
from rmqproto.errors import RocketMQError
from rmqproto.hosts import is_loopback

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient

_TURN_ON = "authenticationEnabled=true in its settings"
_OR = "and a new start, or listen on 127.0.0.1 alone (--listen), or keep others from its port."


def namesrv_access(subject: Subject, config: Mapping[str, str]) -> Iterator[Finding]:
    """The finding for one name server. ``config`` includes settings that only rmqserver has; it is empty if the server
    did not return it."""
    fix = f"{_TURN_ON} (with a broker in one process: and namesrvAuthEnabled=true) {_OR}"
    return _access(subject, config, "namesrvAuthEnabled", fix)


def controllers_access(configs: Mapping[str, Mapping[str, str]]) -> Iterator[Finding]:
    """``configs`` by address of those that return their settings."""
    for addr, config in sorted(configs.items()):
        subject = Subject(SubjectKind.BROKER_SET, addr)
        yield from _access(subject, config, "authenticationEnabled", f"{_TURN_ON} {_OR}")


def read_controller_configs(admin: AdminClient, addrs: Iterable[str]) -> dict[str, dict[str, str]]:
    def read(addr: str) -> dict[str, str]:
        try:
            return admin.controller_config(addr, with_own_defaults=True)
        except RocketMQError:
            return {}

    wanted = sorted(set(addrs))
    return dict(zip(wanted, targets.ask_each(read, wanted), strict=True))


def _access(subject: Subject, config: Mapping[str, str], asking_key: str, fix: str) -> Iterator[Finding]:
    """The finding for one server. Apache's servers cannot check users, whatever their settings, so they get no warning.
    Our servers always say whether they check."""
    bound, asks = config.get("bindAddress"), config.get(asking_key)
    if bound is None:
        return
    open_to_all = f"listens on {bound} and serves anybody: it checks no users"
    if asks == "true":
        grade, what, way_out = Grade.OK, "checks users", None
    elif is_loopback(bound):
        grade, what, way_out = Grade.OK, f"listens only on {bound}", None
    elif asks is None:
        way_out = "Keep others from its port, or set bindAddress=127.0.0.1."
        grade, what = Grade.NOTE, f"{open_to_all}, as all of Apache's"
    else:
        grade, what, way_out = Grade.WARNING, open_to_all, fix
    yield Finding(grade, Check.ACCESS, subject, what, way_out)
