"""The resources of policies, and the actions on them: ``ResourceType``, ``ResourcePattern``, ``Resource`` and
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
    """The resource of a request, by its full name."""

    type: ResourceType
    name: str

    @property
    def key(self) -> str:
        return f"{self.type.value}:{self.name}"


def topic_resource(topic: str) -> Resource:
    """The resource of a topic. A retry topic belongs to its group."""
    return group_resource(topic) if topic.startswith(RETRY_PREFIX) else Resource(ResourceType.TOPIC, topic)


def group_resource(group: str) -> Resource:
    """The resource of a group, also given by the name of its retry topic."""
    return Resource(ResourceType.GROUP, group.removeprefix(RETRY_PREFIX))


class Precision(Enum):
    """How exactly a pattern names a resource, in ascending order."""

    EVERYTHING = 0
    ALL_OF_TYPE = 1
    PREFIX = 2
    NAME = 3


class ResourcePattern(NamedTuple):
    """The pattern of a policy's entry: ``Topic:orders``, ``Topic:order*``, ``Topic:*`` or ``*``."""

    type: ResourceType
    precision: Precision
    name: str = ""

    @classmethod
    def parse(cls, key: str | None) -> ResourcePattern | None:
        """A pattern from its text. None if the text is blank, or has no known type before the colon."""
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
        """If two patterns match a resource, the one with the higher rank is more exact."""
        if self.type is ResourceType.ANY:
            return 0, 0
        return self.precision.value, len(self.name) if self.precision is Precision.PREFIX else 0
