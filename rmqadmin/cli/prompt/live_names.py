"""Names of the live cluster for completion. They are asked for on demand, once per prompt."""

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Lock
from time import monotonic

from rmqadmin.cli.invocation import Session
from rmqadmin.cli.options.common_options import CommonOptions
from rmqadmin.cli.prompt.candidates import CONTEXT_NAMES, KV_KEYS, PROPERTY_NAMES, LineSoFar
from rmqadmin.cli.shells.names_cache import KINDS, remember, remembered
from rmqadmin.core.contexts.context_store import ContextStore
from rmqadmin.core.targets import all_brokers, selected_addrs
from rmqclient.addresses import parse_addresses, parse_namesrvs
from rmqclient.admin import AdminClient
from rmqproto.errors import RocketMQError
from rmqproto.names import RETRY_PREFIX

WAIT_S = 5.0
"""How long to wait for an answer, and how long not to ask again if none came. A thread waits, so that the prompt does
not."""


class OnceAsked:
    """Names that were asked for, by subject. Answered questions are not asked again; a server that does not answer is
    not asked again for WAIT_S. Thread-safe: one thread asks, and the others wait for its answer."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], list[str]] = {}
        self._failed_s: dict[tuple[str, ...], float] = {}
        self._asking = Lock()

    def of(self, key: tuple[str, ...], ask: Callable[[], list[str]]) -> list[str] | None:
        """The names; None if nobody answers, in which case ``ask`` raises RocketMQError."""
        with self._asking:
            if key in self._known:
                return self._known[key]
            if monotonic() - self._failed_s.get(key, -math.inf) < WAIT_S:
                return None
            try:
                self._known[key] = ask()
            except RocketMQError:
                self._failed_s[key] = monotonic()
                return None
            return self._known[key]


class LiveNames:
    """The names for one prompt. Never raises. If no server answers, the names are those that commands last saw."""

    def __init__(self, session: Session):
        self._session = session
        self._asked = OnceAsked()

    def of(self, kind: str, line: LineSoFar) -> list[str]:
        if kind == CONTEXT_NAMES:
            return ContextStore().names()
        said = line.values
        place = [said.get(name, "") for name in ("--namesrvAddr", "--context", *_PLACES)]
        key = (kind, *place) if kind not in KINDS else (kind, *place[:2])
        options = CommonOptions(namesrv_addr=said.get("--namesrvAddr"), context=said.get("--context"))
        try:
            settings = self._session.filled(options).settings()
            addr = settings.setting("namesrv_addr").value
            addrs = parse_namesrvs(addr)
        except RocketMQError:
            return []

        def read() -> list[str]:
            session = self._session
            with AdminClient(
                addr, timeout_s=WAIT_S, read_only=True, client=session.lend(settings), give_back=session.take_back
            ) as admin:
                session.begin_where_answered(admin)
                return read_names(admin, kind, line)

        names = self._asked.of(key, read)
        if names is None:
            return remembered(addrs, kind)
        if kind in KINDS:
            remember(addrs, kind, names)
        return names


def read_names(admin: AdminClient, kind: str, line: LineSoFar) -> list[str]:
    """The names of a kind that servers know, for a line; RocketMQError if no server answers. Empty for a kind that
    servers are not asked about."""
    asked = _ASKED.get(kind)
    return [] if asked is None else sorted(asked(admin, line))


_PLACES = ("--brokerAddr", "--clusterName", "--namespace", "--controllerAddress")
"""Options that say whose properties and keys are meant."""


def _groups(admin: AdminClient, _line: LineSoFar) -> Iterable[str]:
    """The groups, without those known only to brokers that do not answer."""
    found = {topic.removeprefix(RETRY_PREFIX) for topic in admin.topic_list() if topic.startswith(RETRY_PREFIX)}
    for addr in selected_addrs(all_brokers(admin.cluster_info())):
        with suppress(RocketMQError):
            found |= admin.all_groups(addr).subscription_group_table.keys()
    return found


def _brokers(admin: AdminClient, _line: LineSoFar) -> Iterable[str]:
    return (addr for broker in all_brokers(admin.cluster_info()) for addr in broker.broker_addrs.values())


def _properties(admin: AdminClient, line: LineSoFar) -> Iterable[str]:
    """The properties of the servers that the command is about."""
    command = line.command.entry.name if line.command is not None else ""
    if command == "updateNamesrvConfig":
        return admin.namesrv_config(admin.namesrv_addrs[0], with_own_defaults=True)
    if command == "updateControllerConfig":
        addrs = parse_addresses(line.values.get("--controllerAddress", ""))
        return admin.controller_config(addrs[0], with_own_defaults=True)
    named = line.values.get("--brokerAddr")
    addrs = [named] if named else selected_addrs(all_brokers(admin.cluster_info()))
    return admin.broker_config(addrs[0], with_own_defaults=True) if addrs else ()


_ASKED: dict[str, Callable[[AdminClient, LineSoFar], Iterable[str]]] = {
    "topic": lambda admin, _line: admin.topic_list(),
    "group": _groups,
    "cluster": lambda admin, _line: admin.cluster_info().cluster_addr_table,
    "broker": _brokers,
    "broker_name": lambda admin, _line: admin.cluster_info().broker_addr_table,
    PROPERTY_NAMES: _properties,
    KV_KEYS: lambda admin, line: admin.kv_namespace(line.values.get("--namespace", "")),
}
