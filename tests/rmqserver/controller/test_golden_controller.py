"""Recorded scenes of real 5.5.0 brokers, clients and a controller, played against our controller: the same requests in
the same order, with the deaths in between."""

from typing import Any

import msgspec
import pytest

from rmqproto.codes import RequestCode as R
from rmqproto.codes import ResponseCode
from rmqproto.headers.base import to_ext
from rmqproto.headers.controller import ApplyBrokerIdHeader
from rmqproto.headers.nameserver import BrokerHeartbeatHeader
from rmqproto.java import java_properties
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command, decode_frame_untrusted
from tests.crash.recording_disk import RecordingDisk
from tests.rmqserver.controller.seats import Seat, SeatedController
from tests.support import golden
from tests.support.controller_scenes import ControllerExchange, controller_exchanges

DIES_BEFORE = {
    "1004-CONTROLLER_GET_REPLICA_INFO/17": 1,
    "1001-CONTROLLER_ALTER_SYNC_STATE_SET/15": 1,
    "1001-CONTROLLER_ALTER_SYNC_STATE_SET/17": 2,
    "1006-CONTROLLER_GET_SYNC_STATE_DATA/03": 1,
    "1001-CONTROLLER_ALTER_SYNC_STATE_SET/19": 1,
    "1004-CONTROLLER_GET_REPLICA_INFO/30": 2,
}
"""The broker that was killed before each of these exchanges."""

EPOCHS_LEAPT = {"1006-CONTROLLER_GET_SYNC_STATE_DATA/03": 2, "1004-CONTROLLER_GET_REPLICA_INFO/30": 2}
"""Exchanges before which Apache's controller began three epochs without a master, one for each try, and ours begins
one."""

WITH_A_PHANTOM = {"1002-CONTROLLER_ELECT_MASTER/06", "1002-CONTROLLER_ELECT_MASTER/07"}
"""Exchanges after Apache's controller had given id 8 to a replica that never existed (1013/04)."""

NOT_OURS = {
    "1013-CONTROLLER_APPLY_BROKER_ID/04": "ours gives away the next id alone",
    "1003-CONTROLLER_REGISTER_BROKER/07": "Apache's controller had wiped a set that lived",
    "1005-CONTROLLER_GET_METADATA_INFO/07": "of one of three",
    "1005-CONTROLLER_GET_METADATA_INFO/08": "of one of three",
}


def scene(name: str) -> list[ControllerExchange]:
    return [
        each
        for each in controller_exchanges()
        if each.scene == name
        and each.request.code != R.GET_BROKER_EPOCH_CACHE
        and (each.answer is None or each.answer.code != 2007)  # no answer of a follower: ours always leads
    ]


@pytest.mark.parametrize("name", ["controller", "unclean", "python", "three"])
def test_it_answers_as_a_real_one(name: str) -> None:
    stage = Stage()
    for exchange in scene(name):
        stage.play(exchange)
    assert stage.compared > 5


class Stage:
    """A broker lives from its first 1003 until it is killed, and sends a heartbeat before every exchange."""

    def __init__(self) -> None:
        self.seated = SeatedController(RecordingDisk())
        self.client = self.seated.seat()
        self.brokers: dict[int, Seat] = {}
        self.leapt = 0
        self.compared = 0

    def play(self, exchange: ControllerExchange) -> None:
        self.seated.now_s = exchange.at_ms / 1000
        self.beat()
        if (dying := DIES_BEFORE.get(exchange.name)) is not None:
            self.brokers.pop(dying).hang_up()
        self.leapt += EPOCHS_LEAPT.get(exchange.name, 0)
        code = exchange.request.code
        if code == R.NOTIFY_BROKER_ROLE_CHANGED:
            self.check_notice(exchange.request)
            return
        request = self.as_ours(exchange.request)
        if code == R.CONTROLLER_REGISTER_BROKER and exchange.answer is not None and not exchange.answer.code:
            self.give_id(request.ext)
        answer = self.client.exchange(request)
        if code == R.CONTROLLER_REGISTER_BROKER and answer is not None and not answer.code:
            self.brokers[int(request.ext["brokerId"])] = self.seated.seat()
        if exchange.answer is None:
            return
        assert answer is not None, exchange.name
        if exchange.name in NOT_OURS:
            assert self.said(answer) != self.said(exchange.answer)
        elif code == R.GET_CONTROLLER_CONFIG:
            check_config(answer, exchange.answer)
        else:
            theirs = self.said(exchange.answer, self.leapt)
            if exchange.name in WITH_A_PHANTOM:
                assert theirs["body"]["brokerMemberGroup"]["brokerAddrs"].pop("8") == "zzz"
            assert self.said(answer) == theirs, exchange.name
            self.compared += 1

    def give_id(self, ext: dict[str, str]) -> None:
        """Of equal exchanges only one was kept, so a 1013 may be missing."""
        header = ApplyBrokerIdHeader(
            cluster_name=ext["clusterName"],
            broker_name=ext["brokerName"],
            applied_broker_id=int(ext["brokerId"]),
            register_check_code=f"{ext['brokerAddress']};1",
        )
        answer = self.client.ask(R.CONTROLLER_APPLY_BROKER_ID, header)
        assert answer.code in (0, ResponseCode.CONTROLLER_BROKER_ID_INVALID)

    def beat(self) -> None:
        for broker_id, seat in self.brokers.items():
            header = BrokerHeartbeatHeader(
                cluster_name="DefaultCluster", broker_addr="", broker_name="broker-a", broker_id=broker_id, epoch=-1,
                max_offset=100,
            )  # fmt: skip
            assert seat.exchange(seat.request(R.BROKER_HEARTBEAT, header, oneway=True)) is None

    def as_ours(self, request: Command) -> Command:
        if "masterEpoch" not in request.ext:
            return request
        epoch = int(request.ext["masterEpoch"]) - self.leapt
        return msgspec.structs.replace(request, ext={**request.ext, "masterEpoch": str(epoch)})

    def said(self, answer: Command, leapt: int = 0) -> dict[str, Any]:
        ext = dict(answer.ext)
        body = fastjson.parse_untrusted(answer.body) if answer.body else None
        if leapt and "masterEpoch" in ext:
            ext["masterEpoch"] = str(int(ext["masterEpoch"]) - leapt)
        if leapt and answer.body:
            for each in body.get("replicasInfoTable", {}).values():
                each["masterEpoch"] -= leapt
        return {"code": answer.code, "remark": answer.remark, "ext": ext, "body": body}

    def check_notice(self, notice: Command) -> None:
        header, body, addresses = self.seated.notices.told[-1]
        told = msgspec.structs.replace(header, master_epoch=(header.master_epoch or 0) + self.leapt)
        assert to_ext(told) == notice.ext
        assert fastjson.parse_untrusted(body) == fastjson.parse_untrusted(notice.body)
        assert header.master_address in addresses
        assert len(addresses) == len(self.brokers), "all that live"
        self.compared += 1


