"""Settings of authentication and authorization, as in ``AuthConfig`` of Apache RocketMQ 5.5.0, read when the server
starts. Settings that would guard less than they say are refused.

Two keys are ours: ``authorizationStrictEnabled`` requires a permission where Apache requires only a known user
(``request_rules.py``), and ``namesrvAuthEnabled`` makes the nameserver of the same process check requests as the broker
does. Apache's nameserver checks none.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping

import msgspec

from rmqproto.errors import UsageError
from rmqproto.wire.credentials import Credentials

AUTHENTICATION, _AUTHORIZATION = "authenticationEnabled", "authorizationEnabled"
_STRICT, NAMESRV_AUTHENTICATION = "authorizationStrictEnabled", "namesrvAuthEnabled"
_INIT_USER, _INNER = "initAuthenticationUser", "innerClientAuthenticationCredentials"
_AUTHENTICATION_WHITELIST, _AUTHORIZATION_WHITELIST = "authenticationWhitelist", "authorizationWhitelist"
_CACHE_MAX, _CACHE_EXPIRED = "statefulAuthenticationCacheMaxNum", "statefulAuthenticationCacheExpiredSecond"
ACL_1, _MIGRATE = "aclEnable", "migrateAuthFromV1Enabled"
_ROOM = "org.apache.rocketmq.auth"
_AUTHENTICATION_STRATEGY, _AUTHORIZATION_STRATEGY = "authenticationStrategy", "authorizationStrategy"

_CLASSES = {
    "authenticationProvider": ("", f"{_ROOM}.authentication.provider.DefaultAuthenticationProvider"),
    "authorizationProvider": ("", f"{_ROOM}.authorization.provider.DefaultAuthorizationProvider"),
    "authenticationMetadataProvider": (
        "", f"{_ROOM}.authentication.provider.LocalAuthenticationMetadataProvider",
    ),
    "authorizationMetadataProvider": ("", f"{_ROOM}.authorization.provider.LocalAuthorizationMetadataProvider"),
    _AUTHENTICATION_STRATEGY: (
        "", f"{_ROOM}.authentication.strategy.StatelessAuthenticationStrategy",
        f"{_ROOM}.authentication.strategy.StatefulAuthenticationStrategy",
    ),
    _AUTHORIZATION_STRATEGY: (
        "", f"{_ROOM}.authorization.strategy.StatelessAuthorizationStrategy",
        f"{_ROOM}.authorization.strategy.StatefulAuthorizationStrategy",
    ),
}  # fmt: skip
"""Allowed values of each key: Apache's own classes, whose rules this server follows. The last of a strategy is the
cached one."""

SECRET_KEYS = frozenset({_INIT_USER, _INNER})
"""Settings that contain a password: never listed, never shown in an error."""

OWN_KEYS = frozenset({_STRICT, NAMESRV_AUTHENTICATION})

AUTH_KEYS = frozenset({
    AUTHENTICATION, _AUTHORIZATION, _STRICT, NAMESRV_AUTHENTICATION, _INIT_USER, _INNER, _AUTHENTICATION_WHITELIST,
    _AUTHORIZATION_WHITELIST, _CACHE_MAX, _CACHE_EXPIRED, ACL_1, _MIGRATE, *_CLASSES,
})  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AuthSettings:
    """``inner_client``: the user as which the broker talks to its nameservers. It is also one of its own super
    users."""

    is_authenticating: bool = False
    is_authorizing: bool = False
    is_strict: bool = False
    guards_namesrv: bool = False
    init_user: Credentials | None = None
    inner_client: Credentials | None = None
    authentication_whitelist: frozenset[int] = frozenset()
    authorization_whitelist: frozenset[int] = frozenset()
    cached_connections_max: int | None = None
    """How many connections stay known once they are; None: every request is checked."""
    cached_s: int = 60
    plain_home: str = ""
    """The home directory for ACL 1.0, with ``conf/plain_acl.yml``."""
    enforces_plain: bool = False
    """Whether ACL 1.0 is enforced."""
    migrates_plain: bool = False
    """Whether accounts of ACL 1.0 become users at the start."""

    @property
    def asks(self) -> bool:
        """Whether requests must be signed, by users or by accounts of ACL 1.0."""
        return self.is_authenticating or self.enforces_plain


def auth_settings(given: Mapping[str, str]) -> AuthSettings:
    """Reads the AUTH_KEYS among all settings. Raises UsageError, which shows no secret, for a bad value and for a
    combination that would guard less than it says."""
    pairs = {key: text.strip() for key, text in given.items() if key in AUTH_KEYS}
    for key, known in _CLASSES.items():
        if pairs.get(key, "") not in known:
            raise UsageError(f"{key}={pairs[key]}: this server has no such class", hint=f"leave it out, or {known[-1]}")
    cached_max = _number(pairs, _CACHE_MAX, 10_000)
    is_cached = pairs.get(_AUTHENTICATION_STRATEGY) == _CLASSES[_AUTHENTICATION_STRATEGY][-1]
    settings = AuthSettings(
        is_authenticating=_is_true(pairs, AUTHENTICATION),
        is_authorizing=_is_true(pairs, _AUTHORIZATION),
        is_strict=_is_true(pairs, _STRICT),
        guards_namesrv=_is_true(pairs, NAMESRV_AUTHENTICATION),
        init_user=_credentials(pairs, _INIT_USER, "username", "password"),
        inner_client=_credentials(pairs, _INNER, "accessKey", "secretKey"),
        authentication_whitelist=_codes(pairs, _AUTHENTICATION_WHITELIST),
        authorization_whitelist=_codes(pairs, _AUTHORIZATION_WHITELIST),
        cached_connections_max=cached_max if is_cached else None,
        cached_s=_number(pairs, _CACHE_EXPIRED, 60),
        plain_home=given.get("rocketmqHome", "").strip() or os.environ.get("ROCKETMQ_HOME", "").strip(),
        enforces_plain=_is_true(pairs, ACL_1),
        migrates_plain=_is_true(pairs, _MIGRATE),
    )
    _check(settings)
    return settings


def _check(settings: AuthSettings) -> None:
    if settings.is_authorizing and not settings.is_authenticating:
        raise UsageError(
            f"{_AUTHORIZATION}=true: without {AUTHENTICATION}=true anybody may claim to be any user",
            hint=f"set {AUTHENTICATION}=true as well",
        )
    if settings.is_strict and not settings.is_authorizing:
        raise UsageError(f"{_STRICT}=true: nothing is authorized", hint=f"set {_AUTHORIZATION}=true as well")
    if settings.guards_namesrv and not settings.is_authenticating:
        raise UsageError(
            f"{NAMESRV_AUTHENTICATION}=true: nobody is authenticated", hint=f"set {AUTHENTICATION}=true as well"
        )
    if settings.enforces_plain and settings.is_authenticating:
        raise UsageError(
            f"{ACL_1}=true and {AUTHENTICATION}=true: a request is checked by one of them, and not by both",
            hint=f"{_MIGRATE}=true makes users of the accounts of {ACL_1}",
        )
    for key, is_set in ((ACL_1, settings.enforces_plain), (_MIGRATE, settings.migrates_plain)):
        if is_set and not settings.plain_home:
            raise UsageError(
                f"{key}=true: where conf/plain_acl.yml and conf/acl/ are is not known",
                hint="set rocketmqHome=DIR, or ROCKETMQ_HOME in the environment",
            )


def check_namesrv(settings: AuthSettings, *, has_broker: bool) -> None:
    """Raises UsageError for settings with which no client could use the nameserver, and for those it does not
    support."""
    if has_broker and settings.guards_namesrv and settings.inner_client is None:
        raise UsageError(
            f"{NAMESRV_AUTHENTICATION}=true: the broker could not register with a nameserver that asks who it is",
            hint=f'set {_INNER}={{"accessKey":"…","secretKey":"…"}} as well',
        )
    if not has_broker and (settings.enforces_plain or settings.migrates_plain):
        key = ACL_1 if settings.enforces_plain else _MIGRATE
        raise UsageError(f"{key}=true: a nameserver has no ACL 1.0", hint=f"leave it out, or set {AUTHENTICATION}=true")
    if not has_broker and settings.is_authenticating and settings.inner_client is settings.init_user is None:
        raise UsageError(
            f"{AUTHENTICATION}=true: a nameserver knows the users of {_INIT_USER} and {_INNER}, and neither is set"
        )


def _is_true(pairs: Mapping[str, str], key: str) -> bool:
    text = pairs.get(key, "").lower()
    if text not in ("", "true", "false"):
        raise UsageError(f"{key}={text}: must be true or false")
    return text == "true"


def _number(pairs: Mapping[str, str], key: str, default: int) -> int:
    text = pairs.get(key) or str(default)
    if not (text.isascii() and text.isdecimal()) or not 0 < int(text) <= 1_000_000:
        raise UsageError(f"{key}={text}: must be a whole number from 1 to 1000000")
    return int(text)


def _codes(pairs: Mapping[str, str], key: str) -> frozenset[int]:
    texts = [text.strip() for text in pairs.get(key, "").split(",") if text.strip()]
    if not all(text.isascii() and text.isdecimal() for text in texts):
        raise UsageError(f"{key}={pairs[key]}: must be request codes with commas between them, such as 105,26")
    return frozenset(map(int, texts))


def _credentials(pairs: Mapping[str, str], key: str, name_member: str, password_member: str) -> Credentials | None:
    if not pairs.get(key):
        return None
    form = UsageError(
        f'{key}: {{"{name_member}":"…","{password_member}":"…"}} is needed, and neither may be empty',
        hint="its value is not shown, because it may hold a password",
    )
    try:
        members = msgspec.json.decode(pairs[key].encode(errors="replace"), type=dict[str, str | None])
    except msgspec.MsgspecError:
        raise form from None
    name, password = members.get(name_member) or "", members.get(password_member) or ""
    if not name.strip() or not password.strip():
        raise form
    return Credentials(name, password)
