"""A topic's configuration: read from a broker, as fields, as Apache's text, and planned changes of its perm."""

from typing import Any

import msgspec

from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.changes import FieldChange, Step, WayBack
from rmqadmin.core.mqadmin_text import java_bool, java_map
from rmqproto.bodies.routes import TopicConfig
from rmqproto.codes import ResponseCode
from rmqproto.errors import NotFoundError, RefusedError, UsageError
from rmqproto.perm import perm_text


def plan_perm(admin: AdminClient, addr: str, topic: str, perm: int) -> tuple[Step, TopicConfig]:
    """The step for one broker, and the topic's present configuration there. NotFoundError if the broker does not know
    the topic."""
    before = read_topic(admin, addr, topic)
    if before is None:
        raise NotFoundError(f"the broker {addr} does not know the topic {topic}, though it is in the route")
    changes = [FieldChange("perm", before.perm, perm)] if before.perm != perm else []
    request = msgspec.structs.replace(before, perm=perm, attributes={})  # attributes are changes: none here
    back = WayBack("topics", {topic: {"perm": before.perm}})
    return Step(addr, "change" if changes else "keep", changes, lambda: admin.create_topic(addr, request), back), before


def topic_fields(config: TopicConfig) -> dict[str, Any]:
    fields = {
        name: getattr(config, name) for name in config.__struct_fields__ if name not in ("topic_name", "attributes")
    }
    return {**fields, **config.attributes}


def read_topic(admin: AdminClient, broker_addr: str, topic: str) -> TopicConfig | None:
    """A topic's configuration on a broker, or None if it has no such topic. Brokers before 5.0 are asked for all
    topics."""
    try:
        return admin.topic_config(broker_addr, topic)
    except RefusedError as error:
        if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return admin.all_topics(broker_addr).topic_config_table.get(topic)
        if error.code != ResponseCode.TOPIC_NOT_EXIST:
            raise
        return None


def parse_attributes(text: str | None) -> dict[str, str]:
    """``+a=b,-c`` as ``{"+a": "b", "-c": ""}``. UsageError, in Apache's words, if a sign is missing."""
    found: dict[str, str] = {}
    for part in filter(None, (text or "").strip().split(",")):
        name, equals, value = part.partition("=")
        if equals and (not name.startswith("+") or len(name) < 2 or not value):
            raise UsageError(f"add/alter attribute format is wrong: {name}", hint="Write +name=value to set one.")
        if not equals and (not name.startswith("-") or len(name) < 2):
            raise UsageError(f"delete attribute format is wrong: {name}", hint="Write -name to delete one.")
        if name in found:
            raise UsageError(f"key duplication: {name}")
        found[name] = value
    return found


def changed_attributes(before: dict[str, str], changes: dict[str, str]) -> dict[str, str]:
    """The attributes of the broker after it has applied the changes."""
    after = dict(before)
    for signed, value in changes.items():
        if signed.startswith("+"):
            after[signed[1:]] = value
        else:
            after.pop(signed[1:], None)
    return after


def topic_config_text(config: TopicConfig) -> str:
    """``TopicConfig.toString``."""
    return (
        f"TopicConfig [topicName={config.topic_name}, readQueueNums={config.read_queue_nums}, "
        f"writeQueueNums={config.write_queue_nums}, perm={perm_text(config.perm)}, "
        f"topicFilterType={config.topic_filter_type}, topicSysFlag={config.topic_sys_flag}, "
        f"order={java_bool(config.order)}, attributes={java_map(config.attributes)}]"
    )
