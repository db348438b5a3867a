"""mqadmin's notation, for the ``mqadmin_text`` of results: cut columns, Java's maps and their order, numbers.

Only the notation is here; commands decide the content. Source: the command classes of module tools, 5.5.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from rmqproto.bodies.base import MessageQueue
from rmqproto.java.java_hash import java_hash

K = TypeVar("K")

HASH_MAP_CAPACITY = 16
PROPERTIES_CAPACITY = 128
"""``MessageDecoder.string2messageProperties`` makes its map this large."""

PROPERTIES_TABLE_SIZE = 16
"""The initial number of buckets of ``java.util.Properties``."""

TOPIC_WIDTH, BROKER_NAME_WIDTH, CLUSTER_WIDTH = 64, 32, 20


def cut(text: str | None, width: int) -> str:
    """``UtilAll.frontStringAtLeast``: at most ``width`` characters."""
    return (text or "")[:width]


def java_bool(value: bool) -> str:
    return "true" if value else "false"


def java_text(value: Any) -> str:
    """``String.valueOf``."""
    if value is None:
        return "null"
    return java_bool(value) if isinstance(value, bool) else str(value)


def java_map(items: Mapping[str, Any]) -> str:
    """``Map.toString``, in the order given."""
    return "{" + ", ".join(f"{name}={java_text(value)}" for name, value in items.items()) + "}"


def hash_order(keys: Iterable[K], hash_of: Callable[[K], int], capacity: int = HASH_MAP_CAPACITY) -> list[K]:
    """The order in which a ``java.util.HashMap`` with initially ``capacity`` buckets returns keys inserted in the order
    given: by bucket, then by insertion."""
    found = list(keys)
    while len(found) * 4 > capacity * 3:
        capacity *= 2

    return sorted(found, key=lambda key: _spread(hash_of(key)) & (capacity - 1))


def hash_map(items: Mapping[str, Any], capacity: int = HASH_MAP_CAPACITY) -> dict[str, Any]:
    """The items as a ``java.util.HashMap`` returns them, without nulls, like fastjson."""
    return {key: items[key] for key in hash_order(items, java_hash, capacity) if items[key] is not None}


def properties_order(keys: Iterable[str]) -> list[str]:
    """The order in which ``java.util.Properties`` of Java 9 and later return keys inserted in the order given.

    They keep keys in a ConcurrentHashMap, which doubles when it is three quarters full. When a bucket is split, the
    keys after the last one that goes the other way keep their order. The keys before it are put in front of them one by
    one, which reverses their order.
    """
    size, buckets = PROPERTIES_TABLE_SIZE, [list[str]() for _ in range(PROPERTIES_TABLE_SIZE)]
    for count, key in enumerate(dict.fromkeys(keys), 1):
        buckets[_spread(java_hash(key)) & (size - 1)].append(key)
        while count * 4 >= size * 3:
            halves = [_split(bucket, size) for bucket in buckets]
            buckets = [low for low, _ in halves] + [high for _, high in halves]
            size *= 2
    return [key for bucket in buckets for key in bucket]


def _spread(code: int) -> int:
    code &= 0xFFFFFFFF
    return code ^ code >> 16


def _split(bucket: list[str], bit: int) -> tuple[list[str], list[str]]:
    """The keys whose hash lacks the bit, and those whose hash has it."""
    sides = [bool(_spread(java_hash(key)) & bit) for key in bucket]
    tail = len(bucket)
    while tail and sides[tail - 1] == sides[-1]:
        tail -= 1
    halves: tuple[list[str], list[str]] = ([], [])
    if bucket:
        halves[sides[-1]].extend(bucket[tail:])
    for key, side in zip(bucket[:tail], sides, strict=False):
        halves[side].insert(0, key)
    return halves


def copied_capacity(count: int) -> int:
    """The number of buckets of a ``java.util.HashMap`` into which another map of ``count`` keys is copied at once."""
    capacity = 1
    while capacity < int(count / 0.75 + 1):
        capacity *= 2
    return capacity


def queue_hash(queue: MessageQueue) -> int:
    """``MessageQueue.hashCode``."""
    code = 31 + java_hash(queue.broker_name)
    code = 31 * code + queue.queue_id
    return 31 * code + java_hash(queue.topic)


def properties_text(properties: Mapping[str, str]) -> str:
    """A message's properties as Java prints the map that they were decoded into."""
    return java_map({name: properties[name] for name in hash_order(properties, java_hash, PROPERTIES_CAPACITY)})


def queue_text(queue: MessageQueue) -> str:
    """``MessageQueue.toString``."""
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"


def fastjson_pretty(value: Any, indent: str = "") -> str:
    """fastjson's ``PrettyFormat``: tabs, no blank after a colon, integer keys without quotes, None left out."""
    import json  # 1 ms; only for this format

    if hasattr(value, "__struct_fields__"):
        names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
        value = {name: item for name, field in names if (item := getattr(value, field)) is not None}
    if not isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    if not value:
        return opening + closing
    inner = indent + "\t"
    if isinstance(value, dict):
        items = [
            f"{key if isinstance(key, int) else json.dumps(key)}:{fastjson_pretty(value[key], inner)}" for key in value
        ]
    else:
        items = [fastjson_pretty(item, inner) for item in value]
    return opening + "\n" + inner + f",\n{inner}".join(items) + f"\n{indent}" + closing
