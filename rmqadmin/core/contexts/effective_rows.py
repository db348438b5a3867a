"""The settings in force as rows, for ``config show``."""

from __future__ import annotations

from typing import Annotated, Any

from rmqadmin.core.contexts.context import setting_text
from rmqadmin.core.contexts.settings import KINDS, EffectiveSettings, SettingKind
from rmqadmin.core.results import Row, doc

_HIDDEN = "(not shown)"


class EffectiveRow(Row, frozen=True):
    setting: Annotated[str, doc("name of the setting, as in a file", key=True)]
    value: Annotated[str | None, doc("what is in force; null for nothing", vital=True)]
    origin: Annotated[str | None, doc("flag, environment, context, file or default; with --origin", sparse=True)]
    source: Annotated[str | None, doc("the flag, the variable, or file and line; with --origin", sparse=True)]


def effective_rows(settings: EffectiveSettings, *, with_origin: bool) -> list[EffectiveRow]:
    return [
        EffectiveRow(
            setting=key,
            value=None if value is None else setting_text(value),
            origin=origin if with_origin else None,
            source=source if with_origin else None,
        )
        for key, value, origin, source in [_context(settings), *(_setting(settings, kind) for kind in KINDS)]
    ]


def _context(settings: EffectiveSettings) -> tuple[str, Any, str, str]:
    origin, source = settings.context_choice
    return "context", None if settings.context is None else settings.context.name, origin, source


def _setting(settings: EffectiveSettings, kind: SettingKind) -> tuple[str, Any, str, str]:
    found = settings.setting(kind.key)
    is_key_itself = kind.is_key and found.path is None and found.value is not None
    return kind.key, _HIDDEN if is_key_itself else found.value, found.level, found.source
