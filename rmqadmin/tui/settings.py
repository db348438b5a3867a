"""The settings that `rmqadmin tui` was started with, and the user's own keys.

Keys are read from ``tui.toml`` under the XDG configuration directory: a table ``[keys]`` of names of ``key_map.py``,
and the keys for each: ``"filter" = "slash,ctrl+f"``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from rmqadmin.core.contexts.context import ContextColor
from rmqadmin.core.files import config_dir, parse_toml
from rmqadmin.core.results import Notice
from rmqadmin.tui.refresh import INTERVAL_DEFAULT_S
from rmqclient.addresses import AddressMap
from rmqproto.errors import UsageError

if TYPE_CHECKING:
    from rmqadmin.core.alerts.alert_rules import AlertRule
    from rmqadmin.core.contexts.settings import Access
    from rmqadmin.tui.dashboard_client import DashboardClient
    from rmqadmin.tui.recording.recording_file import RecordingWriter


class ClientMaker(Protocol):
    """Makes a new client of the same servers, not connected yet. The caller closes it."""

    def __call__(self, *, read_only: bool) -> DashboardClient: ...


class Reach(msgspec.Struct, frozen=True):
    """How a command run by the dashboard reaches the same servers: by options, or by environment variables if a value
    is secret or has a lower rank."""

    words: list[str] = []
    environment: dict[str, str] = {}


class DashboardSettings(msgspec.Struct, frozen=True):
    """``namesrv_text`` and the ``context``, in its ``color``, are shown. ``make_client`` is the only way to the
    servers; in a read-only dashboard, it makes only read-only clients. ``now_ms`` is the clock of ages and relative
    times. ``protected`` is a context whose name must be typed before a change. ``locked_by`` is the context that makes
    the dashboard read-only until the user unlocks it: None if nothing does, or if it stays read-only. ``access`` is for
    work that reaches the servers without a client. ``open_context`` gives the settings for another context, and may
    take a while (RocketMQError if it cannot be used). ``tell`` prints a line once the terminal is restored."""

    namesrv_text: str
    make_client: ClientMaker
    now_ms: Callable[[], int]
    read_only: bool = False
    interval_s: float = INTERVAL_DEFAULT_S
    keys: dict[str, str] = {}
    context: str | None = None
    color: ContextColor | None = None
    protected: str | None = None
    locked_by: str | None = None
    access: Callable[[], Access] = lambda: {"credentials": None, "tls": None, "address_map": AddressMap()}
    reach: Reach | None = None
    open_context: Callable[[str], DashboardSettings] | None = None
    alerts: tuple[AlertRule, ...] = ()
    tell: Notice = lambda _text: None
    recording: RecordingWriter | None = None
    """Where the clients record answers. The sampler decides where a step ends."""


_KEYS = "keys"
_MODIFIERS = frozenset({"ctrl", "shift", "alt", "super", "hyper", "meta"})


def keys_path() -> Path:
    return config_dir() / "tui.toml"


def read_keys(path: Path) -> dict[str, str]:
    """The user's keys by name; empty without a file. UsageError for an invalid key. The dashboard checks the names."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from None
    try:
        written = parse_toml(text)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None
    for name in written:
        if name != _KEYS:
            raise UsageError(f"{path}: {name} is unknown", hint=f"The file has one table, [{_KEYS}].")
    keys = written.get(_KEYS, {})
    if not isinstance(keys, dict) or not all(isinstance(value, str) for value in keys.values()):
        raise UsageError(f"{path}: [keys] must hold texts", hint='For example: "filter" = "slash,ctrl+f"')
    for action, names in keys.items():
        for name in filter(None, names.split(",")):
            if not _is_key(name.strip()):
                hint = 'Keys are named as "f5", "ctrl+f", "slash" or "G".'
                raise UsageError(f"{path}: {action}: there is no key {name.strip()}", hint=hint)
    return keys


def _is_key(name: str) -> bool:
    """Whether Textual knows a key by this name. It takes any other for a key that is never pressed, and the action
    would have none."""
    from textual.keys import KEY_NAME_REPLACEMENTS, Keys, key_to_character

    if len(name) == 1:
        return True
    *modifiers, key = name.split("+")
    is_named = key in KEY_NAME_REPLACEMENTS.values() or key in {one.value for one in Keys}
    return _MODIFIERS.issuperset(modifiers) and (is_named or key_to_character(key) is not None)
