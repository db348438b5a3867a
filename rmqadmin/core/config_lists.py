"""Lists of topics or groups in a JSON file: what the file says over what each broker has.

The file holds a list of configurations by Apache's names, as mqadmin takes it, or what `exportMetadata` wrote. What an
entry does not say stays as it is on a broker that knows the name; a new one gets Apache's defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from rmqadmin.core.changes import FieldChange, Step
from rmqadmin.core.topics.topic_config import changed_attributes
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.routes import TopicConfig
from rmqproto.errors import UsageError

C = TypeVar("C", TopicConfig, SubscriptionGroupConfig)

_ATTRIBUTES = "attributes"
_SIGNS = ("+", "-")


class ListKind(msgspec.Struct, Generic[C], frozen=True):
    """What there is a list of. ``table_field`` holds the entries in a file of `exportMetadata`; ``fields`` are what
    describes a change. ``words`` read the fields that people may also write in words: None for no such words."""

    config_type: type[C]
    name_field: str
    table_field: str
    fields: Callable[[C], dict[str, Any]]
    words: Mapping[str, Callable[[str], Any]] = {}


Entries = dict[str, dict[str, Any]]
"""What a file says, by name: values by Apache's names."""


def read_entries(path: str, kind: ListKind[C]) -> Entries:
    """UsageError for a file that cannot be read, and for one that holds something else."""
    try:
        found: Any = msgspec.json.decode(Path(path).read_bytes())
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise UsageError(f"{path} is no JSON: {error}") from None
    if isinstance(found, dict) and isinstance(found.get(kind.table_field), dict):
        found = list(found[kind.table_field].values())
    if not isinstance(found, list):
        raise UsageError(f"{path} holds no list", hint=f"Write a list of objects with {kind.name_field}.")
    entries: Entries = {}
    for entry in found:
        name = entry.get(kind.name_field) if isinstance(entry, dict) else None
        if not isinstance(name, str) or not name:
            raise UsageError(f"{path}: an entry has no {kind.name_field}")
        if name in entries:
            raise UsageError(f"{path}: {name} stands there twice")
        for field, read in kind.words.items():
            if isinstance(entry.get(field), str) and (value := read(entry[field])) is not None:
                entry[field] = value
        _configured(kind, entry)
        entries[name] = entry
    return entries


def _configured(kind: ListKind[C], values: Mapping[str, Any]) -> C:
    """A configuration out of values by Apache's names. UsageError for unknown names and for values of a wrong type."""
    name = values[kind.name_field]
    unknown = [field for field in values if field not in kind.config_type.__struct_encode_fields__]
    if unknown:
        known = ", ".join(kind.config_type.__struct_encode_fields__)
        raise UsageError(f"{name}: there is no field {unknown[0]}", hint=f"The fields are {known}.")
    try:
        return msgspec.convert(values, kind.config_type)
    except msgspec.ValidationError as error:
        raise UsageError(f"{name}: {error}") from None


def plan_list(
    kind: ListKind[C],
    entries: Entries,
    addr: str,
    before: Mapping[str, C],
    create: Callable[[str, list[C]], None],
    *,
    replace: bool,
) -> Step:
    """One request to one broker, with the entries that change something: Apache's broker drops a whole list as soon as
    one of its topics is as it was. ``before`` is what the broker has, by name."""
    requests: list[C] = []
    changes: list[FieldChange] = []
    for name, entry in entries.items():
        now = before.get(name)
        request, after = _wanted(kind, entry, now, replace=replace)
        old, new = {} if now is None else kind.fields(now), kind.fields(after)
        differing = [field for field in {**old, **new} if now is None or old.get(field) != new.get(field)]
        if differing:
            requests.append(request)
            was = None if now is None else {field: old.get(field) for field in differing}
            changes.append(FieldChange(name, was, {field: new.get(field) for field in differing}))
    is_new = bool(changes) and all(change.before is None for change in changes)
    action = "create" if is_new else "change" if changes else "keep"
    return Step(addr, action, changes, lambda: create(addr, requests) if requests else None)


def _wanted(kind: ListKind[C], entry: Mapping[str, Any], now: C | None, *, replace: bool) -> tuple[C, C]:
    """What to ask for, with signed attributes, and what the broker will have."""
    signed = {
        name if name.startswith(_SIGNS) else f"+{name}": value for name, value in entry.get(_ATTRIBUTES, {}).items()
    }
    base = {} if now is None or replace else msgspec.to_builtins(now)
    request = _configured(kind, {**base, **entry, _ATTRIBUTES: signed})
    kept = {} if now is None else now.attributes
    return request, msgspec.structs.replace(request, attributes=changed_attributes(kept, signed))
