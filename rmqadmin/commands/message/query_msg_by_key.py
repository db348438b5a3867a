"""``queryMsgByKey``: shows messages by key or tag, from the brokers' index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import Topic
from rmqadmin.cli.options.message_options import Begin, EndAtOrBefore, IndexCluster, Sql92
from rmqadmin.core.messages import lookup
from rmqadmin.core.messages.lookup import FoundMessage, KeyType
from rmqadmin.core.messages.queue_reading import sql92_filter
from rmqadmin.core.results import TIME, Result, Row, doc
from rmqadmin.core.topics.routes import topic_brokers
from rmqproto.errors import NotFoundError
from rmqproto.java.java_numbers import LONG_MAX
from rmqproto.message import properties as props
from rmqproto.times import TimeRange, time_range
from rmqproto.wording import counted

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


class KeyMatches(Result, frozen=True):
    """Messages that have a key."""

    row_type: ClassVar[type[Row]] = KeyRow
    key: str
    key_type: KeyType
    found: list[FoundMessage]

    def rows(self) -> Sequence[KeyRow]:
        return [
            KeyRow(
                message_id=message.message_id,
                broker_name=message.broker_name,
                queue_id=message.stored.queue_id,
                queue_offset=message.stored.queue_offset,
                log_offset=message.stored.log_offset,
                offset_message_id=message.stored.message_id,
                tags=message.properties.get(props.TAGS),
                keys=message.properties.get(props.KEYS),
                stored_ms=message.stored.store_timestamp_ms,
                body_size_bytes=len(message.stored.body),
            )
            for message in self.found
        ]

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
    msg_key: Annotated[str, typer.Option("-k", "--msgKey", metavar="KEY", help="Message key, or tag with -p T.")],
    begin_timestamp: Begin = None,
    end_timestamp: EndAtOrBefore = None,
    max_num: Annotated[
        int, typer.Option("-m", "--maxNum", min=1, help="Most messages a broker may return.")
    ] = KEY_COUNT_DEFAULT,
    cluster: IndexCluster = None,
    key_type: Annotated[
        KeyType, typer.Option("-p", "--keyType", case_sensitive=False, help="K for keys, T for tags (from 5.5 on).")
    ] = KeyType.KEYS,
    last_key: Annotated[
        str | None, typer.Option("-l", "--lastKey", help="Where the last answer ended; only for a RocksDB index.")
    ] = None,
    sql92: Sql92 = None,
) -> KeyMatches:
    """Producers set keys; the index has every key of a message.

    Examples:
      rmqadmin queryMsgByKey -t OrderTopic -k ORDER-1
      rmqadmin queryMsgByKey -t OrderTopic -k ORDER-1 -b -1h..now --output wide
      rmqadmin queryMsgByKey -t OrderTopic -k ORDER-1 --sql92 "region = 'eu'"
    """
    accepts = sql92_filter(sql92)
    topic, key = topic.strip(), msg_key.strip()
    between = time_range(begin_timestamp, end_timestamp, call.now_ms(), "-b/--since", "-e/--until", tell=call.notice)
    brokers = topic_brokers(call.admin, topic, cluster)

    def look_up(within: TimeRange) -> list[FoundMessage]:
        return lookup.by_key(
            call.admin,
            brokers,
            topic,
            key,
            key_type=key_type,
            max_count=max_num,
            begin_ms=within.begin_ms or 0,
            end_ms=LONG_MAX if within.end_ms is None else within.end_ms,
            last_key=last_key,
            answers=call.answers,
        )

    found, what = look_up(between), f"the {'tag' if key_type is KeyType.TAGS else 'key'} {key}"
    if not found:
        raise lookup.nothing_found(topic, what, between, lambda: look_up(TimeRange(None, None)))
    if len(found) >= max_num:
        call.notice(f"a broker answers with {counted(max_num, 'message')} at most; -m asks for more")
    wanted = found if accepts is None else [message for message in found if accepts(message.properties)]
    if not wanted:
        raise NotFoundError(f"--sql92 takes none of the {counted(len(found), 'message')} found with {what}")
    return KeyMatches(key, key_type, wanted)
