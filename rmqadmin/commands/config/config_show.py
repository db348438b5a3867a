"""``config show``: shows the settings in force, and where each comes from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import typer

from rmqadmin.cli.call import Call
from rmqadmin.core.contexts.effective_rows import EffectiveRow, effective_rows
from rmqadmin.core.results import Result, Row


class EffectiveConfig(Result, frozen=True):
    """The settings in force."""

    row_type: ClassVar[type[Row]] = EffectiveRow
    found: list[EffectiveRow]

    def rows(self) -> Sequence[EffectiveRow]:
        return self.found


def config_show(
    call: Call,
    origin: Annotated[bool, typer.Option("--origin", help="Also show where each setting comes from.")] = False,
) -> EffectiveConfig:
    """Shows the settings that a command with the same options would use. Options come first, then the environment, then
    the context, then the settings file (config.toml). Keys are not shown, only where they are.

    Examples:
      rmqadmin config show --origin
      rmqadmin config show --origin --context live --timeout 20
    """
    return EffectiveConfig(effective_rows(call.settings, with_origin=origin))
