"""Names of the live cluster, to complete a line with: asked when they are wanted, once for a prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from rmqadmin.core.contexts.context_store import ContextStore
from rmqadmin.core.contexts.settings import EffectiveSettings
from rmqadmin.core.targets import all_brokers, selected_addrs
from rmqadmin.names_cache import KINDS, remember, remembered
from rmqadmin.options.command_options import CommonOptions
from rmqadmin.prompt.candidates import LineSoFar
from rmqadmin.session import Session
from rmqadmin.shells.words import CONTEXT_NAMES, KV_KEYS, PROPERTY_NAMES
from rmqclient.addresses import parse_addresses
from rmqclient.admin import AdminClient
from rmqproto.errors import RocketMQError
from rmqproto.names import RETRY_PREFIX

WAIT_S = 1.0
"""For one answer: who presses TAB does not want to wait for a server that is gone."""


class LiveNames:
    """For one prompt: what was asked once is not asked again, and a server that does not answer is left alone. Never
    raises; what nobody answers is what commands last saw."""

    def __init__(self, session: Session):
        self._session = session
        self._known: dict[tuple[str, ...], list[str]] = {}

    def of(self, kind: str, line: LineSoFar) -> list[str]:
        said = line.values
        place = [said.get(name, "") for name in ("--namesrvAddr", "--context", *_PLACES)]
        key = (kind, *place) if kind not in KINDS else (kind, *place[:2])
        if key not in self._known:
            try:
                self._known[key] = self._read(kind, line)
            except RocketMQError:
                self._known[key] = []
        return self._known[key]

    def _read(self, kind: str, line: LineSoFar) -> list[str]:
        if kind == CONTEXT_NAMES:
            return ContextStore().names()
        said = line.values
        options = CommonOptions(namesrv_addr=said.get("--namesrvAddr"), context=said.get("--context"))
        settings = self._session.filled(options).settings()
        addrs = parse_addresses(settings.setting("namesrv_addr").value)
        try:
            with self._admin(settings) as admin:
                names = read_names(admin, kind, line)
        except RocketMQError:
            return remembered(addrs, kind)
        if kind in KINDS:
            remember(addrs, kind, names)
        return names

    def _admin(self, settings: EffectiveSettings) -> AdminClient:
        kept = self._session.client(settings)
        addr = settings.setting("namesrv_addr").value
        admin = AdminClient(addr, timeout_s=WAIT_S, read_only=True, client=kept)
        self._session.begin_where_answered(admin)
        return admin


def read_names(admin: AdminClient, kind: str, line: LineSoFar) -> list[str]:
    """Names of a kind that servers know, for a line; RocketMQError if nobody answers. None are known of a kind that is
    not asked for."""
    asked = _ASKED.get(kind)
    return [] if asked is None else sorted(asked(admin, line))


_PLACES = ("--brokerAddr", "--clusterName", "--namespace", "--controllerAddress")
"""Options that say whose properties and keys are meant."""


def _groups(admin: AdminClient, _line: LineSoFar) -> Iterable[str]:
    """Without those that only a broker knows that does not answer."""
    found = {topic.removeprefix(RETRY_PREFIX) for topic in admin.topic_list() if topic.startswith(RETRY_PREFIX)}
    for addr in selected_addrs(all_brokers(admin.cluster_info())):
        with suppress(RocketMQError):
            found |= admin.all_groups(addr).subscription_group_table.keys()
    return found


def _brokers(admin: AdminClient, _line: LineSoFar) -> Iterable[str]:
    return (addr for broker in all_brokers(admin.cluster_info()) for addr in broker.broker_addrs.values())


def _properties(admin: AdminClient, line: LineSoFar) -> Iterable[str]:
    """Of the servers that the command is about."""
    command = line.command.entry.name if line.command is not None else ""
    if command == "updateNamesrvConfig":
        return admin.namesrv_config(admin.namesrv_addrs[0])
    if command == "updateControllerConfig":
        return admin.controller_config(parse_addresses(line.values.get("--controllerAddress", ""))[0])
    named = line.values.get("--brokerAddr")
    addrs = [named] if named else selected_addrs(all_brokers(admin.cluster_info()))
    return admin.broker_config(addrs[0]) if addrs else ()


def _kv_keys(admin: AdminClient, line: LineSoFar) -> Iterable[str]:
    return admin.kv_namespace(line.values.get("--namespace", ""))


_ASKED: dict[str, Callable[[AdminClient, LineSoFar], Iterable[str]]] = {
    "topic": lambda admin, _line: admin.topic_list(),
    "group": _groups,
    "cluster": lambda admin, _line: admin.cluster_info().cluster_addr_table,
    "broker": _brokers,
    "broker_name": lambda admin, _line: admin.cluster_info().broker_addr_table,
    PROPERTY_NAMES: _properties,
    KV_KEYS: _kv_keys,
}
