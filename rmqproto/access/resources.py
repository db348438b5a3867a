"""What a policy is about, and what may be done with it: ``ResourceType``, ``ResourcePattern``, ``Resource`` and
``Action`` of Apache RocketMQ 5.5.0."""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import NamedTuple, TypeVar

from rmqproto.names import RETRY_PREFIX

ANY = "*"


class ResourceType(Enum):
    UNKNOWN = "Unknown"
    ANY = "Any"
    CLUSTER = "Cluster"
    NAMESPACE = "Namespace"
    TOPIC = "Topic"
    GROUP = "Group"


class Action(Enum):
    UNKNOWN = "Unknown"
    ALL = "All"
    ANY = "Any"
    PUB = "Pub"
    SUB = "Sub"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"
    GET = "Get"
    LIST = "List"


class PolicyDecision(StrEnum):
    ALLOW = "Allow"
    DENY = "Deny"


class PolicyType(Enum):
    CUSTOM = "Custom"
    DEFAULT = "Default"


E = TypeVar("E", bound=Enum)


def by_name(kind: type[E], name: str | None) -> E | None:
    """The member of that name, in any case; None for an unknown one, as in Java's ``getByName``."""
    wanted = (name or "").lower()
    return next((member for member in kind if member.value.lower() == wanted), None)


class Resource(NamedTuple):
    """One thing by its full name: what a request is about."""

    type: ResourceType
    name: str

    @property
    def key(self) -> str:
        return f"{self.type.value}:{self.name}"


def topic_resource(topic: str) -> Resource:
    """A retry topic belongs to its group."""
    return group_resource(topic) if topic.startswith(RETRY_PREFIX) else Resource(ResourceType.TOPIC, topic)


def group_resource(group: str) -> Resource:
    """Also by the name of its retry topic."""
    return Resource(ResourceType.GROUP, group.removeprefix(RETRY_PREFIX))


class Precision(Enum):
    """How exactly a pattern names a resource, the least exact first."""

    EVERYTHING = 0
    ALL_OF_TYPE = 1
    PREFIX = 2
    NAME = 3


class ResourcePattern(NamedTuple):
    """What an entry of a policy names: ``Topic:orders``, ``Topic:order*``, ``Topic:*`` or ``*``."""

    type: ResourceType
    precision: Precision
    name: str = ""

    @classmethod
    def parse(cls, key: str | None) -> ResourcePattern | None:
        """None for what names no resource: a blank text, or one without a known type before the colon."""
        if not key or not key.strip():
            return None
        if key == ANY:
            return cls(ResourceType.ANY, Precision.EVERYTHING)
        type_name, _, name = key.partition(":")
        type = by_name(ResourceType, type_name)
        if type is None:
            return None
        if name == ANY:
            return cls(type, Precision.EVERYTHING if type is ResourceType.ANY else Precision.ALL_OF_TYPE)
        if name.endswith(ANY):
            return cls(type, Precision.PREFIX, name.partition(ANY)[0])
        return cls(type, Precision.NAME, name)

    @property
    def key(self) -> str:
        if self.type is ResourceType.ANY:
            return ANY
        star = "" if self.precision is Precision.NAME else ANY
        return f"{self.type.value}:{self.name}{star}"

    def matches(self, resource: Resource) -> bool:
        if self.type is ResourceType.ANY:
            return True
        if self.type is not resource.type:
            return False
        if self.precision is Precision.NAME:
            return resource.name == self.name
        return resource.name.startswith(self.name)

    @property
    def rank(self) -> tuple[int, int]:
        """Of two patterns that match a resource, the one of the higher rank names it more exactly."""
        if self.type is ResourceType.ANY:
            return 0, 0
        return self.precision.value, len(self.name) if self.precision is Precision.PREFIX else 0
