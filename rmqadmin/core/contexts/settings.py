"""The settings in force for one call, and where each comes from: a flag, the environment, the context, the settings
file, or the built-in default. Each setting is taken from the first of these that has it.

``--context`` is a flag, too: the settings of the context it names come before the environment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import msgspec

from rmqadmin.core.contexts.context import (
    ASKED_AT_ONCE_DEFAULT,
    NAMESRV_DEFAULT,
    NO_CONTEXT,
    TIMEOUT_DEFAULT_S,
    AskedAtOnce,
    Context,
    Seconds,
    ServerSettings,
    addresses_of,
)
from rmqadmin.core.contexts.context_store import ContextStore
from rmqadmin.core.files import config_dir
from rmqclient.addresses import NO_MAP, AddressMap, parse_address_map, split_rules
from rmqclient.tls import TlsFiles
from rmqproto.errors import UsageError
from rmqproto.wire.credentials import Credentials

if TYPE_CHECKING:
    import ssl

    from rmqadmin.core.contexts.settings_file import SettingsText

CONTEXT_VARIABLE = "RMQADMIN_CONTEXT"

_TRUE_TEXTS = ("true", "1", "yes")
_FALSE_TEXTS = ("false", "0", "no")


def name_in_use(store: ContextStore, environment: Mapping[str, str] = os.environ) -> str | None:
    """The context for commands that name none: the environment's, else the one in use."""
    named = environment.get(CONTEXT_VARIABLE) or store.name_in_use()
    return None if named == NO_CONTEXT else named


class FileSettings(ServerSettings, frozen=True, kw_only=True):
    """What ``config.toml`` may hold: settings for every context that does not set them itself."""

    output: str | None = None
    color: str | None = None
    pager: str | None = None
    audit: bool | None = None


class Level(StrEnum):
    """Where a setting comes from."""

    FLAG = "flag"
    ENVIRONMENT = "environment"
    CONTEXT = "context"
    FILE = "file"
    DEFAULT = "default"


class EffectiveSetting(msgspec.Struct, frozen=True):
    """``value`` is None if the setting is not set. ``source`` is a flag, a variable, or a line of the file ``path``.

    A key from a file is a reference (``settings_file``); one from a flag or the environment is the key itself.
    """

    key: str
    value: Any
    level: Level
    source: str
    path: Path | None = None


class SettingKind(msgspec.Struct, frozen=True):
    """``flag`` and ``variables`` set the same thing as ``key`` in a file; an empty ``flag`` means there is none. The
    first of two variables wins."""

    key: str
    flag: str
    variables: tuple[str, ...]
    default: Any = None
    parse: Callable[[str, str], Any] = lambda text, _where: text
    is_key: bool = False
    may_be_empty: bool = False


def _true_false(text: str, where: str) -> bool:
    if text.lower() not in _TRUE_TEXTS + _FALSE_TEXTS:
        raise UsageError(f"{where}={text}: it must be true or false")
    return text.lower() in _TRUE_TEXTS


def _color(_text: str, where: str) -> str:
    return "never" if where == "NO_COLOR" else "always"


def _number(kind: Any) -> Callable[[str, str], Any]:
    """Reads a number of this type, with the limits that it has in a file."""

    def parse(text: str, where: str) -> Any:
        try:
            return msgspec.convert(text, kind, strict=False)
        except msgspec.ValidationError:
            from rmqadmin.core.contexts.settings_file import wanted  # only for mistakes

            raise UsageError(f"{where}={text}: it must be {wanted(kind)}") from None

    return parse


KINDS = (
    SettingKind("namesrv_addr", "-n", ("RMQADMIN_NAMESRV", "NAMESRV_ADDR"), NAMESRV_DEFAULT),
    SettingKind("cluster", "-c", ("RMQADMIN_CLUSTER",)),
    SettingKind("access_key", "-ak", ("RMQADMIN_ACCESS_KEY",), is_key=True),
    SettingKind("secret_key", "-sk", ("RMQADMIN_SECRET_KEY",), is_key=True),
    SettingKind("tls", "--tls", ("RMQADMIN_TLS",), False, _true_false),
    SettingKind("tls_ca", "--tls-ca", ("RMQADMIN_TLS_CA",)),
    SettingKind("tls_cert", "--tls-cert", ("RMQADMIN_TLS_CERT",)),
    SettingKind("tls_key", "--tls-key", ("RMQADMIN_TLS_KEY",)),
    SettingKind("tls_insecure", "--tls-insecure", ("RMQADMIN_TLS_INSECURE",), False, _true_false),
    SettingKind("address_map", "--address-map", ("RMQADMIN_ADDRESS_MAP",), None, lambda text, _: split_rules(text)),
    SettingKind("timeout_s", "--timeout", ("RMQADMIN_TIMEOUT",), TIMEOUT_DEFAULT_S, _number(Seconds)),
    SettingKind("parallel", "--parallel", ("RMQADMIN_PARALLEL",), ASKED_AT_ONCE_DEFAULT, _number(AskedAtOnce)),
    SettingKind("output", "--output", ("RMQADMIN_OUTPUT",), "table"),
    SettingKind("color", "--color", ("NO_COLOR", "FORCE_COLOR"), "auto", _color),
    SettingKind("pager", "--no-pager", ("RMQADMIN_PAGER", "PAGER"), "less", may_be_empty=True),
    SettingKind("audit", "", (), True),
)
"""In the order in which ``config show`` lists them."""

