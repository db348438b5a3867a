"""``--seed FILE``: topics, groups and messages that exist when the server is ready, as YAML or JSON (docs/testing.md).

Unknown content is refused, with its line and its place in the file: a half-applied seed would make a test pass, or
fail, for the wrong reason. Only the form of the file is checked here; the broker checks names and limits.
"""

from __future__ import annotations

import base64
import binascii
import difflib
import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml

from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.routes import TopicConfig
from rmqproto.errors import UsageError
from rmqproto.message import properties as props

T = TypeVar("T")

# PyYAML's C loader, if there is one: a large seed takes a tenth of the time.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True)
class SeedTopic:
    """``changes`` are attributes with their signs, as a request has them."""

    line: int
    config: TopicConfig
    changes: dict[str, str]


@dataclass(frozen=True, slots=True)
class SeedGroup:
    """Attributes carry signs, as in a request."""

    line: int
    config: SubscriptionGroupConfig


@dataclass(frozen=True, slots=True)
class SeedMessage:
    """``queue_id`` -1 leaves the choice to the broker."""

    line: int
    topic: str
    queue_id: int
    body: bytes
    properties: dict[str, str]


@dataclass(frozen=True, slots=True)
class Seed:
    path: str
    topics: list[SeedTopic]
    groups: list[SeedGroup]
    messages: list[SeedMessage]

    def error(self, line: int, text: str) -> UsageError:
        return UsageError(f"--seed {self.path}, line {line}: {text}")


