"""The settings of a server by Apache's own keys: what keys there are, how values are taken, checked and listed.

``broker_keys.txt``, ``namesrv_keys.txt`` and ``controller_keys.txt`` hold every key of Apache RocketMQ 5.5.0 with type
and default: all are accepted, checked and listed. ``own_keys.txt`` and ``own_..._keys.txt`` hold the keys that only we
have. A setting with an effect here is an attribute of ``BrokerConfig``, ``NamesrvConfig`` or ``ControllerConfig``, and
always has the key's value. A new one takes one line. If Apache's key for a time names no unit, the attribute does.

Settings also come over the wire, from anyone who can reach the port. As with Apache's broker, a value that Java could
not parse changes nothing and is not an error. A value that would stop this server or cut off its clients is refused.
"""

from __future__ import annotations

import dataclasses
import difflib
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from rmqproto.bodies.base import DataVersion
from rmqproto.codes import ResponseCode
from rmqproto.errors import ProtocolError, UsageError
from rmqproto.java import java_properties
from rmqproto.java.java_numbers import INT_MAX
from rmqserver.auth.auth_settings import AUTH_KEYS
from rmqserver.config import guards
from rmqserver.config.setting_values import PARSERS, Unusable, between, parse_list, parse_received_max_bytes, shown
from rmqserver.operation import Refused

log = logging.getLogger(__name__)

_BLACK_LIST_KEY = "configBlackList"
DOES_NOT = "this server does not do that"


def setting(key: str, parse: Callable[[str], Any] | None = None) -> Any:
    """An attribute for ``key``. ``parse`` makes its value if the key's own type is not enough. It raises ValueError."""
    return dataclasses.field(init=False, metadata={"key": key, "parse": parse})


def near_setting(key: str, known: Iterable[str]) -> str | None:
    """The known key that ``key`` was most likely meant to be, in its own spelling."""
    spelled = {each.lower(): each for each in sorted(known, reverse=True)}
    near = difflib.get_close_matches(key.lower(), spelled, 1)
    return spelled[near[0]] if near else None


def _read_keys(*file_names: str) -> tuple[dict[str, str], dict[str, str | None]]:
    """Types and defaults by key; None for a key without default. A line is ``type key=default``."""
    types, defaults = {}, {}
    for line in "".join(Path(__file__).with_name(file_name).read_text() for file_name in file_names).splitlines():
        if line and not line.startswith("#"):
            kind, _, rest = line.partition(" ")
            key, has_default, default = rest.partition("=")
            types[key] = kind
            defaults[key] = default if has_default else None
    return types, defaults


_OWN_LIMITS = _read_keys("own_keys.txt", "own_broker_keys.txt")[0].keys()


