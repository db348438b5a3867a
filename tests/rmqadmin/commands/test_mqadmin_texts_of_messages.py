"""Like ``test_mqadmin_texts``, for commands that read messages. The tests take the golden texts apart and put them
together again."""

import re

import pytest

from rmqadmin.commands.message.consume_message import ConsumedMessages
from rmqadmin.commands.message.printing import QueueMessages, TagCounts
from rmqadmin.commands.message.queries import UniqueMessages
from rmqadmin.core.messages.lookup import FoundMessage, Track
from rmqadmin.core.messages.message_rows import Shown
from rmqadmin.core.messages.queue_reading import MQADMIN_STATUS, QueuePlace, QueuePull, QueueRead
from rmqadmin.core.messages.read_messages import BodyView, ReadMessages
from rmqclient.pull import PullStatus
from rmqproto.bodies.base import MessageQueue
from rmqproto.message import properties as props
from rmqproto.message.record import StoredMessage, host_bytes
from tests.rmqadmin.conftest import golden
from tests.support.any_order import in_any_order

MESSAGE = re.compile(
    r"MSGID: (?P<id>\w+) MessageExt \[brokerName=(?P<broker>[^,]*), queueId=(?P<queue>\d+), storeSize=(?P<size>\d+), "
    r"queueOffset=(?P<offset>\d+), sysFlag=(?P<sys>\d+), bornTimestamp=(?P<born>\d+), bornHost=/(?P<born_host>[^,]*), "
    r"storeTimestamp=(?P<stored>\d+), storeHost=/(?P<store_host>[^,]*), msgId=\w+, commitLogOffset=(?P<log>\d+), "
    r"bodyCRC=(?P<crc>\d+), reconsumeTimes=(?P<times>\d+), preparedTransactionOffset=(?P<prepared>\d+), "
    r"toString\(\)=Message\{topic='(?P<topic>[^']*)', flag=(?P<flag>\d+), properties=\{(?P<properties>.*?)\}, "
    r"body=\[(?P<body>[^]]*)\], transactionId='null'\}\] BODY: ",
    re.DOTALL,
)
QUEUE = re.compile(r"minOffset=(\d+), maxOffset=(\d+), MessageQueue \[topic=(\S+), brokerName=(\S+), queueId=(\d+)\]\n")
NOTHING = re.compile(
    r"MessageQueue \[.* queueId=(\d+)\] (?:no matched msg|print msg finished)\. status=(\w+), offset=(\d+)\n"
)
STATUS = {name: status for status, name in MQADMIN_STATUS.items()}


pytestmark = pytest.mark.usefixtures("utc")


def host(text: str) -> bytes:
    address, _, port = text.rpartition(":")
    return host_bytes(address, int(port))


def parse_message(found: re.Match[str]) -> FoundMessage:
    """The message of one golden text. Its properties are sorted, so that the renderer must find Java's order again. The
    broker's own property comes last, as stored. The two that clients add are left out."""
    part = found.groupdict()
    names = re.split(r"(?:^|, )([\w省]+)=", part["properties"])[1:]
    pairs = zip(names[::2], names[1::2], strict=True)
    properties = dict(sorted(pairs, key=lambda pair: (pair[0] == props.CLUSTER, pair[0])))
    del properties[props.MIN_OFFSET], properties[props.MAX_OFFSET]
    stored = StoredMessage(
        size_bytes=int(part["size"]), body_crc=int(part["crc"]), queue_id=int(part["queue"]), flag=int(part["flag"]),
        queue_offset=int(part["offset"]), log_offset=int(part["log"]), sys_flag=int(part["sys"]),
        born_timestamp_ms=int(part["born"]), born_host=host(part["born_host"]), store_timestamp_ms=int(part["stored"]),
        store_host=host(part["store_host"]), reconsume_times=int(part["times"]),
        prepared_transaction_offset=int(part["prepared"]), topic=part["topic"], properties_raw=b"",
        body=bytes(int(number) & 0xFF for number in part["body"].split(", ")),
    )  # fmt: skip
    return FoundMessage(stored, part["broker"], "127.0.0.1:10911", properties)


