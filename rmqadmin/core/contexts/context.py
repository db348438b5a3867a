"""A context: one cluster under a name, how it is reached, and which mistakes it is guarded against; and the defaults
where no setting says otherwise."""

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec

from rmqproto.errors import UsageError
from rmqproto.hosts import NAMESRV_PORT, with_port

NO_CONTEXT = "none"
"""Not a valid context name: ``--context none`` means no context."""

NAME_FORM = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
"""A file name that a shell need not quote and that a person can type."""


NAMESRV_DEFAULT = "127.0.0.1:9876"
TIMEOUT_DEFAULT_S = 5.0

ASKED_AT_ONCE_DEFAULT, ASKED_AT_ONCE_MAX = 16, 64
"""How many servers a command asks at once: threads that wait for them."""

SECONDS_MAX = 86_400
"""A day: longer than anybody waits for an answer, or between two ticks."""

Seconds = Annotated[float, msgspec.Meta(gt=0, le=SECONDS_MAX)]
AskedAtOnce = Annotated[int, msgspec.Meta(ge=1, le=ASKED_AT_ONCE_MAX)]
"""What flags, variables and files may say."""


def addresses_of(namesrv_addr: str) -> list[str]:
    """The addresses in ``host[:port][;host[:port]…]``, in a form that can be compared."""
    parts = (part.strip().lower().removeprefix("http://") for part in namesrv_addr.split(";"))
    return [with_port(part, NAMESRV_PORT) for part in parts if part]


class ContextColor(StrEnum):
    """The colour of a context's name in prompts and in the dashboard."""

    RED = "red"
    YELLOW = "yellow"
    GREEN = "green"
    CYAN = "cyan"
    BLUE = "blue"
    MAGENTA = "magenta"
    WHITE = "white"


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How servers are reached, as written in a file. None means not set.

    ``namesrv_addr`` is ``host:port[;host:port…]``. ``access_key`` and ``secret_key`` are references to keys
    (``settings_file``). The ``tls_*`` are paths of PEM files; ``tls_insecure`` means that no certificate is checked.
    ``address_map`` holds rules for ``rmqclient.addresses``. ``parallel`` is the number of servers asked at once.
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
    address_map: tuple[str, ...] | None = None
    timeout_s: Seconds | None = None
    parallel: AskedAtOnce | None = None


class ContextSettings(ServerSettings, frozen=True, kw_only=True):
    """What a context's file may hold. ``read_only`` refuses every change; ``protected`` makes the user type the
    context's name before a change."""

    read_only: bool = False
    protected: bool = False
    color: ContextColor | None = None


class Context(msgspec.Struct, frozen=True):
    """One context, as its file has it. ``lines`` holds the line number of each setting."""

    name: str
    path: Path
    settings: ContextSettings
    lines: dict[str, int]

    @property
    def shown_color(self) -> ContextColor | None:
        """The colour to show. A protected context is red unless its file sets another colour."""
        return self.settings.color or (ContextColor.RED if self.settings.protected else None)


def setting_text(value: Any) -> str:
    """A value as people write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def check_name(name: str) -> None:
    """UsageError for a text that cannot be the name of a context."""
    if name == NO_CONTEXT:
        raise UsageError(f"a context cannot be called {NO_CONTEXT}: that name means no context")
    if not re.fullmatch(NAME_FORM, name):
        raise UsageError(
            f"{name!r} cannot be the name of a context",
            hint="Letters, digits, _ . and -, beginning with a letter or digit; at most 64.",
        )


_BACKGROUNDS = {
    ContextColor.RED: "41;97",
    ContextColor.YELLOW: "43;30",
    ContextColor.GREEN: "42;30",
    ContextColor.CYAN: "46;30",
    ContextColor.BLUE: "44;97",
    ContextColor.MAGENTA: "45;97",
    ContextColor.WHITE: "47;30",
}
"""The terminal's SGR parameters: background and foreground."""


def badge(context: Context, *, has_color: bool) -> str:
    """``[live]``, coloured if both the context and the terminal have colour."""
    color = context.shown_color
    text = f"[{context.name}]"
    return text if color is None or not has_color else f"\x1b[1;{_BACKGROUNDS[color]}m{text}\x1b[0m"
