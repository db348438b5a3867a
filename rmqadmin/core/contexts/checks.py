"""Whether a context works: its file, its keys, its certificates, and with ``connect`` its servers."""

from __future__ import annotations

import stat
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar

from rmqadmin.core.contexts.addresses import addresses_of
from rmqadmin.core.contexts.context_store import ContextStore
from rmqadmin.core.contexts.settings import EffectiveSettings
from rmqadmin.core.results import Result, Row, doc
from rmqproto.errors import RocketMQError, UsageError
from rmqproto.wording import counted

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient


class ContextCheckRow(Row, frozen=True):
    context: Annotated[str, doc("name of the context", key=True)]
    check: Annotated[str, doc("what was looked at", key=True)]
    ok: Annotated[bool, doc("whether it is as it should be", vital=True)]
    detail: Annotated[str, doc("what was found")]
    hint: Annotated[str | None, doc("what to do about it", sparse=True)]


class ContextChecks(Result, frozen=True):
    """What was looked at of each context."""

    row_type: ClassVar[type[Row]] = ContextCheckRow
    found: list[ContextCheckRow]

    def rows(self) -> Sequence[ContextCheckRow]:
        return self.found

    def problem(self) -> str | None:
        bad = [row for row in self.found if not row.ok]
        if not bad:
            return None
        count = "" if len(self.found) == 1 else f"{len(bad)} of {counted(len(self.found), 'check')} failed: "
        return f"{count}{bad[0].context}: {bad[0].detail}"


def check_context(store: ContextStore, name: str, *, connect: bool) -> Iterator[ContextCheckRow]:
    """Checks one context. A failed check skips only the checks that depend on it. NotFoundError if there is no such
    context."""
    row = partial(_row, name)
    path = store.path(name)
    if name not in store.names():
        store.load(name)
    settings = EffectiveSettings({}, context_flag=name, environment={}, store=store)
    yield row("file", lambda: f"{counted(len(store.load(name).lines), 'setting')} in {path}")
    try:
        context = store.load(name)
    except UsageError:
        return
    found = [
        row("mode of the file", lambda: _mode(path.stat().st_mode)),
        row("keys", lambda: "none" if settings.credentials() is None else "both are found"),
        row("TLS", lambda: "plain connections" if settings.tls() is None else "the files fit"),
    ]
    yield from found
    if connect and all(each.ok for each in found):
        yield from _servers(row, settings, context.settings.namesrv_addr or "", context.settings.cluster)


def _row(name: str, check: str, look: Callable[[], str]) -> ContextCheckRow:
    try:
        return ContextCheckRow(context=name, check=check, ok=True, detail=look(), hint=None)
    except RocketMQError as error:
        return ContextCheckRow(context=name, check=check, ok=False, detail=str(error), hint=error.hint)


def _mode(mode: int) -> str:
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UsageError("others can write it", hint="chmod 600, or they decide where your commands go.")
    return "only its owner can write it"


def _servers(
    row: Callable[[str, Callable[[], str]], ContextCheckRow],
    settings: EffectiveSettings,
    namesrv_addr: str,
    cluster: str | None,
) -> Iterator[ContextCheckRow]:
    """Checks each name server by itself, then the brokers that the first one lists."""
    from rmqadmin.core.targets import all_brokers, ask_each, replicas_of_all
    from rmqadmin.core.targets import cluster as brokers_of

    def look(addr: str) -> ContextCheckRow:
        with _client(settings, addr) as admin:
            return row(f"name server {addr}", lambda: _timed(lambda: _brokers_text(admin)))

    asked = ask_each(look, addresses_of(namesrv_addr))
    yield from asked
    if not any(each.ok for each in asked):
        return
    with _client(settings, namesrv_addr) as admin:
        if cluster is not None:
            there = row(f"cluster {cluster}", lambda: counted(len(brokers_of(admin, cluster)), "broker"))
            yield there
            if not there.ok:
                return
        brokers = brokers_of(admin, cluster) if cluster is not None else all_brokers(admin.cluster_info())

        def look_at_broker(addr: str) -> ContextCheckRow:
            return row(f"broker {addr}", lambda: _timed(lambda: _version_text(admin, addr)))

        yield from ask_each(look_at_broker, replicas_of_all(brokers))


def _client(settings: EffectiveSettings, namesrv_addr: str) -> AdminClient:
    """The caller closes it."""
    from rmqclient.admin import AdminClient

    return AdminClient(
        namesrv_addr,
        settings.credentials(),
        settings.setting("timeout_s").value,
        read_only=True,
        tls=settings.tls(),
        address_map=settings.address_map(),
    )


def _version_text(admin: AdminClient, addr: str) -> str:
    return admin.broker_runtime_info(addr).get("brokerVersionDesc", "no version")


def _brokers_text(admin: AdminClient) -> str:
    return counted(len(admin.cluster_info().broker_addr_table), "broker")


def _timed(ask: Callable[[], str]) -> str:
    started_s = time.monotonic()
    found = ask()
    return f"{found}, {round((time.monotonic() - started_s) * 1000)} ms"
