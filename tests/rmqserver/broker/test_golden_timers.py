"""Apache's exchanges about timers, played against our broker, and the life of a message that is recalled."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqproto.codes import RequestCode as R
from rmqproto.message.special_messages import RecallHandle, parse_recall_untrusted
from rmqproto.names import TIMER_TOPIC
from rmqproto.wire.command import decode_frame_untrusted, encode_frame
from rmqserver.store.timers.timer_check import TimerCheckpoint
from tests.rmqserver.broker.golden_play import compare, loosened, play
from tests.rmqserver.broker.golden_state import configured, create_topic
from tests.rmqserver.broker.messaging import send, stored, text
from tests.support import servers
from tests.support.golden import exchange, exchanges, said
from tests.support.servers import Server
from tests.support.wire import Wire

HOUR_S = "3600"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with servers.standalone(tmp_path_factory.mktemp("timers"), "--set", "recallMessageEnable=true") as running:
        with Wire(running.broker_addr) as wire:
            create_topic(wire, "TimerTopic", 2)
        yield running


@pytest.mark.parametrize("number", ["02", "03", "05", "06"])
def test_recalls_that_are_refused(wire: Wire, number: str) -> None:
    play(wire, f"370-RECALL_MESSAGE/{number}")


@pytest.mark.parametrize("number", range(1, 7))
def test_switching_the_engine(wire: Wire, number: int) -> None:
    play(wire, f"5001-SWITCH_TIMER_ENGINE/{number:02d}")


def recall(wire: Wire, handle: str, topic: str = "TimerTopic") -> dict[str, object]:
    answer = wire.ask(R.RECALL_MESSAGE, {"producerGroup": "PG", "topic": topic, "recallHandle": handle})
    return {"code": answer.code, "remark": answer.remark, **answer.ext}


@pytest.mark.parametrize("number", ["01", "04"])
def test_recalls_of_what_is_here(wire: Wire, number: str) -> None:
    """The recorded message was due long ago. One that is due in an hour gets its unique key."""
    golden = exchange(f"370-RECALL_MESSAGE/{number}")
    request = decode_frame_untrusted(golden.request)
    unique_key = parse_recall_untrusted(request.ext["recallHandle"]).unique_key
    sent = send(wire, "TimerTopic", 1, properties=text(TIMER_DELAY_SEC=HOUR_S, UNIQ_KEY=unique_key))
    request.ext["recallHandle"] = sent.ext["recallHandle"]
    compare(golden.name, said(wire.exchange(encode_frame(request))), said(golden.answer))


def test_a_recall_and_what_is_stored_for_it(wire: Wire) -> None:
    sent = send(wire, "TimerTopic", 1, properties=text(TIMER_DELAY_SEC=HOUR_S, UNIQ_KEY="KEY"))
    handle = parse_recall_untrusted(sent.ext["recallHandle"])
    assert (handle.topic, handle.broker_name, handle.unique_key) == ("TimerTopic", "broker-a", "KEY")
    for _ in range(2):  # recalling twice succeeds twice
        assert recall(wire, handle.render())["msgId"] == "KEY"
    waiting, recalling = stored(wire, TIMER_TOPIC)[-3:-1]
    assert recalling.body == b"0"
    properties = recalling.properties
    assert properties.pop("BORN_TIMESTAMP") == str(recalling.born_timestamp_ms)
    assert properties == {
        "TAGS": "_RECALL_TAG_", "TIMER_DEL_UNIQKEY": "KEY", "UNIQ_KEY": "KEY", "PGROUP": "PG",
        "TIMER_DELIVER_MS": handle.deliver_ms, "REAL_TOPIC": "TimerTopic", "REAL_QID": "0",
        "TIMER_OUT_MS": waiting.properties["TIMER_OUT_MS"],
    }  # fmt: skip


def test_handles_of_others(wire: Wire) -> None:
    create_topic(wire, "OtherTopic", 1)
    soon = parse_recall_untrusted(send(wire, "TimerTopic", properties=text(TIMER_DELAY_SEC=HOUR_S)).ext["recallHandle"])
    assert recall(wire, soon.render(), "OtherTopic")["remark"] == "recall failed, topic not match"
    other = soon._replace(broker_name="broker-b").render()
    assert recall(wire, other)["remark"] == "recall failed, broker service not available"
    for time_ms in ("1", "soon", str(1 << 62)):
        answer = recall(wire, RecallHandle("TimerTopic", "broker-a", time_ms, "K").render())
        assert (answer["code"], answer["remark"]) == (604, "recall failed, timestamp invalid")


def test_recalls_are_off_by_default(wire: Wire) -> None:
    with configured(wire, recallMessageEnable="false"):
        answer = recall(wire, "x")
    assert answer == {
        "code": 16, "remark": "recall failed, operation is forbidden", "MSG_REGION": "DefaultRegion",
    }  # fmt: skip


@pytest.mark.parametrize("code", [R.GET_TIMER_CHECK_POINT, R.GET_TIMER_METRICS])
def test_timers_for_slaves_where_the_wheel_is_off(wire: Wire, code: R) -> None:
    with configured(wire, timerWheelEnable="false"):
        answer = wire.ask(code)
    assert (answer.code, (answer.remark or "")[-7:]) == (1, "is null")


def test_how_far_timers_are_and_what_waits(tmp_path: Path) -> None:
    with servers.standalone(tmp_path, "--data", str(tmp_path / "store")) as server, Wire(server.broker_addr) as wire:
        for _ in range(3):
            send(wire, "TimerTopic", properties=text(TIMER_DELAY_SEC=HOUR_S))
        servers.until(lambda: checkpoint(wire).queue_offset == 3)
        found = checkpoint(wire)
        assert (found.log_position, found.master_queue_offset) == (3 * 52, 3)
        assert found.read_time_ms % 1000 == 0
        for each in exchanges(R.GET_TIMER_CHECK_POINT):
            ours, theirs = wire.exchange(each.request), each.answer
            assert theirs is not None
            assert loosened(said(ours), ("body",)) == loosened(said(theirs), ("body",))
            assert len(ours.body) == len(theirs.body)
        for each in exchanges(R.GET_TIMER_METRICS):
            ours, theirs = said(wire.exchange(each.request)), said(each.answer)
            counts = [one["body"].pop("timingCount") for one in (ours, theirs)]
            loose = ("counter", "timestamp", "timeStamp", "count")
            assert loosened(ours, loose) == loosened(theirs, loose)
            assert counts[0].keys() == {"TimerTopic"}
            assert loosened(counts[0]["TimerTopic"], loose) == loosened(counts[1]["TimerTopic"], loose)
            assert counts[0]["TimerTopic"]["count"] == 3
        assert server.stop() == 0
    saved = (tmp_path / "store/config/timermetrics").read_bytes()
    assert saved.startswith(b'{"dataVersion":{"counter":3,"stateVersion":0,"timestamp":')


def checkpoint(wire: Wire) -> TimerCheckpoint:
    body = wire.ask(R.GET_TIMER_CHECK_POINT).body
    assert len(body) == 56
    return TimerCheckpoint(*(int.from_bytes(body[at : at + 8], "big") for at in range(0, 56, 8)))
