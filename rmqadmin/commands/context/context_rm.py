"""``context rm``: removes a context. Nothing happens to its cluster."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, ClassVar

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.context_options import OneContext
from rmqadmin.cli.options.context_words import Confirm, Yes
from rmqadmin.core.contexts.context import NO_CONTEXT
from rmqadmin.core.contexts.context_store import ContextStore
from rmqadmin.core.contexts.permission import ChangePermission
from rmqadmin.core.results import Result, Row, doc
from rmqproto.errors import UsageError


class RemovedContextRow(Row, frozen=True):
    context: Annotated[str, doc("name of the context that is gone", key=True)]
    path: Annotated[str, doc("the file that it was kept in")]


class RemovedContext(Result, frozen=True):
    """The context that was removed."""

    row_type: ClassVar[type[Row]] = RemovedContextRow
    removed: RemovedContextRow

    def rows(self) -> Sequence[RemovedContextRow]:
        return [self.removed]


def context_rm(call: Call, name: OneContext, confirm: Confirm = None, yes: Yes = False) -> RemovedContext:
    """Removes its file; nothing happens to its cluster. If it was in use, no context is in use afterwards. On a
    terminal its name must be typed; that of a protected context also with --yes, or given with --confirm.

    Examples:
      rmqadmin context rm dev --yes
    """
    store = ContextStore()
    context = None
    with suppress(UsageError):  # an invalid file protects nothing, and can be removed
        context = store.load(name)
    if context is not None and context.settings.protected:
        ChangePermission(lambda _: [context], is_unlocked=True, confirmed=confirm, ask_name=call.ask_name).check()
    elif not yes and name in store.names():
        call.confirm_local(f"This removes {store.path(name)}.", name, is_said=confirm == name)
    was_in_use = name == store.name_in_use()
    store.remove(name)
    if was_in_use:
        call.context_chosen(NO_CONTEXT)
        call.notice("no context is in use now")
    return RemovedContext(RemovedContextRow(context=name, path=str(store.path(name))))
