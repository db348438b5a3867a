"""Messages that are sent back and tried again: with a broker, and the parts of one."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.codes import RequestCode as R
from rmqproto.codes import ResponseCode
from rmqproto.headers.sending import SendBackHeader
from rmqproto.message.record import StoredMessage, decode_records_untrusted, host_bytes
from rmqproto.wire.command import Command
from rmqproto.wire.fastjson import parse_untrusted
from rmqserver.broker.sending.send_back import Returned, SendBacks
from rmqserver.store.new_message import NewMessage
from tests.rmqserver.broker.golden_play import play
from tests.rmqserver.broker.golden_state import create_group, create_topic, ok
from tests.rmqserver.broker.messaging import pull, send, start_pull, stored, text
from tests.support import servers
from tests.support.wire import Wire

HOST = host_bytes("127.0.0.1", 10911)


class Broker:
    """All that a send back needs of one."""

    perm = 6

    def __init__(self) -> None:
        self.messages: list[NewMessage] = []
        self.counted: list[tuple[str, str]] = []

    def put(self, message: NewMessage) -> None:
        self.messages.append(message)

    def record_host(self, peer: object) -> bytes:
        return HOST

    def add(self, name: str, key: str) -> None:
        self.counted.append((name, key))

    def get(self, name: str) -> None: ...

    def create_system(self, topic: str, queue_nums: int, **_: int) -> Broker:
        return self


def test_returns_are_counted_no_further_than_a_record_can_say() -> None:
    broker: Any = Broker()
    back = SendBacks(broker, broker, broker, broker, broker, broker, broker)
    message = StoredMessage(200, 0, 0, 0, 5, 4711, 0, 1_000, HOST, 2_000, HOST, 2**31 - 1, 0, b"body", "T", b"")
    header = SendBackHeader(offset=0, group="G", delay_level=-1)
    back.put(header, Returned(SubscriptionGroupConfig(group_name="G"), message), 0, broker, None)
    assert broker.messages[0].reconsume_times == 2**31 - 1


@pytest.mark.parametrize("properties", [b"", b"RETRY_TOPIC\x01Work\x02"])
def test_each_return_counts_for_the_topic_that_first_had_the_message(properties: bytes) -> None:
    broker: Any = Broker()
    back = SendBacks(broker, broker, broker, broker, broker, broker, broker)
    topic = "%RETRY%G" if properties else "Work"
    message = StoredMessage(200, 0, 0, 0, 5, 4711, 0, 1_000, HOST, 2_000, HOST, 1, 0, b"body", topic, properties)
    header = SendBackHeader(offset=0, group="G", delay_level=0, origin_topic=topic)
    back.put(header, Returned(SubscriptionGroupConfig(group_name="G"), message), 0, broker, None)
    assert broker.counted == [("SNDBCK_PUT_NUMS", "Work@G")]


LEVELS = "messageDelayLevel=0s 1h 0s 0s"
"""Levels 1, 3 and 4 are due at once; level 2 is not while a test runs."""


server = servers.of_module("--set", LEVELS)


def wait_for(wire: Wire, topic: str, queue_id: int = 0, queue_offset: int = 0) -> StoredMessage:
    """The message at a place, once it is there."""
    return wait_for_all(wire, topic, queue_offset + 1, queue_id)[queue_offset]


def wait_for_all(wire: Wire, topic: str, count: int, queue_id: int = 0) -> list[StoredMessage]:
    """The first messages of a queue, once there are that many."""
    found: list[StoredMessage] = []
    while len(found) < count:
        start_pull(wire, topic, queue_id, len(found))
        found += decode_records_untrusted(ok(wire.receive()).body)
    return found


def send_back(wire: Wire, message: StoredMessage, group: str, delay_level: int, **fields: object) -> Command:
    header = SendBackHeader(offset=message.log_offset, group=group, delay_level=delay_level, **fields)  # type: ignore[arg-type]
    return wire.ask(R.CONSUMER_SEND_MSG_BACK, header)


# --- delays ----------------------------------------------------------------------------------------------------------


def test_delayed_message_is_delivered_as_it_was_sent(wire: Wire) -> None:
    create_topic(wire, "Delayed")
    properties = text(UNIQ_KEY="AB", DELAY="1", TAGS="A", WAIT="true")
    ok(send(wire, "Delayed", 2, b"later", properties=properties, flag=9, sys_flag=1, reconsume_times=2))
    message = wait_for(wire, "Delayed", 2)
    assert (message.body, message.flag, message.sys_flag, message.reconsume_times) == (b"later", 9, 1, 2)
    assert message.properties == {
        "UNIQ_KEY": "AB", "DELAY": "1", "TAGS": "A", "WAIT": "true", "REAL_TOPIC": "Delayed", "REAL_QID": "2",
        "MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "DefaultCluster",
    }  # fmt: skip
    only_tag = pull(wire, "Delayed", 2, expression="A")
    assert only_tag.remark == "FOUND"  # its unit holds the tag code again, not the time


def test_delayed_messages_keep_their_order_and_nobody_overtakes_his_time(wire: Wire) -> None:
    create_topic(wire, "Order", 1)
    ok(send(wire, "Order", body=b"in an hour", properties=text(DELAY="2")))
    for number in range(100):
        ok(send(wire, "Order", body=b"%d" % number, properties=text(DELAY="3")))
    found = [message.body for message in wait_for_all(wire, "Order", 100)]
    assert found == [b"%d" % number for number in range(100)]


# --- sending back ----------------------------------------------------------------------------------------------------


def test_refused_as_apache_does(wire: Wire) -> None:
    for number in ("03", "07"):
        play(wire, f"36-CONSUMER_SEND_MSG_BACK/{number}")


def test_message_sent_back_comes_to_the_retry_topic(wire: Wire) -> None:
    create_group(wire, "Back")
    create_topic(wire, "Work")
    ok(send(wire, "Work", 1, b"work", properties=text(UNIQ_KEY="AB", TAGS="A"), flag=3))
    first = stored(wire, "Work", 1)[0]
    ok(send_back(wire, first, "Back", 0, origin_msg_id="AB", origin_topic="Work"))
    retry = wait_for(wire, "%RETRY%Back")
    assert (retry.body, retry.flag, retry.born_timestamp_ms, retry.born_host) == (
        first.body, first.flag, first.born_timestamp_ms, first.born_host
    )  # fmt: skip
    assert retry.reconsume_times == 1
    kept = retry.properties
    assert (kept["RETRY_TOPIC"], kept["ORIGIN_MESSAGE_ID"]) == ("Work", first.message_id)
    assert (kept["DELAY"], kept["WAIT"], kept["UNIQ_KEY"]) == ("3", "false", "AB")
    ok(send_back(wire, retry, "Back", 0))
    again = wait_for(wire, "%RETRY%Back", 0, 1)
    assert again.reconsume_times == 2
    kept = again.properties
    assert (kept["RETRY_TOPIC"], kept["ORIGIN_MESSAGE_ID"], kept["DELAY"]) == ("Work", first.message_id, "4")


@pytest.mark.parametrize(("delay_level", "times_max"), [(-1, 16), (1, 0)])
def test_message_that_failed_for_good_is_dead(wire: Wire, delay_level: int, times_max: int) -> None:
    """The consumer gave up (level -1), or the message came back too often."""
    group = f"Dead{times_max}"
    create_group(wire, group)
    ok(send(wire, f"Fails{times_max}", body=b"hopeless"))
    message = stored(wire, f"Fails{times_max}")[0]
    ok(send_back(wire, message, group, delay_level, max_reconsume_times=times_max))
    dead = wait_for(wire, f"%DLQ%{group}")
    assert (dead.body, dead.reconsume_times, dead.properties["DELAY"]) == (b"hopeless", 1, "0")


def test_unknown_group_is_made_or_refused(wire: Wire) -> None:
    ok(send(wire, "Made"))
    ok(send_back(wire, stored(wire, "Made")[0], "MadeBySendBack", 1))
    assert wait_for(wire, "%RETRY%MadeBySendBack")
    answer = send_back(wire, stored(wire, "Made")[0], "not legal!", 1)
    assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def test_group_without_retries_loses_nothing_by_saying_so(wire: Wire) -> None:
    body = b'{"groupName":"NoRetries","retryQueueNums":0}'
    ok(wire.ask(R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body))
    ok(send(wire, "NoRetryTopic"))
    ok(send_back(wire, stored(wire, "NoRetryTopic")[0], "NoRetries", 1))
    assert wire.ask(R.GET_TOPIC_CONFIG, {"topic": "%RETRY%NoRetries"}).code == ResponseCode.TOPIC_NOT_EXIST


# --- restarts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flush", ["sync", "async"])
def test_clean_restart_delivers_each_delayed_message_once(tmp_path: Path, flush: str) -> None:
    args = ("--set", "messageDelayLevel=0s", "--flush", flush)
    with servers.standalone(tmp_path, *args) as first, Wire(first.broker_addr) as wire:
        for number in range(3):
            ok(send(wire, "Restart", body=b"%d" % number, properties=text(DELAY="1")))
        wait_for(wire, "Restart", 0, 2)
        assert first.stop() == 0
    offsets = parse_untrusted((first.store_dir / "config/delayOffset.json").read_bytes())
    assert offsets["offsetTable"] == {"1": 3}
    with servers.standalone(tmp_path, *args) as second, Wire(second.broker_addr) as wire:
        ok(send(wire, "Restart", body=b"3", properties=text(DELAY="1")))
        found = [message.body for message in wait_for_all(wire, "Restart", 4)]
        assert found == [b"0", b"1", b"2", b"3"]


def test_killed_broker_delivers_delayed_messages_again_rather_than_never(tmp_path: Path) -> None:
    args = ("--set", "messageDelayLevel=0s")
    with servers.standalone(tmp_path, *args) as first, Wire(first.broker_addr) as wire:
        for number in range(3):
            ok(send(wire, "Restart", body=b"%d" % number, properties=text(DELAY="1")))
        wait_for(wire, "Restart", 0, 2)
        first.stop(signal.SIGKILL)
    with servers.standalone(tmp_path, *args) as second, Wire(second.broker_addr) as wire:
        ok(send(wire, "Restart", body=b"3", properties=text(DELAY="1")))
        found = [message.body for message in wait_for_all(wire, "Restart", 4)]
        while found[-1] != b"3":
            found = [message.body for message in wait_for_all(wire, "Restart", len(found) + 1)]
        assert found[:3] == [b"0", b"1", b"2"]
        assert set(found) == {b"0", b"1", b"2", b"3"}


def test_a_popped_message_is_dead_under_the_topic_it_was_first_sent_to(wire: Wire) -> None:
    """The popped message lies in a retry topic of POP, which is no use as the topic for sending it again."""
    create_group(wire, "Popping")
    create_topic(wire, "%RETRY%Popping_Popped", 1)
    ok(send(wire, "%RETRY%Popping_Popped", body=b"popped"))
    (message,) = stored(wire, "%RETRY%Popping_Popped")
    ok(send_back(wire, message, "Popping", -1))
    assert wait_for(wire, "%DLQ%Popping").properties["RETRY_TOPIC"] == "Popped"