def read_seed(path: str) -> Seed:
    """UsageError if the file cannot be read or has unknown content."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"--seed {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"--seed {path}: {error.reason} at byte {error.start}: the file must be UTF-8") from None
    # JSON allows tabs between tokens; YAML does not.
    text = text.replace("\t", " ") if path.endswith(".json") else text
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        raise UsageError(f"--seed {path}{line}: {getattr(error, 'problem', None) or error}") from None
    return _SeedReader(path).seed(root)


class _SeedReader:
    """Each method takes a node and its place, such as ``topics.orders.perm``."""

    def __init__(self, path: str):
        self._seed = Seed(path, [], [], [])

    def seed(self, root: yaml.Node | None) -> Seed:
        found = self._members(root, "", ("topics", "groups", "messages")) if root is not None else {}
        if "topics" in found:
            for name, node, settings in self._named(found["topics"], "topics"):
                self._seed.topics.append(self._topic(name, node, settings))
        if "groups" in found:
            for name, node, settings in self._named(found["groups"], "groups"):
                self._seed.groups.append(self._group(name, node, settings))
        if "messages" in found:
            for at, node in enumerate(self._items(found["messages"], "messages")):
                self._seed.messages.append(self._message(node, f"messages[{at}]"))
        return self._seed

    def _named(self, node: yaml.Node, where: str) -> Iterator[tuple[str, yaml.Node, yaml.Node | None]]:
        """Yields name, its node, and settings (a mapping) or None (a list of names)."""
        if isinstance(node, yaml.SequenceNode):
            for at, item in enumerate(node.value):
                yield self._text(item, f"{where}[{at}]"), item, None
            return
        for key, value in self._pairs(node, where):
            yield key.value, key, None if value.tag == f"{_TAG}null" else value

    def _topic(self, name: str, at: yaml.Node, settings: yaml.Node | None) -> SeedTopic:
        where = f"topics.{name}"
        numbers = ("queue_nums", "read_queue_nums", "write_queue_nums", "perm")
        found = self._members(settings, where, (*numbers, "order", "message_type", "attributes"))
        values: dict[str, Any] = {key: self._int(found[key], f"{where}.{key}") for key in numbers if key in found}
        queue_nums = values.pop("queue_nums", 8)
        values = {"read_queue_nums": queue_nums, "write_queue_nums": queue_nums, **values}
        if "order" in found:
            values["order"] = self._bool(found["order"], f"{where}.order")
        changes = self._attributes(found, where)
        if "message_type" in found:
            changes["+message.type"] = self._text(found["message_type"], f"{where}.message_type")
        return SeedTopic(_line(at), TopicConfig(topic_name=name, **values), changes)

    def _group(self, name: str, at: yaml.Node, settings: yaml.Node | None) -> SeedGroup:
        where = f"groups.{name}"
        numbers = ("retry_max_times", "retry_queue_nums", "consume_timeout_minute")
        switches = ("consume_enable", "consume_broadcast_enable", "consume_message_orderly")
        found = self._members(settings, where, (*numbers, *switches, "attributes"))
        values: dict[str, Any] = {key: self._int(found[key], f"{where}.{key}") for key in numbers if key in found}
        values |= {key: self._bool(found[key], f"{where}.{key}") for key in switches if key in found}
        changes = self._attributes(found, where)
        return SeedGroup(_line(at), SubscriptionGroupConfig(group_name=name, attributes=changes, **values))

    def _attributes(self, found: dict[str, yaml.Node], where: str) -> dict[str, str]:
        if "attributes" not in found:
            return {}
        where = f"{where}.attributes"
        pairs = self._pairs(found["attributes"], where)
        return {f"+{key.value}": self._text(value, f"{where}.{key.value}") for key, value in pairs}

    def _message(self, node: yaml.Node, where: str) -> SeedMessage:
        bodies = {"body": self._text_body, "json": self._json_body, "base64": self._base64_body}
        found = self._members(node, where, ("topic", *bodies, "tags", "keys", "properties", "queue_id"))
        if "topic" not in found:
            raise self._error(node, where, "has no topic")
        given = [kind for kind in bodies if kind in found]
        if len(given) != 1:
            raise self._error(node, where, f"needs one of {', '.join(bodies)}")
        place = f"{where}.properties"
        pairs = self._pairs(found["properties"], place) if "properties" in found else []
        properties = {key.value: self._text(value, f"{place}.{key.value}") for key, value in pairs}
        if "tags" in found:
            properties[props.TAGS] = self._text(found["tags"], f"{where}.tags")
        if "keys" in found:
            properties[props.KEYS] = self._keys(found["keys"], f"{where}.keys")
        for name, value in properties.items():
            if not name or any(separator in name + value for separator in "\x00\x01\x02"):
                raise self._error(node, where, f"property {name!r}: it is empty or holds a separator of properties")
        return SeedMessage(
            line=_line(node),
            topic=self._text(found["topic"], f"{where}.topic"),
            queue_id=self._int(found["queue_id"], f"{where}.queue_id") if "queue_id" in found else -1,
            body=bodies[given[0]](found[given[0]], f"{where}.{given[0]}"),
            properties=properties,
        )

    def _keys(self, node: yaml.Node, where: str) -> str:
        items = node.value if isinstance(node, yaml.SequenceNode) else [node]
        return " ".join(self._text(item, where) for item in items)

    def _text_body(self, node: yaml.Node, where: str) -> bytes:
        return self._text(node, where).encode()

    def _json_body(self, node: yaml.Node, where: str) -> bytes:
        try:
            value = yaml.SafeLoader("").construct_document(node)
            return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        except (yaml.YAMLError, TypeError, ValueError) as error:
            raise self._error(node, where, f"is not JSON: {error}") from None

    def _base64_body(self, node: yaml.Node, where: str) -> bytes:
        try:
            return base64.b64decode("".join(self._text(node, where).split()), validate=True)
        except (binascii.Error, ValueError) as error:
            raise self._error(node, where, f"is not base64: {error}") from None

    # --- nodes -------------------------------------------------------------------------------------------------------

    def _members(self, node: yaml.Node | None, where: str, known: Collection[str]) -> dict[str, yaml.Node]:
        """The members of a mapping, each of which must be known; none for an empty node."""
        found = {}
        for key, value in self._pairs(node, where) if node is not None else ():
            if key.value not in known:
                near = difflib.get_close_matches(key.value, known, n=1)
                meant = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
                raise self._error(key, f"{where}.{key.value}".lstrip("."), f"is not known; {meant}")
            found[key.value] = value
        return found

    def _pairs(self, node: yaml.Node, where: str) -> list[tuple[yaml.ScalarNode, yaml.Node]]:
        if not isinstance(node, yaml.MappingNode):
            raise self._error(node, where or "the file", "must be names with values (a mapping)")
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._error(key, where, "a name must be text")
            if key.value in seen:
                raise self._error(key, f"{where}.{key.value}".lstrip("."), "is there twice")
            seen.add(key.value)
        return list(node.value)

    def _items(self, node: yaml.Node, where: str) -> list[yaml.Node]:
        if not isinstance(node, yaml.SequenceNode):
            raise self._error(node, where, "must be a list")
        return list(node.value)

    def _text(self, node: yaml.Node, where: str) -> str:
        """The text as written: a number needs no quotes."""
        if not isinstance(node, yaml.ScalarNode) or node.tag == f"{_TAG}null":
            raise self._error(node, where, "must be text")
        return str(node.value)

    def _int(self, node: yaml.Node, where: str) -> int:
        return self._scalar(node, where, "int", lambda text: int(text, 10), "must be a whole number")

    def _bool(self, node: yaml.Node, where: str) -> bool:
        return self._scalar(node, where, "bool", {"true": True, "false": False}.__getitem__, "must be true or false")

    def _scalar(self, node: yaml.Node, where: str, tag: str, parse: Callable[[str], T], need: str) -> T:
        if isinstance(node, yaml.ScalarNode) and node.tag == _TAG + tag:
            try:
                return parse(node.value.lower())
            except (ValueError, KeyError):
                pass
        raise self._error(node, where, need)

    def _error(self, node: yaml.Node, where: str, text: str) -> UsageError:
        return self._seed.error(_line(node), f"{where}: {text}")


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
