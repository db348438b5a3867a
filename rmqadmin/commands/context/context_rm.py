"""``context rm``: a context less. Nothing happens to its cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from rmqadmin.call import Call
from rmqadmin.context_options import OneContext
from rmqadmin.core.contexts.context_store import ContextStore
from rmqadmin.core.results import Result, Row, doc


class RemovedContextRow(Row, frozen=True):
    context: Annotated[str, doc("name of the context that is gone", key=True)]
    path: Annotated[str, doc("the file that it was kept in")]


class RemovedContext(Result, frozen=True):
    """The context that was removed."""

    row_type: ClassVar[type[Row]] = RemovedContextRow
    removed: RemovedContextRow

    def rows(self) -> Sequence[RemovedContextRow]:
        return [self.removed]


def context_rm(call: Call, name: OneContext) -> RemovedContext:
    """Removes its file. If it is in use, no context is afterwards. Nothing happens to its cluster.

    Examples:
      rmqadmin context rm dev
    """
    store = ContextStore()
    was_in_use = name == store.name_in_use()
    store.remove(name)
    if was_in_use:
        call.notice("no context is in use now")
    return RemovedContext(RemovedContextRow(context=name, path=str(store.path(name))))
