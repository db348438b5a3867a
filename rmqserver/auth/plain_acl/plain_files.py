"""The files of ACL 1.0 (``PlainAccessData`` and ``PlainPermissionManager``, 5.3.2): ``conf/plain_acl.yml`` and the
files below ``conf/acl/``, in the home directory of an Apache broker.

    globalWhiteRemoteAddresses:
      - 10.10.103.*
    accounts:
      - accessKey: orders-service
        secretKey: 12345678
        whiteRemoteAddress: 192.168.1.*
        admin: false
        defaultTopicPerm: DENY
        defaultGroupPerm: SUB
        topicPerms:
          - orders=PUB|SUB
        groupPerms:
          - orders-reader=SUB

Anything unknown is refused, with file and place. Apache takes a permission that it cannot read as DENY.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Flag
from pathlib import Path
from typing import Any

from rmqproto.access.resources import Resource, ResourceType
from rmqproto.errors import UsageError
from rmqproto.wire.signing import SigningKey
from rmqserver.auth.plain_acl.white_addresses import WhiteAddresses
from rmqserver.system import Stamps, stamps

log = logging.getLogger(__name__)

FILE_MAX_BYTES = 16 << 20
KEY_MIN_CHARS = 7
"""Minimum length of access keys and secret keys (``AclConstants``: longer than 6)."""

_TOP_MEMBERS = frozenset({"globalWhiteRemoteAddresses", "accounts", "dataVersion"})
_ACCOUNT_MEMBERS = frozenset({
    "accessKey", "secretKey", "whiteRemoteAddress", "admin", "defaultTopicPerm", "defaultGroupPerm", "topicPerms",
    "groupPerms",
})  # fmt: skip
_BOOLS = {"": False, "false": False, "no": False, "off": False, "true": True, "yes": True, "on": True}


@dataclass(frozen=True, slots=True)
class PlainAcl:
    """The content of all files: accounts by access key, and addresses whose requests all pass."""

    accounts: Mapping[str, Account]
    global_white: tuple[WhiteAddresses, ...]


class PlainFiles:
    """The files of one home directory."""

    def __init__(self, home: str):
        self._home = Path(home)

    def paths(self) -> list[str]:
        """Existing files in reading order: those in ``conf/acl/``, sorted, then ``conf/plain_acl.yml``."""
        conf = self._home / "conf"
        inside = (path for path in (conf / "acl").rglob("*") if path.suffix in (".yml", ".yaml"))
        return [str(path) for path in (*sorted(inside), conf / "plain_acl.yml") if path.is_file()]

    def stamps(self) -> Stamps:
        """Stamps that differ when a file has changed, come or gone."""
        return stamps(self.paths())

    def read(self) -> PlainAcl:
        """Reads all files. Raises UsageError, which shows no secret, if there is no file, or one cannot be used."""
        paths = self.paths()
        if not paths:
            conf = self._home / "conf"
            raise UsageError(
                f"ACL 1.0 is asked for, and there is neither {conf}/plain_acl.yml nor a file in {conf}/acl",
                hint="rocketmqHome=DIR says where conf/ is",
            )
        accounts: dict[str, Account] = {}
        white: list[WhiteAddresses] = []
        for path in paths:
            reader = _Reader(path)
            white += reader.global_white()
            for account in reader.accounts():
                if account.access_key in accounts:
                    log.warning("event=account-repeated access_key=%s file=%s", account.access_key, path)
                else:
                    accounts[account.access_key] = account
        return PlainAcl(accounts, tuple(white))


class _Reader:
    """Reads one file. Scalars stay texts as written: a secret of digits is not a number."""

    def __init__(self, path: str):
        import yaml  # 12 ms

        self._path = path
        try:
            data = Path(path).read_bytes()
            if len(data) > FILE_MAX_BYTES:
                raise UsageError(f"{path}: {len(data)} bytes are more than {FILE_MAX_BYTES}")
            events = yaml.parse(data, Loader=yaml.BaseLoader)
            if any(isinstance(event, yaml.AliasEvent) for event in events):
                raise UsageError(f"{path}: aliases are not taken")
            document = yaml.load(data, Loader=yaml.BaseLoader)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from None
        except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
            mark = getattr(error, "problem_mark", None)
            line = f", line {mark.line + 1}" if mark is not None else ""
            raise UsageError(f"{path}{line}: {getattr(error, 'problem', None) or 'no YAML'}") from None
        self._top = self._members(document or {}, "the file", _TOP_MEMBERS)

    def global_white(self) -> Iterator[WhiteAddresses]:
        for text in self._texts(self._top, "globalWhiteRemoteAddresses", ""):
            yield self._white(text, "globalWhiteRemoteAddresses")

    def accounts(self) -> Iterator[Account]:
        found = self._top.get("accounts") or []
        if not isinstance(found, list):
            raise self._bad("accounts", "must be a list")
        for number, each in enumerate(found):
            place = f"accounts[{number}]"
            yield self._account(self._members(each, place, _ACCOUNT_MEMBERS), place)

    def _account(self, members: Mapping[str, Any], place: str) -> Account:
        access_key, secret_key = (self._text(members, name, place) for name in ("accessKey", "secretKey"))
        for name, key in (("accessKey", access_key), ("secretKey", secret_key)):
            if len(key) < KEY_MIN_CHARS:
                raise self._bad(f"{place}.{name}", f"must have {KEY_MIN_CHARS} characters or more")
        is_admin = _BOOLS.get(self._text(members, "admin", place).lower())
        if is_admin is None:
            raise self._bad(f"{place}.admin", "must be true or false")
        perms: dict[Resource, Perm] = {}
        for name, kind in (("topicPerms", ResourceType.TOPIC), ("groupPerms", ResourceType.GROUP)):
            for text in self._texts(members, name, f"{place}."):
                resource, equals, perm = (part.strip() for part in text.partition("="))
                if not equals or not resource:
                    raise self._bad(f"{place}.{name}", f"must be NAME=PERM, not {text[:100]!a}")
                perms[Resource(kind, resource)] = self._perm(perm, f"{place}.{name}")
        return Account(
            access_key=access_key,
            secret_key=secret_key,
            white_addresses=self._white(
                self._text(members, "whiteRemoteAddress", place), f"{place}.whiteRemoteAddress"
            ),
            is_admin=is_admin,
            default_topic_perm=self._default(members, "defaultTopicPerm", place),
            default_group_perm=self._default(members, "defaultGroupPerm", place),
            perms=perms,
            signing_key=SigningKey(secret_key),
        )

    def _default(self, members: Mapping[str, Any], name: str, place: str) -> Perm | None:
        text = self._text(members, name, place)
        return self._perm(text, f"{place}.{name}") if text else None

    def _perm(self, text: str, place: str) -> Perm:
        if text not in PERMS:
            raise self._bad(place, f"{text[:100]!a} is none of {', '.join(PERMS)}")
        return PERMS[text]

    def _white(self, text: str, place: str) -> WhiteAddresses:
        try:
            return WhiteAddresses(text)
        except ValueError as error:
            raise self._bad(place, str(error)) from None

    def _members(self, value: object, place: str, known: frozenset[str]) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise self._bad(place, "must be names with values")
        unknown = sorted(ascii(name) for name in value.keys() - known)
        if unknown:
            raise self._bad(place, f"{unknown[0]} is none of {', '.join(sorted(known))}")
        return value

    def _text(self, members: Mapping[str, Any], name: str, place: str) -> str:
        value = members.get(name, "")
        if not isinstance(value, str):
            raise self._bad(f"{place}.{name}", "must be one value")
        return "" if value.strip() in ("null", "~") else value.strip()

    def _texts(self, members: Mapping[str, Any], name: str, place: str) -> list[str]:
        value = members.get(name) or []
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self._bad(f"{place}{name}", "must be a list of values")
        return value

    def _bad(self, place: str, what: str) -> UsageError:
        return UsageError(f"{self._path}: {place}: {what}")


class Perm(Flag):
    DENY = 0
    PUB = 1
    SUB = 2


PERMS = {
    "DENY": Perm.DENY, "PUB": Perm.PUB, "SUB": Perm.SUB, "PUB|SUB": Perm.PUB | Perm.SUB, "SUB|PUB": Perm.PUB | Perm.SUB,
}  # fmt: skip
"""Permissions by their names in the files."""


@dataclass(frozen=True, slots=True)
class Account:
    """An account of ACL 1.0 (``PlainAccessResource``, ``PlainPermissionChecker``, 5.3.2). ``perms`` take precedence
    over the defaults for topics and groups. An administrator may do everything."""

    access_key: str
    secret_key: str = field(repr=False)
    white_addresses: WhiteAddresses
    is_admin: bool
    default_topic_perm: Perm | None
    """None if the file names none, which denies."""
    default_group_perm: Perm | None
    perms: Mapping[Resource, Perm]
    signing_key: SigningKey = field(repr=False)

    def refusal(self, resource: Resource, needed: Perm) -> str | None:
        """Why the account may not use the resource, in Apache's words; None if it may."""
        what = f"{resource.type.value.lower()}:{resource.name}"
        perm = self.perms.get(resource)
        if perm is not None:
            return None if needed in perm else f"No permission for {what}"
        default = self.default_group_perm if resource.type is ResourceType.GROUP else self.default_topic_perm
        return None if needed in (default or Perm.DENY) else f"No default permission for {what}"
