"""Configurations of topics and groups: as fields and as Apache's text; what a change does on each broker; and lists of
them from files.

The file holds a list of configurations by Apache's names, as mqadmin takes it, or the output of `exportMetadata`.
Fields that an entry leaves out stay as they are on a broker that knows the name; a new topic or group gets Apache's
defaults.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec

from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.changes import KEEP, FieldChange, Step, WayBack, action, differences
from rmqadmin.core.files import read_text
from rmqadmin.core.mqadmin_text import java_bool, java_map, java_text
from rmqadmin.core.names import check_nested, unknown_field
from rmqadmin.core.units import parse_perm, perm_of_letters
from rmqproto.attributes import GROUP_ATTRIBUTES, TOPIC_ATTRIBUTES, Attribute, alter
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.routes import QUEUE_NUMS_MAX, TopicConfig
from rmqproto.codes import ResponseCode, perm_text
from rmqproto.errors import NotFoundError, ProtocolError, RefusedError, UsageError
from rmqproto.names import SYSTEM_TOPIC_PROBLEM, group_problem, is_system_topic, topic_problem

C = TypeVar("C", TopicConfig, SubscriptionGroupConfig)

_ATTRIBUTES = "attributes"
_SIGNS = ("+", "-")


def plan_perm(admin: AdminClient, addr: str, topic: str, perm: int) -> tuple[Step, TopicConfig]:
    """The step for one broker, and the topic's configuration there now. NotFoundError if it does not know the topic."""
    before = read_topic(admin, addr, topic)
    if before is None:
        raise NotFoundError(f"the broker {addr} does not know the topic {topic}, though it is in the route")
    request = msgspec.structs.replace(before, perm=perm, attributes={})  # attributes are changes: none here
    step = plan_config(TOPICS, addr, topic, before, request, admin.create_topic)
    return msgspec.structs.replace(step, undo=WayBack("topics", {topic: {"perm": before.perm}})), before


def topic_fields(config: TopicConfig) -> dict[str, Any]:
    fields = {
        name: getattr(config, name) for name in config.__struct_fields__ if name not in ("topic_name", "attributes")
    }
    return {**fields, **config.attributes}


def read_topic(admin: AdminClient, broker_addr: str, topic: str) -> TopicConfig | None:
    """A topic's configuration on a broker; None if there is none. Brokers before 5.0 are asked for all topics."""
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


def group_fields(config: SubscriptionGroupConfig) -> dict[str, Any]:
    """The fields that describe a change of a group: its settings and attributes."""
    names = [name for name in config.__struct_fields__ if name not in ("group_name", "attributes")]
    return {**{name: msgspec.to_builtins(getattr(config, name)) for name in names}, **config.attributes}


def group_config_text(config: SubscriptionGroupConfig) -> str:
    """``SubscriptionGroupConfig.toString``."""
    fields = group_config_fields(config)
    return "SubscriptionGroupConfig" + java_map({name: java_text(value) for name, value in fields.items()})


def group_config_fields(config: SubscriptionGroupConfig) -> dict[str, Any]:
    """A group's configuration by Java's names, in Java's order, with values that are not plain as Java writes them."""
    policy = config.group_retry_policy
    return {
        "groupName": config.group_name,
        "consumeEnable": config.consume_enable,
        "consumeFromMinEnable": config.consume_from_min_enable,
        "consumeBroadcastEnable": config.consume_broadcast_enable,
        "consumeMessageOrderly": config.consume_message_orderly,
        "retryQueueNums": config.retry_queue_nums,
        "retryMaxTimes": config.retry_max_times,
        "groupRetryPolicy": "GroupRetryPolicy" + java_map({
            "type": policy.type,
            "exponentialRetryPolicy": _policy_text("ExponentialRetryPolicy", policy.exponential_retry_policy),
            "customizedRetryPolicy": _policy_text("CustomizedRetryPolicy", policy.customized_retry_policy),
        }),
        "brokerId": config.broker_id,
        "whichBrokerWhenConsumeSlowly": config.which_broker_when_consume_slowly,
        "notifyConsumerIdsChangedEnable": config.notify_consumer_ids_changed_enable,
        "groupSysFlag": config.group_sys_flag,
        "consumeTimeoutMinute": config.consume_timeout_minute,
        "subscriptionDataSet": config.subscription_data_set,
        "attributes": java_map(config.attributes),
    }  # fmt: skip


def _policy_text(name: str, policy: dict[str, Any] | None) -> str | None:
    return None if policy is None else name + java_map(policy)


