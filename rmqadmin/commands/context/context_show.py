"""``context show``: shows one context's settings, as its file has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import msgspec
import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core.contexts.context import Context, setting_text
from rmqadmin.core.contexts.context_store import ContextStore
from rmqadmin.core.contexts.settings import name_in_use
from rmqadmin.core.results import Result, Row, doc
from rmqproto.errors import NotFoundError


class ContextSettingRow(Row, frozen=True):
    setting: Annotated[str, doc("name of the setting, as in the file", key=True)]
    value: Annotated[str, doc("its value; of a key, where it is", vital=True)]
    line: Annotated[int | None, doc("line of the file; null for what is so without a word", wide=True)]


class ContextShownRow(Row, frozen=True):
    context: Annotated[str, doc("name of the context")]
    in_use: Annotated[bool, doc("whether commands use it that name none")]
    path: Annotated[str, doc("its file")]


class ContextShown(Result, frozen=True):
    """One context's settings."""

    row_type: ClassVar[type[Row]] = ContextSettingRow
    context: Context
    in_use: bool

    def rows(self) -> Sequence[ContextSettingRow]:
        return [
            ContextSettingRow(setting=key, value=setting_text(value), line=self.context.lines.get(key))
            for key, value in msgspec.structs.asdict(self.context.settings).items()
            if value is not None
        ]

    def summary(self) -> ContextShownRow:
        return ContextShownRow(context=self.context.name, in_use=self.in_use, path=str(self.context.path))


def context_show(
    call: Call,
    name: Annotated[
        str | None,
        Value.CONTEXT,
        typer.Argument(metavar="[CONTEXT]", help="Name of the context; without it, the one in force."),
    ] = None,
) -> ContextShown:
    """Shows what the context's file says. `config show` says what is in force, and where it comes from.

    Examples:
      rmqadmin context show
      rmqadmin context show live
    """
    store = ContextStore()
    found = call.settings.context if name is None else store.load(name)
    if found is None:
        raise NotFoundError("no context is in use", hint="rmqadmin context use NAME, or give a name here.")
    return ContextShown(found, found.name == name_in_use(store))
