"""What a context is: one cluster under a name, how it is reached, and what must not happen to it by mistake."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from rmqproto.errors import UsageError

NO_CONTEXT = "none"
"""No context is called so: ``--context none`` is how to do without one."""

NAME_FORM = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
"""Of a file's name that a shell need not quote, and that a person can type."""


class ContextColor(StrEnum):
    """Of a context's name in prompts and in the dashboard."""

    RED = "red"
    YELLOW = "yellow"
    GREEN = "green"
    CYAN = "cyan"
    BLUE = "blue"
    MAGENTA = "magenta"
    WHITE = "white"


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How servers are reached, as a file says it. None is what it does not say.

    ``namesrv_addr`` is ``host:port[;host:port…]``. Of ``access_key`` and ``secret_key`` only references are kept
    (``secrets``). The ``tls_*`` are paths of PEM files, ``tls_insecure`` means that no certificate is checked.
    """

    namesrv_addr: str | None = None
    cluster: str | None = None
    access_key: str | None = None
    secret_key: str | None = None
    tls: bool | None = None
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    tls_insecure: bool | None = None
    timeout_s: float | None = None


class ContextSettings(ServerSettings, frozen=True, kw_only=True):
    """What a context's file may hold. ``read_only`` refuses every change; ``protected`` has the context's name typed
    before one."""

    read_only: bool = False
    protected: bool = False
    color: ContextColor | None = None


class Context(msgspec.Struct, frozen=True):
    """One context, as its file had it. ``lines`` says in which line each setting stands."""

    name: str
    path: Path
    settings: ContextSettings
    lines: dict[str, int]

    @property
    def shown_color(self) -> ContextColor | None:
        """A protected context is red unless its file says something else."""
        return self.settings.color or (ContextColor.RED if self.settings.protected else None)


def setting_text(value: Any) -> str:
    """A value as people write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)


def check_name(name: str) -> None:
    """UsageError for what cannot be the name of a context."""
    if name == NO_CONTEXT:
        raise UsageError(f"no context can be called {NO_CONTEXT}: that means to do without one")
    if not re.fullmatch(NAME_FORM, name):
        raise UsageError(
            f"{name!r} cannot be the name of a context",
            hint="Letters, digits, _ . and -, beginning with a letter or digit; at most 64.",
        )
