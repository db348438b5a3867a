"""The options that Spark passes to the source, read by name and strictly: Spark passes on any option, and a typo in
``endingOffsets`` must not replay a whole topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar
from urllib.parse import parse_qsl, urlencode

import msgspec

from rmqclient.addresses import parse_address_map, split_rules
from rmqclient.tls import TlsFiles
from rmqproto.errors import UsageError
from rmqproto.java.java_numbers import INT_MAX, LONG_MAX, whole_number
from rmqproto.wire.credentials import Credentials
from rmqreplay.source.live import ClusterAccess
from rmqreplay.source.queue_ranges import OffsetTable, did_you_mean

T = TypeVar("T")


_OF_A_TABLE = "option."
"""The catalog keeps a table's options under names that begin so, and Spark passes these beside the plain ones."""
_PROPERTIES_OF_A_TABLE = frozenset({
    "collation", "comment", "external", "is_managed_location", "location", "owner", "provider",
})  # fmt: skip
"""What Spark passes besides: the properties that it reserves for itself. People may give a table more."""


def plain_options(passed: Mapping[str, str]) -> dict[str, str]:
    """The options that Spark passes, each once, without what describes a table."""
    if not is_of_table(passed) and not {name.lower() for name in passed} <= _PROPERTIES_OF_A_TABLE:
        return dict(passed)
    twins = {
        name[len(_OF_A_TABLE) :]: value for name, value in passed.items() if name.lower().startswith(_OF_A_TABLE)
    }  # fmt: skip
    return twins | {name: value for name, value in passed.items() if name.lower() == "path"}  # which has no twin


_COMMENT = "options of rocketmq: "


def is_of_table(passed: Mapping[str, str]) -> bool:
    """Whether a table is being made of the options."""
    return any(name.lower().startswith((_OF_A_TABLE, "provider")) for name in passed)


def as_comment(given: Mapping[str, str]) -> str:
    """A comment for a column, by which a table keeps its options: Spark gives a source in Python the columns of a
    table, and not its options (4.3). UsageError for secrets, which a comment would show."""
    if any(name.lower() == "secretkey" for name in given):
        raise UsageError(
            "a table shows its options, and must not have a secretKey", hint="load() a frame, make it a view"
        )
    return _COMMENT + urlencode(given)


def with_options_of_table(given: Mapping[str, str], comments: Iterable[str | None]) -> dict[str, str]:
    """The options in the comments of a table's columns, and over them those of the query. UsageError if there are
    none."""
    for comment in comments:
        if comment is not None and comment.startswith(_COMMENT):
            kept = {name.lower(): value for name, value in parse_qsl(comment[len(_COMMENT) :], keep_blank_values=True)}
            return kept | {name.lower(): value for name, value in given.items()}
    if not given:
        raise UsageError("there are no options", hint="make a table without columns: they hold its options")
    return dict(given)


def local_path(location: str) -> str:
    """The path of a location of this machine, which Spark gives as a URI; another one as it is."""
    scheme, _, path = location.partition(":")
    return "/" + path.lstrip("/") if scheme == "file" else location


class GivenOptions:
    """The given options, read by name. UsageError names the option, its value and the allowed values."""

    def __init__(self, given: Mapping[str, str], known: tuple[str, ...], others: tuple[str, ...] = ()):
        """``others``: not known here, but perhaps meant."""
        names = {name.lower(): name for name in known}
        self._values: dict[str, str] = {}
        for name, value in given.items():
            if name.lower() not in names:
                hint = did_you_mean(name, (*known, *others)) or f"it has {', '.join(known)}"
                raise UsageError(f"the rocketmq source has no option {name}", hint=hint)
            self._values[names[name.lower()]] = value

    def text(self, name: str, default: str | None = None) -> str | None:
        return self._values.get(name, "").strip() or default

    def one_of(self, name: str, *allowed: str) -> str:
        value = self.text(name)
        if value is None:
            return allowed[0]
        named = next((each for each in allowed if each.lower() == value.lower()), None)
        if named is None:
            raise UsageError(f"option {name}={value} is none of {', '.join(allowed)}")
        return named

    def flag(self, name: str, default: bool) -> bool:
        value = self.text(name)
        if value is None:
            return default
        if value.lower() not in ("true", "false"):
            raise UsageError(f"option {name}={value} is neither true nor false")
        return value.lower() == "true"

    def number(self, name: str, default: int, *, at_least: int = 0, at_most: int = LONG_MAX) -> int:
        value = self.text(name)
        if value is None:
            return default
        scale = {"k": 10, "m": 20, "g": 30}.get(value[-1].lower(), 0)
        found = whole_number(value[:-1] if scale else value, at_most >> scale)
        if found is None or found << scale < at_least:
            raise UsageError(
                f"option {name}={value} is not a whole number of at least {at_least} and at most {at_most}",
                hint="it may end in k, m or g" if value[:1].isdecimal() and not value.isdecimal() else None,
            )
        return found << scale

    def duration_ms(self, name: str, default: int, *, at_least: int = 0) -> int:
        return self.number(name, default, at_least=at_least, at_most=INT_MAX)

    def names(self, name: str) -> list[str]:
        value = self.text(name)
        return [part.strip() for part in value.split(",") if part.strip()] if value else []

    def table(self, name: str) -> OffsetTable:
        value = self.text(name)
        return json_of(name, value, OffsetTable) if value else {}

    def access(self) -> ClusterAccess:
        key, secret = self.text("accessKey"), self.text("secretKey")
        if (key is None) != (secret is None):
            raise UsageError("accessKey and secretKey belong together")
        credentials = Credentials(key, secret) if key is not None and secret is not None else None
        files = TlsFiles(
            ca=self.text("tlsCa"),
            cert=self.text("tlsCert"),
            key=self.text("tlsKey"),
            insecure=self.flag("tlsInsecure", False),
        )
        is_tls = self.flag("tls", False)
        if not is_tls and files != TlsFiles():
            raise UsageError("tlsCa, tlsCert, tlsKey and tlsInsecure need tls=true")
        try:
            address_map = parse_address_map(split_rules(self.text("addressMap") or ""))
        except UsageError as error:
            raise UsageError(f"option addressMap: {error}", hint=error.hint) from None
        return ClusterAccess(credentials=credentials, tls=files if is_tls else None, address_map=address_map)


def json_of(name: str, text: str, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(text.encode(), type=kind, strict=False)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise UsageError(f"option {name}={text} is not valid: {error}") from None
