"""The tables below ``config/`` as they are, and which file of each a broker would take. They have no checksum: a table
counts as good if it parses, has the right form and agrees with itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from rmqproto.access.users import acls_untrusted, users_untrusted
from rmqproto.bodies.base import DataVersion
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.popping import RequestModes
from rmqproto.bodies.replication import SlaveLogFile
from rmqproto.bodies.routes import TopicConfig, TopicQueueMappingDetail
from rmqproto.bodies.statistics import ConsumerOffsetsBody, DelayOffsets, TimerMetrics
from rmqproto.errors import ProtocolError
from rmqproto.wire.fastjson import parse_large_untrusted
from rmqserver.store.disk.disk import Disk
from rmqserver.store.disk.whole_files import BACKUP

TOPICS, GROUPS = "topics.json", "subscriptionGroup.json"
OFFSETS, LIGHT_OFFSETS = "consumerOffset.json", "lmqConsumerOffset.json"
DELAY_OFFSETS = "delayOffset.json"
USERS = "auth.json"
APACHE = "Apache"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Form:
    """``member`` holds the entries. ``body``: type of the whole file. ``entry``: type of each entry, with the field
    that repeats its key. ``check`` raises ProtocolError if the form is wrong."""

    member: str
    body: Any = None
    entry: Any = None
    key_field: str = ""
    check: Callable[[Mapping[str, object]], object] | None = None
    beside: Any = None
    """Type of the members beside the entries."""
    reader: str = ""
    """The brokers that read it, if only some of ours do, or APACHE. Empty: every broker reads it."""


class _Version(msgspec.Struct, rename="camel"):
    data_version: DataVersion | None = None


class _VersionAndForbidden(_Version, rename="camel"):
    forbidden_table: dict[str, dict[str, int]] = {}


def _check_users(document: Mapping[str, object]) -> None:
    users_untrusted(document)
    acls_untrusted(document)


_FORMS = {
    TOPICS: _Form("topicConfigTable", entry=TopicConfig, key_field="topic_name", beside=_Version),
    GROUPS: _Form(
        "subscriptionGroupTable", entry=SubscriptionGroupConfig, key_field="group_name", beside=_VersionAndForbidden
    ),
    OFFSETS: _Form("offsetTable", body=ConsumerOffsetsBody),
    LIGHT_OFFSETS: _Form("offsetTable", body=ConsumerOffsetsBody),
    "slaveLog.json": _Form("slaveLog", body=SlaveLogFile, reader="as a slave"),
    DELAY_OFFSETS: _Form("offsetTable", body=DelayOffsets),
    "timermetrics": _Form("timingCount", body=TimerMetrics),
    "transactionMetrics": _Form("transactionCount", entry=dict[str, Any], beside=_Version),
    "consumerFilter.json": _Form("filterDataByTopic", entry=dict[str, Any], reader=APACHE),
    "consumerOrderInfo.json": _Form("table", entry=dict[int, dict[str, Any]]),
    "topicQueueMapping.json": _Form(
        "topicQueueMappingInfoMap", entry=TopicQueueMappingDetail, key_field="topic", beside=_Version, reader=APACHE
    ),
    "messageRequestMode.json": _Form("messageRequestModeMap", body=RequestModes),
    USERS: _Form("users", check=_check_users, reader="with users"),
}
_BINARY = frozenset({"timercheck"})
_SECRETS = frozenset({"password"})


@dataclass(slots=True)
class FoundTable:
    """One file. ``problem`` is why it cannot be parsed: a broker then takes its copy. ``misfit``: it parses, but does
    not have the form of such a table; our broker then refuses to start, whatever the copy is. ``document`` is empty in
    both cases. ``oddity``: a broker takes it, but it is hardly what was written."""

    name: str
    size_bytes: int
    document: dict[str, Any]
    problem: str = ""
    misfit: str = ""
    oddity: str = ""

    @property
    def is_usable(self) -> bool:
        return not self.problem and not self.misfit and self.size_bytes > 0

    @property
    def reader(self) -> str:
        """The brokers that read it: some of ours, or APACHE; empty if every broker does."""
        return _FORMS[self.name.removesuffix(BACKUP)].reader

    @property
    def entries(self) -> dict[Any, Any]:
        """The entries, without secrets. Those of users include their policies."""
        name = self.name.removesuffix(BACKUP)
        found = self.document.get(_FORMS[name].member)
        entries = found if isinstance(found, dict) else {}
        if name != USERS:
            return entries
        told = {key: {field: user[field] for field in user if field not in _SECRETS} for key, user in entries.items()}
        return told | (self.document.get("acls") or {})

    @property
    def entry_count(self) -> int:
        return len(self.entries)


class FoundTables:
    """All tables by file name, copies included."""

    def __init__(self, directory: str, disk: Disk):
        self.directory = directory
        self.all: dict[str, FoundTable] = {}
        self.other_names: list[str] = []
        for name in disk.listdir(directory) if disk.is_directory(directory) else []:
            path = f"{directory}/{name}"
            if name.removesuffix(BACKUP) in _FORMS and disk.is_file(path):
                self.all[name] = _read(name, disk.read_bytes(path))
            elif name not in _BINARY:
                self.other_names.append(name)

    def names(self) -> list[str]:
        """Names of the tables, including those of which only the copy exists."""
        return sorted({name.removesuffix(BACKUP) for name in self.all})

    def used(self, name: str) -> FoundTable | None:
        """The file that a broker takes: the table, else its copy; None if there is neither."""
        for each in (name, name + BACKUP):
            if (found := self.all.get(each)) is not None and found.is_usable:
                return found
        return None

    def keys(self, name: str) -> frozenset[str] | None:
        """Keys of a table's entries; None if there is no table."""
        table = self.used(name)
        return None if table is None else frozenset(table.document.get(_FORMS[name].member, {}))

    def offsets(self) -> dict[str, dict[int, int]]:
        """Committed offsets by ``topic@group`` and queue id."""
        found: dict[str, dict[int, int]] = {}
        for name in (OFFSETS, LIGHT_OFFSETS):
            if (table := self.used(name)) is not None:
                body = _converted(table.document, ConsumerOffsetsBody)
                found.update(body.offset_table)
                found.update({key: {0: at} for key, at in (body.lmq_offset_table or {}).items()})
        return found

    def delay_offsets(self) -> dict[int, int]:
        """Offsets by delay level."""
        table = self.used(DELAY_OFFSETS)
        return _converted(table.document, DelayOffsets).offset_table if table is not None else {}


