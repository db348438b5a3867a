"""Which parts of TLS are on, under the names of Apache RocketMQ 5.5.0's ``TlsSystemConfig``. There they are Java system
properties and lines of a file; here they are settings like all others, and ``tls.config.file`` names such a file.

As Apache's, a server speaks TLS beside plain connections unless it is told otherwise, with a self-made certificate if
it has no other. Here a given one always wins. Settings that would guard less than they say are refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import Enum
from pathlib import Path

from rmqproto.errors import ProtocolError, UsageError
from rmqproto.java import java_properties

_FILE = "tls.config.file"
_MODE = "tls.server.mode"
_TEST_MODE = "tls.test.mode.enable"
_CERT, _KEY, _PASSWORD = "tls.server.certPath", "tls.server.keyPath", "tls.server.keyPassword"
_AUTH_CLIENT, _NEED_CLIENT_AUTH = "tls.server.authClient", "tls.server.need.client.auth"
_TRUST = "tls.server.trustCertPath"
_LINK_ENABLE = ("tls.enable", "useTLS")
_LINK_AUTH, _LINK_TRUST = "tls.client.authServer", "tls.client.trustCertPath"
_LINK_CERT, _LINK_KEY, _LINK_PASSWORD = "tls.client.certPath", "tls.client.keyPath", "tls.client.keyPassword"

TLS_KEYS = frozenset({
    _FILE, _MODE, _TEST_MODE, _CERT, _KEY, _PASSWORD, _AUTH_CLIENT, _NEED_CLIENT_AUTH, _TRUST, *_LINK_ENABLE,
    _LINK_AUTH, _LINK_TRUST, _LINK_CERT, _LINK_KEY, _LINK_PASSWORD,
})  # fmt: skip


class TlsMode(Enum):
    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    """The first byte of a connection tells whether it is TLS; both are served."""
    ENFORCING = "enforcing"


class ClientAuth(Enum):
    NONE = "none"
    OPTIONAL = "optional"
    REQUIRE = "require"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """Paths of PEM files."""

    cert_path: str
    key_path: str
    key_password: str = dataclasses.field(default="", repr=False)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DoorSettings:
    """How peers are let in. Without ``key_pair``, the server makes its own certificate. ``is_asked``: whether a setting
    asks for TLS; otherwise it is there for whoever comes with it."""

    mode: TlsMode
    key_pair: KeyPair | None
    client_auth: ClientAuth
    trust_path: str
    """The certificates that verify clients' certificates; empty if clients are asked for none."""
    is_asked: bool = True


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings:
    """How the broker reaches its nameservers. As in Apache, the chain is verified but not the name."""

    key_pair: KeyPair | None
    checks_server: bool
    trust_path: str
    """Empty: the system's own."""


@dataclasses.dataclass(frozen=True, slots=True)
class TlsSettings:
    """None means plain connections."""

    door: DoorSettings | None = None
    link: LinkSettings | None = None


def tls_settings(given: Mapping[str, str]) -> TlsSettings:
    """Extracts them from all settings; keys other than TLS_KEYS are ignored. Settings given directly win over those in
    the file of ``tls.config.file``. UsageError for a bad value, for an unreadable file, and for a combination that
    would guard less than it says."""
    pairs = {key: text.strip() for key, text in given.items() if key in TLS_KEYS and text.strip()}
    if _FILE in pairs:
        pairs = {**_read_file(pairs[_FILE]), **pairs}
    door = _door(pairs)
    return TlsSettings(door, _link(pairs, is_enforced=door is not None and door.mode is TlsMode.ENFORCING))


def _read_file(path: str) -> dict[str, str]:
    try:
        pairs = java_properties.parse_file_untrusted(Path(path).read_bytes())
    except OSError as error:
        raise UsageError(f"{_FILE}={path}: {error.strerror}") from None
    except ProtocolError as error:
        raise UsageError(f"{_FILE}={path}: {error}") from None
    unknown = pairs.keys() - TLS_KEYS
    if unknown:
        raise UsageError(f"{_FILE}={path}: {min(unknown)} is no setting of TLS")
    return {key: text.strip() for key, text in pairs.items() if text.strip()}