def parse_pulls(text: str) -> list[QueuePull]:
    """One pull for each run of messages, and one for each line about an empty pull."""
    pulls: list[QueuePull] = []
    messages = [parse_message(found) for found in MESSAGE.finditer(text)]
    if messages:
        pulls.append(QueuePull(PullStatus.FOUND, messages, 4, 0, 4))
    pulls += [QueuePull(STATUS[status], [], int(offset), 0, 4) for _, status, offset in NOTHING.findall(text)]
    return pulls


def read(queue_id: int, text: str, end_offset: int = 4) -> QueueRead:
    place = QueuePlace(MessageQueue("NormalTopic", "broker-a", queue_id), "127.0.0.1:10911", 0, end_offset)
    return QueueRead(place, parse_pulls(text))


def test_print_msg_goes_through_the_queues() -> None:
    text = golden("printMsg", "tag")
    parts = QUEUE.split(text)[1:]
    reads = [read(int(parts[at + 4]), parts[at + 5], int(parts[at + 1])) for at in range(0, len(parts), 6)]
    printed = ReadMessages(reads, BodyView("UTF-8", with_body=False)).mqadmin_text()
    assert in_any_order(printed) == in_any_order(text)
    assert [int(each) for each in QUEUE.split(printed)[1:][4::6]] == [0, 1, 2, 3]


def test_print_msg_by_queue() -> None:
    text = golden("printMsgByQueue", "ok")
    view = BodyView("UTF-8", with_body=True)
    assert in_any_order(QueueMessages([read(0, text)], view).mqadmin_text()) == in_any_order(text)
    assert QueueMessages([read(0, text)], view, prints=False).mqadmin_text() == ""


def test_print_msg_by_queue_counts_tags_of_messages_that_have_one() -> None:
    counts: dict[str | None, int] = {"TagB": 1, "标签": 1, None: 7, "TagA": 2}
    assert in_any_order(TagCounts(counts, "").mqadmin_text()) == in_any_order(golden("printMsgByQueue", "count-tags"))


def test_consume_message_from_an_offset() -> None:
    text = golden("consumeMessage", "queue")
    heading = text.partition("\n")[0] + "\n"
    shown = ConsumedMessages([read(0, text)], BodyView("UTF-8", with_body=True), headings=[heading])
    assert in_any_order(shown.mqadmin_text()) == in_any_order(text)


def test_consume_message_of_a_topic() -> None:
    text = golden("consumeMessage", "topic")
    parts = [part for part in re.split(r"(?m)^Consume ok\n", text) if part]
    reads = [read(queue_id, part) for queue_id, part in zip([0, 3, 1, 2], parts, strict=True)]
    shown = ConsumedMessages(reads, BodyView("UTF-8", with_body=True), headings=[""] * 4)
    assert in_any_order(shown.mqadmin_text()) == in_any_order(text)


def test_query_msg_by_unique_key_has_no_offset_id_and_no_line_breaks_between_tracks() -> None:
    text = golden("queryMsgByUniqueKey", "all")
    properties = {
        "KEYS": "KEY-1", "TAGS": "TagB", "UNIQ_KEY": "7F000001041D4E0E2F2A69B4378A0009", "WAIT": "true",
        "MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "DefaultCluster",
    }  # fmt: skip
    places = [(2, 0, 2010, 1795264618378, 1795264618380, 51538), (0, 3, 83491, 1795264756947, 1795264756990, 53140)]
    tracks = [Track("SqlGroup", "CONSUMED"), Track("PullGroup", "PULL"), Track("NormalGroup", "CONSUMED")]
    shown = []
    for queue_id, offset, log_offset, born_ms, stored_ms, port in places:
        stored = StoredMessage(
            size_bytes=1, body_crc=0, queue_id=queue_id, flag=0, queue_offset=offset, log_offset=log_offset, sys_flag=0,
            born_timestamp_ms=born_ms, born_host=host_bytes("127.0.0.1", port), store_timestamp_ms=stored_ms,
            store_host=host_bytes("127.0.0.1", 10911), reconsume_times=0, prepared_transaction_offset=0, body=b"x",
            topic="NormalTopic", properties_raw=b"",
        )  # fmt: skip
        shown.append(Shown(FoundMessage(stored, "broker-a", "127.0.0.1:10911", properties), tracks, None))
    assert in_any_order(UniqueMessages(shown).mqadmin_text()) == in_any_order(text)