_KIND_BY_KEY = {kind.key: kind for kind in KINDS}
_IN_CONTEXTS = frozenset(ServerSettings.__struct_fields__)
_OUTSIDE = (Level.FLAG, Level.ENVIRONMENT)
_ORDER = list(Level)


class Access(TypedDict):
    """How servers are reached."""

    credentials: Credentials | None
    tls: TlsFiles | None
    address_map: AddressMap


class EffectiveSettings:
    """The settings of one call. Files are read once, when a setting that they may hold is first asked for.

    Every method raises UsageError, with file and line, for an invalid file, and NotFoundError for a context that does
    not exist.
    """

    def __init__(
        self,
        flags: Mapping[str, Any],
        *,
        context_flag: str | None = None,
        environment: Mapping[str, str] = os.environ,
        store: ContextStore | None = None,
    ):
        """``flags``: the settings from the command line, by key; None if not given."""
        if context_flag is not None and not context_flag.strip():  # ``--context "$CONTEXT"`` without such a variable
            raise UsageError("--context has no value", hint=f"The name of a context, or {NO_CONTEXT}.")
        self._flags = flags
        self._context_flag = context_flag
        self._environment = environment
        self.store = store or ContextStore()

    # --- which context -----------------------------------------------------------------------------------------------

    @cached_property
    def context(self) -> Context | None:
        """The context of this call: the flag's, else the environment's, else the one in use."""
        named = self._context_flag or self._environment.get(CONTEXT_VARIABLE)
        if named:
            return self.store.named(named)
        return self.store.in_use()

    @property
    def context_choice(self) -> tuple[Level, str]:
        """Where the choice of context came from, and how it was made."""
        if self._context_flag:
            return Level.FLAG, "--context"
        if self._environment.get(CONTEXT_VARIABLE):
            return Level.ENVIRONMENT, CONTEXT_VARIABLE
        return (Level.DEFAULT, "built in") if self.context is None else (Level.FILE, "context use")

    # --- one setting -------------------------------------------------------------------------------------------------

    def setting(self, key: str) -> EffectiveSetting:
        return next(self._said(_KIND_BY_KEY[key]))

    def _said(self, kind: SettingKind) -> Iterator[EffectiveSetting]:
        """Every source that has the setting, in order of precedence."""
        flag = self._flags.get(kind.key)
        if flag is not None:
            yield EffectiveSetting(kind.key, flag, Level.FLAG, kind.flag)
        if self._context_flag:
            yield from self._said_by_context(kind)
        for variable in kind.variables:
            text = self._environment.get(variable, "").strip()
            if text or (kind.may_be_empty and variable in self._environment):
                yield EffectiveSetting(kind.key, kind.parse(text, variable), Level.ENVIRONMENT, variable)
        if not self._context_flag:
            yield from self._said_by_context(kind)
        if self._file is not None:
            value, path = getattr(self._file.settings, kind.key), config_path()
            if value is not None:
                yield EffectiveSetting(kind.key, value, Level.FILE, f"{path}:{self._file.lines[kind.key]}", path)
        yield EffectiveSetting(kind.key, kind.default, Level.DEFAULT, "built in")

    def _said_by_context(self, kind: SettingKind) -> Iterator[EffectiveSetting]:
        if kind.key not in _IN_CONTEXTS or self.context is None:
            return
        value, path = getattr(self.context.settings, kind.key), self.context.path
        if value is not None:
            yield EffectiveSetting(kind.key, value, Level.CONTEXT, f"{path}:{self.context.lines[kind.key]}", path)

    @cached_property
    def _file(self) -> SettingsText[FileSettings] | None:
        path = config_path()
        if not os.path.lexists(path):
            return None
        from rmqadmin.core.contexts.settings_file import read_settings  # only for users with such a file

        try:
            return read_settings(path, FileSettings)
        except FileNotFoundError:
            return None

    def counting_context(self) -> Context | None:
        """The context in use, unless a flag or a variable names other name servers in its place."""
        return None if self._overrules(Level.FLAG, Level.ENVIRONMENT) else self.context

    def overruled_context(self) -> tuple[Context, EffectiveSetting] | None:
        """The context in use and what names other name servers in its place: a variable of the environment. None if
        the context's count. A flag is not told of: whoever types it knows."""
        context = self.context
        if context is None or not self._overrules(Level.ENVIRONMENT):
            return None
        return context, self.setting("namesrv_addr")

    def _overrules(self, *levels: Level) -> bool:
        """Whether one of the levels names other name servers than the context in use."""
        said, context = self.setting("namesrv_addr"), self.context
        if said.level not in levels or context is None:
            return False
        return addresses_of(said.value) != addresses_of(context.settings.namesrv_addr or "")

    # --- what they mean together -------------------------------------------------------------------------------------

    def access(self) -> Access:
        """All of it, for requests and plans that make connections later. UsageError as from each."""
        return {"credentials": self.credentials(), "tls": self.tls_files(), "address_map": self.address_map()}

    def credentials(self) -> Credentials | None:
        """The two keys; None if neither is set. Both come from one place. UsageError for one without the other, and for
        a reference that cannot be read."""
        return self._credentials

    @cached_property
    def _credentials(self) -> Credentials | None:
        """The two keys, read once: a program that supplies a key may ask its user for something."""
        access_key, secret_key = self.setting("access_key"), self.setting("secret_key")
        if access_key.value is None and secret_key.value is None:
            return None
        stronger, weaker = sorted((access_key, secret_key), key=self._rank)
        one_place = stronger.level is weaker.level or {stronger.level, weaker.level} <= set(_OUTSIDE)
        if weaker.value is None or not one_place:
            raise UsageError(
                f"credentials are two keys from one place: {stronger.source} gives the {stronger.key}, and the"
                f" {weaker.key} is missing",
                hint="-ak and -sk, RMQADMIN_ACCESS_KEY and RMQADMIN_SECRET_KEY, or both in the context.",
            )
        return Credentials(self._key(access_key), self._key(secret_key))

    def _rank(self, setting: EffectiveSetting) -> float:
        """The precedence of a setting's source, as in ``_said``. A smaller number wins."""
        if self._context_flag and setting.level is Level.CONTEXT:
            return _ORDER.index(Level.FLAG) + 0.5
        return _ORDER.index(setting.level)

    @staticmethod
    def _key(setting: EffectiveSetting) -> str:
        if setting.path is None:
            return str(setting.value)
        from rmqadmin.core.contexts.settings_file import read_secret

        return read_secret(setting.value, setting.key, setting.path)

    def tls(self) -> ssl.SSLContext | None:
        """None for plain connections. UsageError as from ``tls_files``, and for a file that cannot be used."""
        files = self.tls_files()
        return None if files is None else files.context()

    def tls_files(self) -> TlsFiles | None:
        """None for plain connections. UsageError if the command line gives TLS files without ``--tls``."""
        ca, cert, key, insecure = map(self.setting, ("tls_ca", "tls_cert", "tls_key", "tls_insecure"))
        if not self.setting("tls").value:
            if any(setting.value and setting.level is Level.FLAG for setting in (ca, cert, key, insecure)):
                raise UsageError("--tls-ca, --tls-cert, --tls-key and --tls-insecure need --tls")
            return None
        takes_any = insecure.value and not (ca.value and self._rank(ca) < self._rank(insecure))
        overrules_ca = takes_any and self._rank(insecure) < self._rank(ca)
        overrules_key = cert.path is None and cert.value and key.path is not None  # it belongs to another certificate
        return TlsFiles(
            ca=None if overrules_ca else ca.value,
            cert=cert.value,
            key=None if overrules_key else key.value,
            insecure=bool(takes_any),
        )

    def address_map(self) -> AddressMap:
        """Where connections go instead of to the advertised addresses. UsageError, with its source, for a bad rule."""
        setting = self.setting("address_map")
        if not setting.value:
            return NO_MAP
        try:
            return parse_address_map(setting.value)
        except UsageError as error:
            raise UsageError(f"{setting.source}: {error}", hint=error.hint) from None


def config_path() -> Path:
    return config_dir() / "config.toml"
