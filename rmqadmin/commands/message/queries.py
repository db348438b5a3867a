"""mqadmin's ways to find messages: by id, key, unique key or place."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import LONG, BrokerName, LmqParent, Topic, TrueFalse
from rmqadmin.cli.options.common_options import Value, option
from rmqadmin.cli.options.message_options import (
    Begin,
    BodyFormat,
    EndAtOrBefore,
    IndexCluster,
    PushClient,
    PushGroup,
    QueueId,
    Sql92,
)
from rmqadmin.core.messages import lookup
from rmqadmin.core.messages.lookup import FoundMessage, KeyType
from rmqadmin.core.messages.message_rows import Messages, checked_charset, message_values, mqadmin_block, show
from rmqadmin.core.messages.queue_reading import QueuePlace, pulls, sql92_filter
from rmqadmin.core.messages.sending import Pushed, push, send_result_text, sent_values
from rmqadmin.core.results import TIME, FoundRows, ResultOf, Row, SendingRow, doc
from rmqadmin.core.topics.routes import broker_addr_of, topic_brokers, writable_queues
from rmqclient.message import Message, SendResult
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import TopicRoute
from rmqproto.errors import NotFoundError
from rmqproto.times import time_range
from rmqproto.wording import counted

RESEND_GROUP = "ReSendMsgById"


class ResentRow(SendingRow, frozen=True):
    original_message_id: Annotated[str, doc("id that was asked for", key=True)]
    message_id: Annotated[str | None, doc("unique key of the copy: the same")]
    offset_message_id: Annotated[str | None, doc("id that the broker gave the copy")]
    broker_name: Annotated[str, doc("broker that it went to")]
    queue_id: Annotated[int, doc("queue that it went to")]
    queue_offset: Annotated[int | None, doc("place of the copy in the queue")]
    status: Annotated[str | None, doc("SEND_OK, or what the broker could not promise; none under --dry-run")]


class Resent(FoundRows[ResentRow], frozen=True):
    """With -s true: messages sent once more."""

    results: list[SendResult]

    def mqadmin_text(self) -> str:
        return "".join(
            f"prepare resend msg. originalMsgId={row.original_message_id}{send_result_text(result)}"
            for row, result in zip(self.found, self.results, strict=True)
        )


def query_msg_by_id(
    call: Call,
    topic: Topic,
    msg_id: Annotated[str, Value.NAME, option("-i", "--msgId", "Unique keys or offset ids.", metavar="ID[,ID...]")],
    consumer_group: PushGroup = None,
    client_id: PushClient = None,
    send_message: Annotated[TrueFalse | None, option("-s", "--sendMessage", "Send it again.")] = None,
    unit_name: Annotated[str | None, option("-u", "--unitName", "Accepted as in mqadmin; has no effect.")] = None,
    body_format: BodyFormat = None,
    cluster: LmqParent = None,
) -> Messages | Resent | Pushed:
    """Takes either id: the producer's unique key or the broker's offset id.

    rmqadmin queryMsgById -t OrderTopic -i 7F00000100002A9F00000000000007DA
    rmqadmin -o json queryMsgById -t OrderTopic -i 7F000001041D4E0E2F2A69B4378A0009
    rmqadmin queryMsgById -t OrderTopic -i 7F000001041D4E0E2F2A69B4378A0009 -s true --dry-run
    """
    route = call.admin.topic_route(cluster or topic)
    messages = [_one(call, route, topic, part.strip()) for part in msg_id.split(",") if part.strip()]
    if consumer_group is not None and client_id is not None:
        return push(call.admin, messages, consumer_group, client_id, dry_run=call.dry_run)
    if send_message is TrueFalse.TRUE:
        return _resend(call, route, messages)
    return Messages(
        show(
            call.admin,
            messages,
            None if body_format is None else checked_charset("-f", body_format),
            call.notice,
            leave_files=call.as_mqadmin,
        )
    )


def _one(call: Call, route: TopicRoute, topic: str, message_id: str) -> FoundMessage:
    found = lookup.by_id(call.admin, route, topic, message_id, call.answers)
    if not found:
        raise NotFoundError(
            f"no message of the topic {topic} with the id {message_id} was found", hint=lookup.INDEX_HINT
        )
    return found[0]


def _resend(call: Call, route: TopicRoute, messages: Sequence[FoundMessage]) -> Resent:
    """Sends messages unchanged, to the queues they are in."""
    sent: list[ResentRow] = []
    results: list[SendResult] = []
    for message in messages:
        stored = message.stored
        queues, own = writable_queues(route, stored.topic), (message.broker_name, stored.queue_id)
        # Its own queue if it can be written; a dry run names it.
        queue, addr = next((one for one in queues if (one[0].broker_name, one[0].queue_id) == own), queues[0])
        copy = Message(stored.topic, stored.plain_body(), properties=message.properties, flag=stored.flag)
        result = None if call.dry_run else call.admin.send_message(addr, queue, copy, group=RESEND_GROUP)
        results += [result] if result else []
        sent.append(ResentRow(original_message_id=message.message_id, **sent_values(queue, result)))
    return Resent(sent, results)


KEY_COUNT_DEFAULT = 64


class KeyRow(Row, frozen=True):
    message_id: Annotated[str, doc("unique key, made by the producer", key=True)]
    broker_name: Annotated[str, doc("broker that stores it")]
    queue_id: Annotated[int, doc("queue id")]
    queue_offset: Annotated[int, doc("its place in the queue")]
    log_offset: Annotated[int, doc("its place in the commit log", wide=True)]
    offset_message_id: Annotated[str, doc("id made by the broker", wide=True)]
    tags: Annotated[str | None, doc("tag")]
    keys: Annotated[str | None, doc("keys, separated by blanks")]
    stored_ms: Annotated[int, TIME, doc("when it was stored")]
    body_size_bytes: Annotated[int, doc("size of the body as stored")]


class KeyMatches(ResultOf[KeyRow], frozen=True):
    """Messages that have a key."""

    key: str
    key_type: KeyType
    found: list[FoundMessage]

    def rows(self) -> Sequence[KeyRow]:
        found = [message_values(message, with_body=False) for message in self.found]
        return [KeyRow(**{name: values[name] for name in KeyRow.__struct_fields__}) for values in found]

    def mqadmin_text(self) -> str:
        text = f"{'#Message ID':50} {'#QID':>4} {'#Offset':>40} {'#IndexKey':200}\n"
        for message in self.found:
            stored = message.stored
            hour_ms = stored.store_timestamp_ms // 3_600_000 * 3_600_000
            index_key = "@".join(
                (str(hour_ms), stored.topic, self.key_type, self.key, message.message_id, str(stored.log_offset))
            )
            text += f"{message.message_id:50} {stored.queue_id:>4} {stored.queue_offset:>40} {index_key:200}\n"
        return text


def query_msg_by_key(
    call: Call,
    topic: Topic,
    msg_key: Annotated[str, option("-k", "--msgKey", "Message key, or tag with -p T.", metavar="KEY")],
    begin_timestamp: Begin = None,
    end_timestamp: EndAtOrBefore = None,
    max_num: Annotated[int, option("-m", "--maxNum", "Most messages a broker may return.", min=1)] = KEY_COUNT_DEFAULT,
    cluster: IndexCluster = None,
    key_type: Annotated[KeyType, option("-p", "--keyType", "K for keys, T for tags (from 5.5 on).")] = KeyType.KEYS,
    last_key: Annotated[
        str | None, option("-l", "--lastKey", "Where the last answer ended; only for a RocksDB index.")
    ] = None,
    sql92: Sql92 = None,
) -> KeyMatches:
    """Producers set keys; the index has every key of a message.

    rmqadmin queryMsgByKey -t OrderTopic -k ORDER-1
    rmqadmin queryMsgByKey -t OrderTopic -k ORDER-1 -b -1h..now --output wide
    rmqadmin queryMsgByKey -t OrderTopic -k ORDER-1 --sql92 "region = 'eu'"
    """
    accepts = sql92_filter(sql92)
    key = msg_key.strip()
    between = time_range(begin_timestamp, end_timestamp, call.now_ms(), "-b/--since", "-e/--until", tell=call.notice)
    brokers = topic_brokers(call.admin, topic, cluster)
    look_up = partial(
        lookup.by_key, call.admin, brokers, topic, key,
        key_type=key_type, max_count=max_num, last_key=last_key, answers=call.answers,
    )  # fmt: skip
    found, what = look_up(within=between), f"the {'tag' if key_type is KeyType.TAGS else 'key'} {key}"
    if not found:
        raise lookup.nothing_found(topic, what, between, look_up)
    if len(found) >= max_num:
        call.notice(f"a broker answers with {counted(max_num, 'message')} at most; -m asks for more")
    wanted = found if accepts is None else [message for message in found if accepts(message.properties)]
    if not wanted:
        raise NotFoundError(f"--sql92 takes none of the {counted(len(found), 'message')} found with {what}")
    return KeyMatches(key, key_type, wanted)


class UniqueMessages(Messages, frozen=True):
    """Messages with what became of them."""

    def mqadmin_text(self) -> str:
        return "".join(
            mqadmin_block(one, index=index, with_offset_id=False, track_end="") for index, one in enumerate(self.shown)
        )


def query_msg_by_unique_key(
    call: Call,
    topic: Topic,
    msg_id: Annotated[str, Value.ID, option("-i", "--msgId", "Unique key, made by the producer.")],
    consumer_group: PushGroup = None,
    client_id: PushClient = None,
    show_all: Annotated[
        bool, option("-a", "--showAll", f"Show all of them, up to {lookup.UNIQUE_KEY_COUNT} a broker.")
    ] = False,
    cluster: IndexCluster = None,
    start_time: Annotated[
        str | None,
        Value.TIME,
        option("-s", "--since", "--startTime", "Stored at or after (1h: an hour ago); or a range A..B."),
    ] = None,
    end_time: Annotated[str | None, Value.TIME, option("-e", "--until", "--endTime", "Stored at or before.")] = None,
) -> UniqueMessages | Pushed:
    """Shows the oldest message with the key, or all of them with -a.

    rmqadmin queryMsgByUniqueKey -t OrderTopic -i 7F000001041D4E0E2F2A69B4378A0009
    rmqadmin queryMsgByUniqueKey -t OrderTopic -i 7F000001041D4E0E2F2A69B4378A0009 -a -s -1h..now --output wide
    """
    between = time_range(start_time, end_time, call.now_ms(), "-s/--since", "-e/--until", tell=call.notice)
    brokers = topic_brokers(call.admin, topic, cluster)
    look_up = partial(lookup.by_unique_key, call.admin, brokers, topic, msg_id, answers=call.answers)
    found = look_up(within=between)
    if not found:
        what = f"the unique key {msg_id}"
        raise lookup.nothing_found(topic, what, between, look_up)
    wanted = found if show_all else found[:1]
    if consumer_group is not None and client_id is not None:
        return push(call.admin, wanted, consumer_group, client_id, dry_run=call.dry_run)
    return UniqueMessages(show(call.admin, wanted, None, call.notice, leave_files=call.as_mqadmin))


def query_msg_by_offset(
    call: Call,
    topic: Topic,
    broker_name: BrokerName,
    queue_id: QueueId,
    offset: Annotated[int, LONG, option("-o", "--offset", "Queue offset.", min=0)],
    body_format: BodyFormat = None,
    route_topic: Annotated[
        str | None, Value.TOPIC, option("-r", "--routeTopic", "Look up this topic's route (LMQ parent).")
    ] = None,
) -> Messages:
    """If there is no message, shows where the queue begins and ends; mqadmin shows nothing.

    rmqadmin queryMsgByOffset -t OrderTopic -b broker-a -i 0 -o 0
    rmqadmin -o json queryMsgByOffset -t OrderTopic -b broker-a -i 0 -o 5
    """
    charset = None if body_format is None else checked_charset("-f", body_format)
    queue = MessageQueue(topic, broker_name, queue_id)
    addr = broker_addr_of(call.admin.topic_route(route_topic or topic), queue.broker_name)
    pulled = next(pulls(call.admin, QueuePlace(queue, addr, offset, offset + 1), is_exact=True))
    found = pulled.as_java_has_them() if call.as_mqadmin else pulled.messages
    if not found and not call.as_mqadmin:
        raise NotFoundError(
            f"the queue {queue.broker_name}/{queue_id} of {queue.topic} has no message at {offset}",
            hint=f"Its queue offsets go from {pulled.min_offset} to {pulled.max_offset - 1}."
            if pulled.max_offset > pulled.min_offset
            else "It is empty.",
        )
    return Messages(show(call.admin, found, charset, call.notice, leave_files=call.as_mqadmin))
