"""Contexts as rows, for ``context ls`` and the commands that change a context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from rmqadmin.core.contexts.context import Context
from rmqadmin.core.contexts.context_store import ContextStore
from rmqadmin.core.contexts.settings import EffectiveSettings, name_in_use
from rmqadmin.core.results import Result, Row, doc
from rmqproto.errors import RocketMQError


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


class Contexts(Result, frozen=True):
    """Contexts, and which of them is in use."""

    row_type: ClassVar[type[Row]] = ContextRow
    found: list[ContextRow]

    def rows(self) -> Sequence[ContextRow]:
        return self.found


def all_contexts(store: ContextStore) -> Contexts:
    return Contexts([_found(store, name) for name in store.names()])


def _found(store: ContextStore, name: str) -> ContextRow:
    try:
        return context_row(store, store.load(name))
    except RocketMQError as error:
        return ContextRow(
            context=name, in_use=name == name_in_use(store), namesrv_addr=None, cluster=None, read_only=None,
            protected=None, color=None, tls=None, credentials=None, path=str(store.path(name)), overruled_by=None,
            problem=str(error),
        )  # fmt: skip


def context_row(store: ContextStore, context: Context) -> ContextRow:
    settings = context.settings
    keys = [reference for reference in (settings.access_key, settings.secret_key) if reference is not None]
    return ContextRow(
        context=context.name,
        in_use=context.name == name_in_use(store),
        namesrv_addr=settings.namesrv_addr,
        cluster=settings.cluster,
        read_only=settings.read_only,
        protected=settings.protected,
        color=settings.color,
        tls=bool(settings.tls),
        credentials=", ".join(keys) or None,
        path=str(context.path),
        overruled_by=_overruled_by(store, context),
        problem=None,
    )


def _overruled_by(store: ContextStore, context: Context) -> str | None:
    """The variable whose name servers commands ask that name no context, though this one is in use."""
    if context.name != name_in_use(store):
        return None
    found = EffectiveSettings({}, store=store).overruled_context()
    return None if found is None else f"{found[1].source}={found[1].value}"
