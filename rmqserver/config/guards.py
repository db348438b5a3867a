"""Security settings that take effect only at the start: those of TLS (``rmqserver.tls.settings``), and those of
authentication and authorization (``rmqserver.auth.auth_settings``). If a running server ignored one, it would serve
everyone while its owner believes it guarded. So it refuses them over the wire.

Keys are those of Apache RocketMQ 5.5.0: of its ``AuthConfig``, and of the system properties and ``tls.properties`` that
its ``TlsSystemConfig`` reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rmqproto.errors import UsageError
from rmqserver.auth.auth_settings import AUTH_KEYS

VALUE_SHOWN_MAX = 100
"""Characters of a value that a refusal shows."""


_RESTART = "start the server with it (--set, --config or tls.config.file)"


def _is_true(text: str) -> bool:
    return text == "true"


_GUARDS: dict[str, Callable[[str], bool]] = {
    "tls.server.mode": lambda text: text == "enforcing",
    "tls.server.need.client.auth": lambda text: text not in ("", "none"),
    "tls.test.mode.enable": lambda text: text not in ("", "true"),
    **dict.fromkeys(("tls.enable", "useTLS", "tls.server.authClient", "tls.client.authServer"), _is_true),
    **{
        f"tls.{side}.{name}": bool
        for side in ("server", "client")
        for name in ("keyPath", "keyPassword", "certPath", "trustCertPath")
    },
    "tls.config.file": bool,
}
"""Whether a value, stripped and in lower case, asks for the guard."""


def is_guard(key: str) -> bool:
    return key in _GUARDS


def check_running(pairs: Mapping[str, str], current: Mapping[str, str]) -> None:
    """UsageError for the first setting of authentication and authorization that differs from the running server's,
    ``current``. It names the key and shows no value."""
    for key in AUTH_KEYS & pairs.keys():
        text = pairs[key].strip()
        if text != current.get(key, "") and (key in current or text.lower() not in ("", "false")):
            raise UsageError(f"{key}: who may do what is set when the server starts, and stays so", hint=_RESTART)


def check(pairs: Mapping[str, str]) -> None:
    """UsageError, with the key, for the first setting that asks for a guard."""
    for key, text in pairs.items():
        if key in _GUARDS and _GUARDS[key](text.strip().lower()):
            shown = "..." if key.endswith("Password") else ascii(text.strip()[:VALUE_SHOWN_MAX])[1:-1]
            what = "TLS is set up when the server starts, and stays as it is until it ends"
            raise UsageError(f"{key}={shown}: {what}", hint=_RESTART)
