"""The desired state as a file describes it: topics, groups, users and ACLs by name.

    topics:
      OrderTopic:
        readQueueNums: 8            fields by Apache's names; unset fields stay as they are
        perm: RW
        attributes: {message.type: FIFO}
        brokers:                    only these brokers, by name or address, each with its differences
          broker-a: {}
          broker-b: {readQueueNums: 4}
      OldTopic: {absent: true}      deletes the topic
    groups:
      OrderGroup: {retryMaxTimes: 3}

``documents`` reads the text; ``kinds`` knows the fields of each section.
"""

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from rmqadmin.core.files import decoded
from rmqadmin.core.manifests.kinds import KINDS, ObjectKind
from rmqadmin.core.names import unknown_field
from rmqproto.errors import UsageError

SIZE_MAX_BYTES = 64 * 1024 * 1024
"""Enough for a hundred thousand topics. A larger file is not a manifest."""

STANDARD_INPUT = "-"


class TextFormat(StrEnum):
    YAML = "yaml"
    JSON = "json"


def read_documents(file: str) -> list[dict[str, Any]]:
    """The documents of a file, or of standard input for ``-``: one of JSON, or any number of YAML. UsageError, with the
    place, for text that cannot be read and for a document that is not an object."""
    where = "standard input" if file == STANDARD_INPUT else file
    try:
        if file == STANDARD_INPUT:
            data = sys.stdin.buffer.read(SIZE_MAX_BYTES + 1)
        else:
            with Path(file).open("rb") as opened:
                data = opened.read(SIZE_MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read {where}: {error.strerror}") from None
    if len(data) > SIZE_MAX_BYTES:
        raise UsageError(f"{where} is longer than {SIZE_MAX_BYTES:,} bytes")
    return parse_documents(decoded(data, where), where)


def parse_documents(text: str, where: str) -> list[dict[str, Any]]:
    """Like ``read_documents``, from text."""
    found = _of_json(text, where) if text.lstrip()[:1] in ("{", "[") else _of_yaml(text, where)
    for document in found:
        if not isinstance(document, dict):
            raise UsageError(f"{where} holds no object", hint="Write for example topics: {OrderTopic: {perm: RW}}")
    return found


def _of_json(text: str, where: str) -> list[Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise UsageError(f"{where}: {twice} is there twice")
        return found

    try:
        return [json.loads(text, object_pairs_hook=unique)]
    except json.JSONDecodeError as error:
        raise UsageError(f"{where}:{error.lineno}: this is not JSON: {error.msg}") from None
    except RecursionError:
        raise UsageError(f"{where}: this is nested too deeply") from None


def _of_yaml(text: str, where: str) -> list[Any]:
    import yaml  # 12 ms

    try:
        return [document for document in yaml.load_all(text, Loader=_loader()) if document is not None]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = where if mark is None else f"{where}:{mark.line + 1}"
        has_tab = mark is not None and text.startswith("\t", text.rfind("\n", 0, mark.index) + 1)
        hint = "The line begins with a tab: YAML takes only blanks there." if has_tab else None
        raise UsageError(f"{place}: {error.problem}", hint=hint) from None
    except yaml.YAMLError as error:
        raise UsageError(f"{where}: {' '.join(str(error).split())}") from None
    except (RecursionError, ValueError) as error:  # ValueError: a date that does not exist
        raise UsageError(f"{where}: {error}") from None


@cache
def _loader() -> Any:
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C version reads 20 times as fast

    class ManifestLoader(base):  # type: ignore[misc]
        def construct_mapping(self, node: Any, deep: bool = False) -> dict[str, Any]:
            said = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            for key, _ in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    raise yaml.constructor.ConstructorError(None, None, "a name is one word", key.start_mark)
                if said.count(key.value) > 1:
                    problem = f"{key.value} is there twice"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            self.flatten_mapping(node)  # << merges the fields of an anchor
            return {key.value: self.construct_object(value, deep=deep) for key, value in node.value}

    def construct_number(_: Any, node: Any) -> int:
        """Numbers that only YAML 1.1 knows would be others than a person reads: 010 is 8 there, 1:30 is 90."""
        if not re.fullmatch("[-+]?(0|[1-9][0-9]*)", node.value):
            problem = f"{node.value} is not a decimal number; a text stands in quotes"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        return int(node.value)

    ManifestLoader.add_constructor("tag:yaml.org,2002:int", construct_number)
    return ManifestLoader


def text_of(document: Mapping[str, Any], format: TextFormat) -> str:
    """The text that ``parse_documents`` reads back: ASCII without control characters, ending with a line feed."""
    if format is TextFormat.JSON:
        return json.dumps(document, indent=2) + "\n"
    import yaml

    dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(document, Dumper=dumper, sort_keys=False, explicit_start=True)
    return text


COMMAND, VERSION = "_command", "_version"
"""Fields that every document we write carries; a manifest written by hand need not have them."""

MANIFEST_VERSION = 1

_BROKERS, _ABSENT, _ATTRIBUTES = "brokers", "absent", "attributes"
_ITEMS = "items"


class ManifestEntry(msgspec.Struct, frozen=True):
    """One object. ``brokers``: its differences on each that has it; None if all have it, without differences."""

    values: dict[str, Any]
    brokers: dict[str, dict[str, Any]] | None = None

    def on(self, broker: str) -> dict[str, Any] | None:
        """The object's fields on a broker that ``brokers`` names, or on any; None if it must not exist there."""
        own = (self.brokers or {}).get(broker, {})
        found = {**self.values, **own}
        if _ATTRIBUTES in self.values and _ATTRIBUTES in own:
            found[_ATTRIBUTES] = {**self.values[_ATTRIBUTES], **own[_ATTRIBUTES]}
        return None if found.pop(_ABSENT, False) else found


Manifest = dict[str, dict[str, ManifestEntry]]
"""Entries by section and name. A missing section says nothing; an empty one says that there are no such objects."""


def read_manifest(files: Sequence[str]) -> Manifest:
    """The combined entries of several files. UsageError, with file, object and field, for an invalid manifest."""
    found: Manifest = {}
    for file in files:
        for document in read_documents(file):
            for section, entries in manifest_of(document, file).items():
                known = found.setdefault(section, {})
                twice = sorted(known.keys() & entries.keys())
                if twice:
                    raise UsageError(f"{file}: {section}.{twice[0]} is there twice")
                known.update(entries)
    if not found:
        raise UsageError(f"{', '.join(files)} has no section", hint="Write a section: topics, groups, users or acls.")
    return found


def manifest_of(document: Mapping[str, Any], where: str) -> Manifest:
    """The entries of one document. UsageError."""
    kinds = {kind.section: kind for kind in KINDS}
    if document.get(VERSION, MANIFEST_VERSION) != MANIFEST_VERSION:
        raise UsageError(
            f"{where}: {VERSION} {document[VERSION]!r} is not known", hint=f"This program reads {MANIFEST_VERSION}."
        )
    found: Manifest = {}
    for section, entries in document.items():
        if section in (COMMAND, VERSION):
            continue
        if section == _ITEMS and COMMAND in document:
            raise UsageError(
                f"{where}: these are rows of a command's output",
                hint="`rmqadmin export` with --format json writes JSON for apply.",
            )
        if section not in kinds:
            raise unknown_field(where, section, [*kinds])
        if not isinstance(entries, dict):
            raise UsageError(f"{where}: {section} must be objects by name", hint=f"Write {section}: {{NAME: {{…}}}}.")
        found[section] = {name: _entry(kinds[section], name, said, where) for name, said in entries.items()}
    return found


def _entry(kind: ObjectKind[Any], name: str, said: Any, where: str) -> ManifestEntry:
    place = f"{where}: {kind.section}.{name}"
    values = {} if said is None else said
    if not isinstance(values, dict):
        raise UsageError(f"{place} is not an object", hint=f"The fields are {', '.join(kind.fields)}.")
    values = dict(values)
    brokers = _brokers(values.pop(_BROKERS, None), place)
    try:
        base = _checked(kind, name, values)
        own = None if brokers is None else {each: _checked(kind, name, its) for each, its in brokers.items()}
    except UsageError as error:
        raise UsageError(f"{where}: {kind.section}.{error}", hint=error.hint) from None
    return ManifestEntry(base, own)


def _checked(kind: ObjectKind[Any], name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The checked fields. UsageError, which begins with the name."""
    fields = dict(values)
    absent = fields.pop(_ABSENT, False)
    if not isinstance(absent, bool):
        raise UsageError(f"{name}: {_ABSENT} must be true or false")
    for field in fields:
        if field not in kind.fields:
            raise unknown_field(name, field, [*kind.fields, _BROKERS, _ABSENT])
    return {**kind.checked(name, fields), **({_ABSENT: True} if absent else {})}


def _brokers(said: Any, place: str) -> dict[str, dict[str, Any]] | None:
    if said is None:
        return None
    if isinstance(said, list) and all(isinstance(each, str) for each in said):
        said = {each: {} for each in said}
    if not isinstance(said, dict) or not said:
        raise UsageError(
            f"{place}: {_BROKERS} must name brokers", hint="Write brokers: [broker-a], or {broker-a: {…}}."
        )
    found = {broker: {} if own is None else own for broker, own in said.items()}
    wrong = [broker for broker, own in found.items() if not isinstance(own, dict)]
    if wrong:
        raise UsageError(f"{place}: {_BROKERS}.{wrong[0]} is not an object")
    return found


def document_of(manifest: Manifest, command: str) -> dict[str, Any]:
    """A document that ``manifest_of`` reads back."""
    head: dict[str, Any] = {COMMAND: command, VERSION: MANIFEST_VERSION}
    return head | {
        section: {
            name: entry.values if entry.brokers is None else {**entry.values, _BROKERS: entry.brokers}
            for name, entry in entries.items()
        }
        for section, entries in manifest.items()
    }


def absent() -> dict[str, Any]:
    """The fields of an object that must not exist."""
    return {_ABSENT: True}


def joined(by_broker: Mapping[str, dict[str, Any]], brokers: Iterable[str]) -> ManifestEntry:
    """One entry for an object that may differ between brokers: the first broker's form, and the differences on the
    others. ``brokers`` are all brokers; an object that is equal on all of them names none."""
    first = next(iter(by_broker.values()))
    attributes = [dict(each.get(_ATTRIBUTES, {})) for each in by_broker.values()]
    shared = {name: value for name, value in attributes[0].items() if all(a.get(name) == value for a in attributes)}
    base = {name: value for name, value in first.items() if name != _ATTRIBUTES}
    if shared:
        base[_ATTRIBUTES] = shared
    own = {}
    for broker, values in by_broker.items():
        differing = {name: value for name, value in values.items() if name != _ATTRIBUTES and base.get(name) != value}
        rest = {name: value for name, value in values.get(_ATTRIBUTES, {}).items() if name not in shared}
        own[broker] = {**differing, **({_ATTRIBUTES: rest} if rest else {})}
    is_everywhere = set(by_broker) == set(brokers)
    return ManifestEntry(base, None if is_everywhere and not any(own.values()) else own)