def check_config(ours: Command, theirs: Command) -> None:
    """Apache's controller ran inside a nameserver, which adds settings of its own."""
    known, wanted = (java_properties.parse_untrusted(each.body) for each in (ours, theirs))
    assert known.keys() == wanted.keys() - {"enableControllerInNamesrv", "kvConfigPath"}
    own = {key for key in known if "Path" in key or "DLeger" in key or "Home" in key} | {
        "jraftConfig",
        "listenPort",
        "mappedFileSize",
    }
    assert {key: known[key] for key in known.keys() - own} == {key: wanted[key] for key in known.keys() - own}


SINGLE = [
    "1012-CONTROLLER_GET_NEXT_BROKER_ID/01",
    "1013-CONTROLLER_APPLY_BROKER_ID/01",
    "1003-CONTROLLER_REGISTER_BROKER/01",
    "1002-CONTROLLER_ELECT_MASTER/01",
    "904-BROKER_HEARTBEAT/03",
    *(f"100{name}" for name in ("4-CONTROLLER_GET_REPLICA_INFO/01", "6-CONTROLLER_GET_SYNC_STATE_DATA/01")),
    *(f"1005-CONTROLLER_GET_METADATA_INFO/0{number}" for number in (2, 3)),
    *(f"1002-CONTROLLER_ELECT_MASTER/0{number}" for number in (2, 3)),
    *(f"1009-UPDATE_CONTROLLER_CONFIG/0{number}" for number in (1, 2)),
    *(f"1011-CLEAN_BROKER_DATA/0{number}" for number in (1, 2)),
]
"""The life of one broker with a controller, in the main file of exchanges."""


def test_the_life_of_one_broker_is_as_with_a_real_one() -> None:
    seated = SeatedController(RecordingDisk())
    seated.settle()
    client = seated.seat()
    for name in SINGLE:
        recorded = golden.exchange(name)
        answer = client.exchange(decode_frame_untrusted(recorded.request))
        assert golden.said(answer) == golden.said(recorded.answer), name
    recorded = golden.exchange("1010-GET_CONTROLLER_CONFIG/01")
    config = client.exchange(decode_frame_untrusted(recorded.request))
    assert config is not None
    assert recorded.answer is not None
    check_config(config, recorded.answer)


def test_the_heartbeat_is_answered_as_by_a_real_one() -> None:
    seated = SeatedController(RecordingDisk())
    (exchange,) = (each for each in controller_exchanges() if each.name == "904-BROKER_HEARTBEAT/07")
    assert exchange.answer is not None
    answer = seated.seat().exchange(exchange.request)
    assert (answer.code, answer.remark) == (exchange.answer.code, exchange.answer.remark)
    nameless = Command(
        code=904, ext={**to_ext(BrokerHeartbeatHeader(cluster_name="c", broker_addr="a", broker_name="b"))}
    )
    refused = seated.seat().exchange(nameless)
    assert (refused.code, refused.remark) == (2005, "Heart beat with empty brokerId")
