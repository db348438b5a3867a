"""Attributes of topics and groups: their names, their values, and how a request changes them
(``AttributeParser``, ``AttributeUtil``, ``TopicAttributes``, ``SubscriptionGroupAttributes``, 5.5.0): for brokers,
which refuse what is against them, and for tools, which foretell that."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rmqproto.codes import MESSAGE_TYPE, TopicMessageType
from rmqproto.errors import ProtocolError
from rmqproto.java.java_numbers import LONG_MAX

Check = Callable[[str], str | None]
"""Why a value is refused, in Apache's words if it has some. None if it is accepted."""


@dataclass(frozen=True, slots=True)
class Attribute:
    check: Check
    is_changeable: bool = True


def _one_of(*values: str) -> Check:
    """Accepts ``values``, which are in the order in which Apache's hash set prints them."""

    def check(value: str) -> str | None:
        return None if value in values else f"value is not in set: [{', '.join(values)}]"

    return check


def _between(low: int, high: int) -> Check:
    def check(value: str) -> str | None:
        if not re.fullmatch(r"[-+]?[0-9]{1,19}", value):
            return f'For input string: "{value}"'
        return None if low <= int(value) <= high else f"value is not in range({low}, {high})"

    return check


def _boolean(value: str) -> str | None:
    return None if value.lower() in ("true", "false") else "boolean attribute format is wrong."


def _anything(value: str) -> str | None:
    return None


QUEUE_TYPE, CLEANUP_POLICY = "queue.type", "cleanup.policy"
TOPIC_ATTRIBUTES: Mapping[str, Attribute] = {
    MESSAGE_TYPE: Attribute(_one_of(*TopicMessageType)),
    QUEUE_TYPE: Attribute(_one_of("SimpleCQ", "BatchCQ"), is_changeable=False),
    CLEANUP_POLICY: Attribute(_one_of("DELETE", "COMPACTION"), is_changeable=False),
    "reserve.time": Attribute(_between(-1, LONG_MAX)),
    "lite.topic.expiration": Attribute(_between(-1, 43_200)),
}

GROUP_ATTRIBUTES: Mapping[str, Attribute] = {
    "priority.factor": Attribute(_between(0, 100)),
    "lite.bind.topic": Attribute(_anything),
    "lite.sub.model": Attribute(_one_of("Shared", "Exclusive")),
    "lite.sub.reset.offset.exclusive": Attribute(_boolean),
    "lite.sub.reset.offset.unsubscribe": Attribute(_boolean),
    "lite.sub.client.quota": Attribute(_between(-1, LONG_MAX)),
    "lite.sub.client.max.event.cnt": Attribute(_between(10, LONG_MAX)),
    "lite.sub.wildcard": Attribute(_anything),
}


def parse_untrusted(text: str | None) -> dict[str, str]:
    """Parses ``+name=value,-name`` as changes: the names keep their signs, and a removal has an empty value. Raises
    ProtocolError, with Apache's remark, for any other form."""
    changes: dict[str, str] = {}
    for item in (text or "").split(","):
        if not item.strip():
            continue
        name, is_setting, value = item.partition("=")
        if is_setting and not name.startswith("+"):
            raise ProtocolError(f"add/alter attribute format is wrong: {name}")
        if not is_setting and not name.startswith("-"):
            raise ProtocolError(f"delete attribute format is wrong: {name}")
        if name in changes:
            raise ProtocolError(f"key duplication: {name}")
        changes[name] = value
    return changes


def alter(
    known: Mapping[str, Attribute], current: Mapping[str, str] | None, changes: Mapping[str, str]
) -> dict[str, str]:
    """The attributes after ``changes``; ``current`` None means that their owner is being created.

    Raises ProtocolError, with Apache's remark, if one change is not possible. Then no change is made.
    """
    altered = dict(current or {})
    seen: set[str] = set()
    for signed_name, value in changes.items():
        sign, name = signed_name[:1], signed_name[1:]
        if not name or name[0] in "+-":
            raise ProtocolError("kv string format wrong.")
        if name in seen:
            raise ProtocolError(f"alter duplication key. key: {name}")
        seen.add(name)
        _check_sign(sign, name, current)
        _check_change(known, name, value, sign == "-", is_new=current is None)
        if sign == "-":
            del altered[name]
        else:
            altered[name] = value
    return altered


def _check_sign(sign: str, name: str, current: Mapping[str, str] | None) -> None:
    if current is None and sign != "+":
        raise ProtocolError(f"only add attribute is supported while creating topic. key: {name}")
    if sign not in ("+", "-"):
        raise ProtocolError(f"wrong format key: {name}")
    if sign == "-" and name not in (current or {}):
        raise ProtocolError(f"attempt to delete a nonexistent key: {name}")


def _check_change(known: Mapping[str, Attribute], name: str, value: str, is_removal: bool, *, is_new: bool) -> None:
    attribute = known.get(name)
    if attribute is None:
        raise ProtocolError(f"unsupported key: {name}")
    if not is_new and not attribute.is_changeable:
        raise ProtocolError(f"attempt to update an unchangeable attribute. key: {name}")
    problem = None if is_removal else attribute.check(value)
    if problem is not None:
        raise ProtocolError(problem)
