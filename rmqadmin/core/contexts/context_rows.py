"""Contexts and settings as rows: what is in use, where it comes from, what is wrong with it."""

import stat
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Any

from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.contexts.context import Context, addresses_of, setting_text
from rmqadmin.core.contexts.context_store import ContextStore
from rmqadmin.core.contexts.settings import KINDS, EffectiveSettings, name_in_use
from rmqadmin.core.results import FoundRows, Row, doc, row_of
from rmqproto.errors import RocketMQError, UsageError
from rmqproto.wording import counted


class ContextRow(Row, frozen=True):
    context: Annotated[str, doc("its name", key=True)]
    in_use: Annotated[bool, doc("whether commands use it that name no context", vital=True)]
    namesrv_addr: Annotated[str | None, doc("its name servers, joined by semicolons")]
    cluster: Annotated[str | None, doc("cluster of commands that need one and name none")]
    read_only: Annotated[bool | None, doc("whether changes are refused", vital=True)]
    protected: Annotated[bool | None, doc("whether its name is to be typed before a change", vital=True)]
    color: Annotated[str | None, doc("colour of its name", minor=True)]
    tls: Annotated[bool | None, doc("whether servers are reached by TLS", minor=True)]
    credentials: Annotated[str | None, doc("where its two keys are", wide=True)]
    path: Annotated[str, doc("its file", wide=True)]
    overruled_by: Annotated[str | None, doc("whose name servers count in place of its own", sparse=True)]
    problem: Annotated[str | None, doc("what is wrong with the file", sparse=True)]


class Contexts(FoundRows[ContextRow], frozen=True):
    """Contexts, and which of them is in use."""


def all_contexts(store: ContextStore) -> Contexts:
    rows = []
    for name in store.names():
        try:
            rows.append(context_row(store, store.load(name)))
        except RocketMQError as error:
            nothing: dict[str, Any] = dict.fromkeys(ContextRow.__struct_fields__)
            said = {"context": name, "in_use": name == name_in_use(store), "path": str(store.path(name))}
            rows.append(ContextRow(**(nothing | said | {"problem": str(error)})))
    return Contexts(rows)


def context_row(store: ContextStore, context: Context) -> ContextRow:
    settings, is_in_use = context.settings, context.name == name_in_use(store)
    keys = [reference for reference in (settings.access_key, settings.secret_key) if reference is not None]
    # The variable whose name servers commands ask that name no context, though this one is in use.
    overruled = EffectiveSettings({}, store=store).overruled_context() if is_in_use else None
    return row_of(
        ContextRow,
        settings,
        context=context.name,
        in_use=is_in_use,
        tls=bool(settings.tls),
        credentials=", ".join(keys) or None,
        path=str(context.path),
        overruled_by=None if overruled is None else f"{overruled[1].source}={overruled[1].value}",
        problem=None,
    )


_HIDDEN = "(not shown)"


class EffectiveRow(Row, frozen=True):
    setting: Annotated[str, doc("name of the setting, as in a file", key=True)]
    value: Annotated[str | None, doc("what is in force; null for nothing", vital=True)]
    origin: Annotated[str | None, doc("flag, environment, context, file or default; with --origin", sparse=True)]
    source: Annotated[str | None, doc("the flag, the variable, or file and line; with --origin", sparse=True)]


def effective_rows(settings: EffectiveSettings, *, with_origin: bool) -> list[EffectiveRow]:
    context = None if settings.context is None else settings.context.name
    found: list[tuple[str, Any, str, str]] = [("context", context, *settings.context_choice)]
    for kind in KINDS:
        each = settings.setting(kind.key)
        is_key_itself = kind.is_key and each.path is None and each.value is not None
        found.append((kind.key, _HIDDEN if is_key_itself else each.value, each.level, each.source))
    return [
        EffectiveRow(
            setting=key,
            value=None if value is None else setting_text(value),
            origin=origin if with_origin else None,
            source=source if with_origin else None,
        )
        for key, value, origin, source in found
    ]


class ContextCheckRow(Row, frozen=True):
    context: Annotated[str, doc("name of the context", key=True)]
    check: Annotated[str, doc("what was looked at", key=True)]
    ok: Annotated[bool, doc("whether it is as it should be", vital=True)]
    detail: Annotated[str, doc("what was found")]
    hint: Annotated[str | None, doc("what to do about it", sparse=True)]


class ContextChecks(FoundRows[ContextCheckRow], frozen=True):
    """What was looked at of each context."""

    def problem(self) -> str | None:
        bad = [row for row in self.found if not row.ok]
        if not bad:
            return None
        count = "" if len(self.found) == 1 else f"{len(bad)} of {counted(len(self.found), 'check')} failed: "
        return f"{count}{bad[0].context}: {bad[0].detail}"


def check_context(store: ContextStore, name: str, *, connect: bool) -> Iterator[ContextCheckRow]:
    """Checks one context; of a failed check, only what depends on it is skipped. NotFoundError if there is none."""
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
    from rmqadmin.core.servers.broker_answers import ask_each
    from rmqadmin.core.targets import all_brokers, replicas_of_all
    from rmqadmin.core.targets import cluster as brokers_of

    def brokers_text(admin: AdminClient) -> str:
        return counted(len(admin.cluster_info().broker_addr_table), "broker")

    def version_text(admin: AdminClient, addr: str) -> str:
        return admin.broker_runtime_info(addr).get("brokerVersionDesc", "no version")

    def look(addr: str) -> ContextCheckRow:
        with _client(settings, addr) as admin:
            return row(f"name server {addr}", lambda: _timed(lambda: brokers_text(admin)))

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
            return row(f"broker {addr}", lambda: _timed(lambda: version_text(admin, addr)))

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


def _timed(ask: Callable[[], str]) -> str:
    started_s = time.monotonic()
    found = ask()
    return f"{found}, {round((time.monotonic() - started_s) * 1000)} ms"