@dataclasses.dataclass(init=False, eq=False)
class Settings:
    """Values by key and, if they have an effect here, by attribute. ``data_version`` counts the updates over the
    wire."""

    keys_file: ClassVar[str]
    own_keys_files: ClassVar[tuple[str, ...]] = ("own_keys.txt",)
    refused: ClassVar[Mapping[str, frozenset[str]]] = {}
    """Values, by key, that ask for something this server cannot do. They are an error: a broker that ignored them would
    mislead its owner."""
    instead: ClassVar[Mapping[str, str]] = {}
    """What to do instead of some of these."""

    bind_address: str = setting("bindAddress")
    max_connections_per_address: int = setting("maxConnectionsPerAddress", between(0, INT_MAX))
    max_received_bytes_per_connection: int = setting("maxReceivedBytesPerConnection", parse_received_max_bytes)
    max_unread_bytes_per_connection: int = setting("maxUnreadBytesPerConnection", between(1 << 20, 256 << 20))
    server_channel_max_idle_time_s: int = setting("serverChannelMaxIdleTimeSeconds", between(0, INT_MAX))
    black_list: frozenset[str] = setting(_BLACK_LIST_KEY, lambda text: frozenset(parse_list(text)))

    def __init__(self) -> None:
        kinds, defaults = _read_keys(self.keys_file)
        own_kinds, own_defaults = _read_keys(*self.own_keys_files)
        self.kinds = kinds | own_kinds
        """int, long, float, bool or text, for every key of Apache's and ours."""
        self._own_defaults = {key: default or "" for key, default in own_defaults.items()}
        self._without_default = {key for key, default in defaults.items() if default is None}
        self._fields = {field.metadata["key"]: field for field in dataclasses.fields(self)}
        self._values: dict[str, str] = {}
        self.given: set[str] = set()
        """Keys that were set at the start, whatever the value."""
        self.data_version = DataVersion(timestamp=time.time_ns() // 1_000_000)
        for key, default in (defaults | own_defaults).items():
            if default is not None or key in self._fields:
                self._put(key, default or "")

    @classmethod
    def from_properties(cls, text: str) -> Self:
        """The defaults, changed by Java properties text. UsageError for a bad value, a warning for an unknown key."""
        config = cls()
        try:
            config.load(java_properties.parse_untrusted(text))
        except ProtocolError as error:
            raise UsageError(str(error)) from None
        return config

    def _is_refused(self, key: str, text: str) -> bool:
        """Java takes true and false in any case."""
        return text.strip().lower() in {value.lower() for value in self.refused.get(key, ())}

    def load(self, pairs: Mapping[str, str]) -> None:
        """Takes settings at start. UsageError, with key and value, for an impossible value. A warning for an unknown
        key, and for one that has no effect here."""
        guards.check(pairs)
        idle = []
        for key, text in pairs.items():
            if key not in self.kinds:
                if guards.is_guard(key):
                    continue  # a guard that is switched off
                self._check_unknown(key)
                near = near_setting(key, self.kinds)
                log.warning("event=unknown-setting key=%s%s", key, f" near={near}" if near else "")
                continue
            if self._is_refused(key, text):
                raise UsageError(f"{key}={shown(text)}: {DOES_NOT}", hint=self.instead.get(key))
            if not text.strip() and self._values.get(key):
                hint = f"leave it out for the default, {shown(self._values[key])}"
                raise UsageError(f"{key}= has no value", hint=hint)
            if key not in self._fields and text.strip() != self._values.get(key):
                idle.append(key)
            try:
                self._put(key, text.strip())
            except ValueError as error:
                raise UsageError(f"{key}={shown(text)}: {error}") from None
            self.given.add(key)
        self._check_together(self._values)
        self._warn_of_idle(idle)

    def _check_unknown(self, key: str) -> None:
        """UsageError for a limit that only the other server has: this server would run without it."""
        if key not in self.kinds and key in _OWN_LIMITS:
            raise UsageError(f"{key}: this server has no such limit", hint="set it for the broker")

    def _check_together(self, values: Mapping[str, str]) -> None:
        """UsageError if one of these values makes no sense with another."""

    def _warn_of_idle(self, keys: Iterable[str]) -> None:
        if names := ",".join(sorted(keys)):
            log.warning("event=settings-without-effect keys=%s", names)

    def record(self, pairs: Mapping[str, str]) -> None:
        """Takes values that the server itself determined (ports, paths), so that they are listed with the rest."""
        for key, text in pairs.items():
            self._put(key, text)

    def update(self, pairs: Mapping[str, str]) -> set[str]:
        """Takes settings while running (25, 318); returns the keys whose value changed.

        As with Apache, unknown keys and values that do not parse change nothing and are not errors, and whatever is not
        "true" turns one of its switches off. UsageError, with nothing changed, if the server cannot work with one of
        the values. The caller has already refused the keys of the black list.
        """
        guards.check(pairs)
        pairs = {key: self._as_java_reads(key, text) for key, text in pairs.items()}
        guards.check_running(pairs, self._values)
        changed = {}
        for key, text in pairs.items():
            if key not in self.kinds or key in AUTH_KEYS or self._values.get(key) == text:
                self._check_unknown(key)
                continue
            try:
                if self._is_refused(key, text):
                    raise Unusable(DOES_NOT)
                self._parse(key, text)
            except Unusable as error:
                raise UsageError(f"{key}={shown(text)}: {error}") from None
            except ValueError as error:
                if key in self._own_defaults:  # it is a limit: the owner must not believe that it is set
                    raise UsageError(f"{key}={shown(text)}: {error}") from None
                log.warning("event=setting-ignored key=%s value=%r reason=%r", key, shown(text), str(error))
            else:
                changed[key] = text
        self._check_together(self._values | changed)
        self.record(changed)
        self._warn_of_idle(key for key in changed if key not in self._fields)
        self.data_version.counter += 1
        self.data_version.timestamp = time.time_ns() // 1_000_000
        return set(changed)

    def _as_java_reads(self, key: str, text: str) -> str:
        """A boolean that is none is false for Java. For our own keys, and for guards, it is an error."""
        is_switch = self.kinds.get(key) == "bool" and key not in self._own_defaults and key not in AUTH_KEYS
        return "false" if is_switch and text.strip().lower() not in ("true", "false") else text

    def knows(self, key: str) -> bool:
        return key in self.kinds

    def is_own(self, key: str) -> bool:
        """Whether it is one of our own keys."""
        return key in self._own_defaults

    def text(self, key: str) -> str:
        """The value of a key as it is listed. KeyError for an unknown key."""
        return self._values[key]

    def is_black_listed(self, key: str) -> bool:
        """Whether ``key`` must not be changed over the wire."""
        return key in self.black_list or key in (_BLACK_LIST_KEY, "rocketmqHome")

    def render(self) -> str:
        """``key=value`` lines in the order of their keys (26, 319, 1010): all of Apache's that have a value, and those
        of ours that differ from their defaults. The rest of ours follow as comments: Apache's tools then show what
        Apache's servers have, and ours show what can be set."""
        listed = {
            key: text
            for key, text in self._values.items()
            if self._own_defaults.get(key) != text and (text or key not in self._without_default)
        }
        at_defaults = {key: text for key, text in self._own_defaults.items() if self._values[key] == text}
        return java_properties.render(listed) + java_properties.render(at_defaults, before=java_properties.COMMENT)

    def _put(self, key: str, text: str) -> None:
        """Sets value and attribute. ValueError, with nothing changed, if ``text`` is not a value of this key."""
        value = self._parse(key, text)
        field = self._fields.get(key)
        if field is not None:
            setattr(self, field.name, value)
        self._values[key] = text

    def _parse(self, key: str, text: str) -> Any:
        """The value for the attribute, if the key has one."""
        value = PARSERS[self.kinds[key]](text)
        field = self._fields.get(key)
        parse = field.metadata["parse"] if field is not None else None
        return parse(text) if parse else value


def take_settings_untrusted(config: Settings, body: bytes) -> set[str]:
    """Applies the properties in ``body`` and returns the keys whose value changed. Unknown keys and values that do not
    parse change nothing and are not errors. Refused, with nothing changed, if a key must not be changed over the wire,
    or the server cannot work with a value."""
    pairs = java_properties.parse_untrusted(body)
    if any(config.is_black_listed(key) for key in pairs):
        raise Refused(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
    try:
        return config.update(pairs)
    except UsageError as error:
        raise Refused(ResponseCode.INVALID_PARAMETER, str(error)) from None