def _door(pairs: Mapping[str, str]) -> DoorSettings | None:
    mode = TlsMode(_one_of(pairs, _MODE, [each.value for each in TlsMode], "permissive"))
    key_pair = _key_pair(pairs, _CERT, _KEY, _PASSWORD)
    client_auth = _client_auth(pairs)
    if mode is TlsMode.DISABLED:
        return None
    is_test = _is_true(pairs, _TEST_MODE)
    guards = (_MODE, _NEED_CLIENT_AUTH, _AUTH_CLIENT, _TRUST)
    asks = [key for key in guards if key in pairs and (key != _MODE or mode is TlsMode.ENFORCING)]
    if asks and key_pair is None and not is_test:
        raise UsageError(
            f"{asks[0]}={pairs[asks[0]]}: TLS needs a certificate",
            hint=f"give {_CERT} and {_KEY} (PEM files), or for tests {_TEST_MODE}=true, which makes one",
        )
    if key_pair is None and _TEST_MODE in pairs and not is_test:
        return None
    return DoorSettings(
        mode=mode,
        key_pair=key_pair,
        client_auth=client_auth,
        trust_path=pairs.get(_TRUST, ""),
        is_asked=key_pair is not None or is_test,
    )


def _client_auth(pairs: Mapping[str, str]) -> ClientAuth:
    """Apache verifies clients' certificates only if three settings agree, and does not report if they do not."""
    wanted = ClientAuth(_one_of(pairs, _NEED_CLIENT_AUTH, [each.value for each in ClientAuth], "none"))
    checks = _is_true(pairs, _AUTH_CLIENT)
    if wanted is ClientAuth.NONE:
        for key in (_AUTH_CLIENT, _TRUST):
            if key in pairs and (checks or key == _TRUST):
                raise UsageError(
                    f"{key}={pairs[key]} checks nobody, because {_NEED_CLIENT_AUTH} is none",
                    hint=f"set {_NEED_CLIENT_AUTH}=require (or optional)",
                )
    elif not checks or _TRUST not in pairs:
        raise UsageError(
            f"{_NEED_CLIENT_AUTH}={wanted.value} would let in every certificate",
            hint=f"set {_AUTH_CLIENT}=true and {_TRUST}, the certificates that sign those of clients",
        )
    return wanted


def _link(pairs: Mapping[str, str], *, is_enforced: bool) -> LinkSettings | None:
    key_pair = _key_pair(pairs, _LINK_CERT, _LINK_KEY, _LINK_PASSWORD)
    checks_server = _is_true(pairs, _LINK_AUTH)
    if not is_enforced and not any([_is_true(pairs, key) for key in _LINK_ENABLE]):
        for key in (_LINK_AUTH, _LINK_TRUST, _LINK_CERT):
            if key in pairs and (checks_server or key != _LINK_AUTH):
                raise UsageError(f"{key}={pairs[key]} has no effect without TLS", hint="set tls.enable=true as well")
        return None
    if _LINK_TRUST in pairs and not checks_server:
        raise UsageError(
            f"{_LINK_TRUST}={pairs[_LINK_TRUST]} checks nobody, because {_LINK_AUTH} is not true",
            hint=f"set {_LINK_AUTH}=true",
        )
    return LinkSettings(key_pair=key_pair, checks_server=checks_server, trust_path=pairs.get(_LINK_TRUST, ""))


def _key_pair(pairs: Mapping[str, str], cert: str, key: str, password: str) -> KeyPair | None:
    if cert not in pairs and key not in pairs and password not in pairs:
        return None
    for needed in (cert, key):
        if needed not in pairs:
            raise UsageError(f"{needed} is needed, too: certificate and key belong together")
    return KeyPair(cert_path=pairs[cert], key_path=pairs[key], key_password=pairs.get(password, ""))


def _is_true(pairs: Mapping[str, str], key: str) -> bool:
    return _one_of(pairs, key, ["true", "false"], "false") == "true"


def _one_of(pairs: Mapping[str, str], key: str, values: list[str], default: str) -> str:
    text = pairs.get(key, default).lower()
    if text not in values:
        raise UsageError(f"{key}={pairs[key][:100]!a}: must be one of {', '.join(values)}")
    return text