class ListKind(msgspec.Struct, Generic[C], frozen=True):
    """A kind of object that there are lists of. ``section`` holds the entries in a file for `apply`, ``table_field`` in
    one of `exportMetadata`. ``fields`` describe a change. ``name_problem`` and ``attributes``: the rules of brokers.
    ``words`` parse the fields that people may also write in words; None for a text that is not such a word."""

    config_type: type[C]
    section: str
    name_field: str
    table_field: str
    fields: Callable[[C], dict[str, Any]]
    name_problem: Callable[[str], str | None]
    attributes: Mapping[str, Attribute]
    words: Mapping[str, Callable[[str], Any]] = {}


def _system_topic_problem(topic: str) -> str | None:
    return SYSTEM_TOPIC_PROBLEM.format(topic) if is_system_topic(topic) else None


def _topic_problem(topic: str) -> str | None:
    return topic_problem(topic) or _system_topic_problem(topic)


TOPICS = ListKind(
    TopicConfig, "topics", "topicName", "topicConfigTable", topic_fields, _topic_problem, TOPIC_ATTRIBUTES,
    {"perm": perm_of_letters},
)  # fmt: skip
GROUPS = ListKind(
    SubscriptionGroupConfig, "groups", "groupName", "subscriptionGroupTable", group_fields, group_problem,
    GROUP_ATTRIBUTES,
)  # fmt: skip

_COUNTS = ("readQueueNums", "writeQueueNums", "retryQueueNums")
Entries = dict[str, dict[str, Any]]
"""The entries of a file by name: values by Apache's names."""


def read_entries(path: str, kind: ListKind[C]) -> Entries:
    """Reads the entries. UsageError for a file that cannot be read or holds something else."""
    text = read_text(path)
    if not text.strip():
        raise UsageError(f"{path} is empty", hint=f"Write a list of objects with {kind.name_field}.")
    try:
        found: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON: {error}") from None
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
            raise UsageError(f"{path}: {name} is there twice")
        entries[name] = checked_entry(kind, entry)
    return entries


def checked_entry(kind: ListKind[C], entry: Mapping[str, Any]) -> dict[str, Any]:
    """The entry with numbers in place of words. UsageError, which begins with its name, for what cannot be."""
    found = dict(entry)
    for field, read in kind.words.items():
        if isinstance(found.get(field), str) and (value := read(found[field])) is not None:
            found[field] = value
    check_nested(str(found[kind.name_field]), found, kind.config_type)
    _configured(kind, found)
    negative = next((field for field in _COUNTS if isinstance(found.get(field), int) and found[field] < 0), None)
    if negative is not None:  # Apache's brokers keep it
        raise UsageError(f"{found[kind.name_field]}: {negative} is {found[negative]}, but the least is 0")
    if isinstance(found.get("perm"), int):  # brokers accept any number
        try:
            parse_perm(str(found["perm"]))
        except UsageError as error:
            raise UsageError(f"{found[kind.name_field]}: {error}", hint=error.hint) from None
    return found


def _configured(kind: ListKind[C], values: Mapping[str, Any]) -> C:
    """A configuration from values by Apache's names. UsageError for unknown names and for values of a wrong type."""
    name = values[kind.name_field]
    unknown = [field for field in values if field not in kind.config_type.__struct_encode_fields__]
    if unknown:
        raise unknown_field(name, unknown[0], kind.config_type.__struct_encode_fields__)
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
    warn: Callable[[C | None, C], list[str]] = lambda _before, _after: [],
) -> Step:
    """Plans one request to one broker, with only the entries that change something: Apache's broker drops a whole list
    if one of its topics is unchanged. ``before`` is what the broker has, by name. ``warn`` says what the user should
    know of one change."""
    requests: list[C] = []
    changes: list[FieldChange] = []
    warnings: list[str] = []
    foretold: list[RefusedError] = []
    way_back = WayBack(kind.section)
    for name, entry in entries.items():
        now = before.get(name)
        request = wanted(kind, entry, now, replace=replace)
        after = after_request(now, request)
        old, new = {} if now is None else kind.fields(now), kind.fields(after)
        differing = [field for field in {**old, **new} if now is None or old.get(field) != new.get(field)]
        if differing:
            requests.append(request)
            warnings += warn(now, after)
            foretold += _foretold(kind, addr, name, now, request)
            way_back.entries[name] = None if now is None else entry_back(kind, now, after)
            was = None if now is None else {field: old.get(field) for field in differing}
            changes.append(FieldChange(name, was, {field: new.get(field) for field in differing}))
    is_new = bool(changes) and all(change.before is None for change in changes)
    act = partial(create, addr, requests) if requests else lambda: None
    return Step(
        addr, action(None if is_new else before, changes), changes, act, way_back, warnings=warnings,
        foretold=next(iter(foretold), None),
    )  # fmt: skip