def _converted(document: object, kind: type[T]) -> T:
    return msgspec.convert(document, kind, strict=False, str_keys=True)


def _read(name: str, data: bytes) -> FoundTable:
    size = len(data) if data.strip() else 0
    if not size:
        return FoundTable(name, 0, {})
    if b"\0" in data:
        return FoundTable(name, size, {}, f"zeros at byte {data.index(0)}")
    try:
        document = parse_large_untrusted(data)
    except ProtocolError as error:
        return FoundTable(name, size, {}, str(error))
    if not isinstance(document, dict):
        return FoundTable(name, size, {}, "not a table")
    form = _FORMS[name.removesuffix(BACKUP)]
    if misfit := _misfit(form, document):
        return FoundTable(name, size, {}, misfit=misfit)
    return FoundTable(name, size, document, oddity=_oddity(form, document))


def _misfit(form: _Form, document: dict[str, Any]) -> str:
    try:
        if form.beside is not None:
            _converted(document, form.beside)
        if form.body is not None:
            _converted(document, form.body)
        if form.entry is not None:
            for value in _converted(document.get(form.member) or {}, dict[str, Any]).values():
                _converted(value, form.entry)
        if form.check is not None:
            form.check(document)
    except (msgspec.ValidationError, ProtocolError) as error:
        return str(error)
    return ""


def _oddity(form: _Form, document: dict[str, Any]) -> str:
    entries = document.get(form.member)
    if document and not isinstance(entries, dict):
        return f"there is no {form.member}"
    for key, value in (entries or {}).items():
        if form.key_field and getattr(_converted(value, form.entry), form.key_field) != key:
            return f"the entry of {key} has another name in it"
    return ""
