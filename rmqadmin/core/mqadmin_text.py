"""mqadmin's notation, for the ``mqadmin_text`` of results: cut columns, Java's maps, numbers. What mqadmin
prints in the order of a hash map is sorted here.

Only the notation is here; commands decide the content. Source: the command classes of module tools, 5.5.0.
"""

from collections.abc import Mapping
from typing import Any

from rmqproto.bodies.base import MessageQueue

TOPIC_WIDTH, BROKER_NAME_WIDTH, CLUSTER_WIDTH = 64, 32, 20


def cut(text: str | None, width: int) -> str:
    """``UtilAll.frontStringAtLeast``: at most ``width`` characters."""
    return (text or "")[:width]


def time_or(otherwise: str, time_ms: int | None) -> str:
    """mqadmin's time, or what it writes if there is none."""
    from rmqproto.times import mqadmin_time  # compiles patterns

    return otherwise if time_ms is None or time_ms <= 0 else mqadmin_time(time_ms, milliseconds=True)


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


def properties_text(properties: Mapping[str, str]) -> str:
    """A message's properties as Java prints a map."""
    return java_map(dict(sorted(properties.items())))


def queue_text(queue: MessageQueue) -> str:
    """``MessageQueue.toString``."""
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"


def fastjson_pretty(value: Any, indent: str = "") -> str:
    """fastjson's ``PrettyFormat``: tabs, no blank after a colon, integer keys without quotes, None left out."""
    import json  # 1 ms; only for this format

    if hasattr(value, "__struct_fields__"):
        names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
        value = {name: getattr(value, field) for name, field in names}
    if not isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    if not value:
        return opening + closing
    inner = indent + "\t"
    if isinstance(value, dict):
        items = [
            f"{key if isinstance(key, int) else json.dumps(key)}:{fastjson_pretty(item, inner)}"
            for key, item in value.items()
            if item is not None
        ]
    else:
        items = [fastjson_pretty(item, inner) for item in value]
    return opening + "\n" + inner + f",\n{inner}".join(items) + f"\n{indent}" + closing