def plan_config(
    kind: ListKind[C],
    addr: str,
    name: str,
    before: C | None,
    request: C,
    create: Callable[[str, C], None],
    warn: Callable[[C | None, C], list[str]] = lambda _before, _after: [],
) -> Step:
    """Plans a request to one broker about one topic or group, of which it has ``before``. ``warn`` is as for
    ``plan_list``."""
    after = after_request(before, request)
    changes = differences(None if before is None else kind.fields(before), kind.fields(after))
    back = WayBack(kind.section, {name: None if before is None else entry_back(kind, before, after)})
    act, warnings = partial(create, addr, request), warn(before, after)
    foretold = next(_foretold(kind, addr, name, before, request), None)
    return Step(addr, action(before, changes), changes, act, back, warnings=warnings, foretold=foretold)


def _foretold(kind: ListKind[C], addr: str, name: str, before: C | None, request: C) -> Iterator[RefusedError]:
    """How a broker refuses the request, if it does by its own rules."""
    if problem := kind.name_problem(name):
        yield RefusedError(ResponseCode.INVALID_PARAMETER, problem, address=addr)
    try:
        alter(kind.attributes, None if before is None else before.attributes, request.attributes)
    except ProtocolError as error:
        yield RefusedError(ResponseCode.SYSTEM_ERROR, str(error), address=addr)


def within_limit(admin: AdminClient, step: Step, field: str, *counts: int) -> Step:
    """The step; a dry run foretells that a broker of ours takes no more queues than QUEUE_NUMS_MAX."""
    over = next((number for number in counts if number > QUEUE_NUMS_MAX), None)
    if over is None or step.foretold or not admin.read_only or "core" not in admin.broker_runtime_info(step.target):
        return step
    remark = f"{field} {over} not in [0, {QUEUE_NUMS_MAX}]"
    foretold = RefusedError(ResponseCode.INVALID_PARAMETER, remark, address=step.target)
    return msgspec.structs.replace(step, foretold=foretold)


def plan_deletion(kind: ListKind[C], addr: str, name: str, before: C | None, act: Callable[[], None]) -> Step:
    """Plans a deletion on one broker. Undo restores the configuration alone."""
    if before is None:
        return Step(addr, KEEP, [], act)
    back = WayBack(kind.section, {name: entry_of(kind, before)})
    problem = _system_topic_problem(name) if isinstance(before, TopicConfig) else None
    foretold = RefusedError(ResponseCode.INVALID_PARAMETER, problem, address=addr) if problem else None
    return Step(addr, "delete", differences(kind.fields(before), None), act, back, foretold=foretold)


def after_request(before: C | None, request: C) -> C:
    """What a broker has after a request, whose attributes are changes."""
    kept = {} if before is None else before.attributes
    return msgspec.structs.replace(request, attributes=changed_attributes(kept, request.attributes))


def wanted(kind: ListKind[C], entry: Mapping[str, Any], now: C | None, *, replace: bool) -> C:
    """What to ask for, with signed attributes. Only changed ones are asked for: Apache's broker refuses a request that
    names an unchangeable attribute, even with its present value."""
    kept = {} if now is None else now.attributes
    signed = {
        name if name.startswith(_SIGNS) else f"+{name}": value for name, value in entry.get(_ATTRIBUTES, {}).items()
    }
    changing = {
        name: value
        for name, value in signed.items()
        if (kept.get(name[1:]) != value if name.startswith("+") else name[1:] in kept)
    }
    base = {} if now is None or replace else msgspec.to_builtins(now)
    return _configured(kind, {**base, **entry, _ATTRIBUTES: changing})


def entry_of(kind: ListKind[C], config: C) -> dict[str, Any]:
    """The entry for a file that gives a broker this configuration; without the name."""
    plain: dict[str, Any] = without_none(msgspec.to_builtins(config))
    del plain[kind.name_field]
    if not config.attributes:
        del plain[_ATTRIBUTES]
    return plain


def without_none(value: Any) -> Any:
    """Nested objects without the fields that are None."""
    if isinstance(value, dict):
        return {name: without_none(each) for name, each in value.items() if each is not None}
    return value


def entry_back(kind: ListKind[C], before: C, after: C) -> dict[str, Any]:
    """The entry for a file that takes a broker back from ``after`` to ``before``."""
    gone = {f"-{name}": "" for name in after.attributes if name not in before.attributes}
    attributes = {**before.attributes, **gone}
    return {**entry_of(kind, before), **({_ATTRIBUTES: attributes} if attributes else {})}
