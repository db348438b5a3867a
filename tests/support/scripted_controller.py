"""A controller of one set that elects the broker a test names, over real sockets. It answers and refuses as a
controller of Apache RocketMQ 5.5.0 does."""

import threading
from typing import Self

from rmqproto.bodies.replication import ElectedMaster, SyncStateSet
from rmqproto.codes import ONEWAY_FLAG, RequestCode, ResponseCode
from rmqproto.headers.base import to_ext
from rmqproto.headers.controller import (
    AlterSyncStateSetAnswer,
    ControllerMetaAnswer,
    ElectMasterAnswer,
    NextBrokerIdAnswer,
    RegisterToControllerAnswer,
    ReplicaInfoAnswer,
    RoleChangeHeader,
)
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command, encode_frame
from tests.support.broker_set import BROKER_NAME
from tests.support.peer import CLOSE, Peer, answer
from tests.support.wire import Wire


class ScriptedController:
    """``master`` 0 means no master. Requests with ``silent`` codes are ignored; those with ``lost`` codes are carried
    out but not answered."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.addrs: dict[int, str] = {}
        self.codes: dict[int, str] = {}
        self.master = 0
        self.epoch = 0
        self.members: set[int] = set()
        self.set_epoch = 0
        self.silent: set[int] = set()
        self.lost: set[int] = set()
        self.refused_sets: list[int] = []
        """Response codes of the refused changes of the in-sync set."""
        self.is_electing = True
        self.peer = Peer(self._reply)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.peer.hang_up()

    def elect(self, broker_id: int, *, tells: bool = True) -> None:
        """Makes the broker of that id the master."""
        with self.lock:
            self.master, self.epoch, self.members = broker_id, self.epoch + 1, {broker_id}
            self.set_epoch += 1
            header = RoleChangeHeader(
                master_broker_id=broker_id, master_address=self.addrs[broker_id], master_epoch=self.epoch,
                sync_state_set_epoch=self.set_epoch,
            )  # fmt: skip
            notice = Command(
                code=RequestCode.NOTIFY_BROKER_ROLE_CHANGED, opaque=1, flag=ONEWAY_FLAG, ext=to_ext(header),
                body=self._set(),
            )  # fmt: skip
        for addr in self.addrs.values() if tells else ():
            try:
                with Wire(addr) as wire:
                    wire.send(encode_frame(notice))
            except OSError:
                continue

    def _set(self) -> bytes:
        body = SyncStateSet(sync_state_set=sorted(self.members), sync_state_set_epoch=self.set_epoch)
        return fastjson.dumps(body)

    def _reply(self, request: Command) -> object:
        if request.code in self.silent:
            return CLOSE
        with self.lock:
            found = self._answer(request)
        return CLOSE if request.code in self.lost else found

    def _answer(self, request: Command) -> Command:
        ext = request.ext or {}
        match request.code:
            case RequestCode.CONTROLLER_GET_METADATA_INFO:
                meta = ControllerMetaAnswer(controller_leader_address=self.peer.address, is_leader=True)
                return answer(request, fields=meta)
            case RequestCode.CONTROLLER_GET_NEXT_BROKER_ID:
                return answer(request, fields=NextBrokerIdAnswer(next_broker_id=len(self.codes) + 1))
            case RequestCode.CONTROLLER_APPLY_BROKER_ID:
                broker_id, code = int(ext["appliedBrokerId"]), ext["registerCheckCode"]
                if self.codes.setdefault(broker_id, code) != code:
                    return answer(request, ResponseCode.CONTROLLER_BROKER_ID_INVALID, remark="taken")
                self.addrs[broker_id] = code.partition(";")[0]
                return answer(request)
            case RequestCode.CONTROLLER_REGISTER_BROKER:
                self.addrs[int(ext["brokerId"])] = ext["brokerAddress"]
                header = RegisterToControllerAnswer(cluster_name=ext["clusterName"], broker_name=BROKER_NAME)
                if self.master:
                    header = RegisterToControllerAnswer(
                        master_broker_id=self.master, master_address=self.addrs[self.master], master_epoch=self.epoch,
                        sync_state_set_epoch=self.set_epoch,
                    )  # fmt: skip
                return answer(request, fields=header, body=self._set())
            case RequestCode.CONTROLLER_ELECT_MASTER:
                return self._elect(request, int(ext["brokerId"]))
            case RequestCode.CONTROLLER_GET_REPLICA_INFO:
                info = ReplicaInfoAnswer(
                    master_broker_id=self.master or None, master_address=self.addrs.get(self.master),
                    master_epoch=self.epoch,
                )  # fmt: skip
                return answer(request, fields=info, body=self._set())
            case RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET:
                return self._alter(request, int(ext["masterBrokerId"]), int(ext["masterEpoch"]))
        return answer(request)

    def _elect(self, request: Command, broker_id: int) -> Command:
        code = ResponseCode.CONTROLLER_MASTER_STILL_EXIST
        if not self.master:
            if not self.is_electing:
                return answer(
                    request, ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, remark="Failed to elect a new master"
                )
            self.master, self.epoch, self.members, self.set_epoch = broker_id, self.epoch + 1, {broker_id}, 1
            code = ResponseCode.SUCCESS
        header = ElectMasterAnswer(
            master_broker_id=self.master, master_address=self.addrs[self.master], master_epoch=self.epoch,
            sync_state_set_epoch=self.set_epoch,
        )  # fmt: skip
        return answer(request, code, header, fastjson.dumps(ElectedMaster(sync_state_set=sorted(self.members))))

    def _alter(self, request: Command, master: int, epoch: int) -> Command:
        wanted = fastjson.loads_untrusted(request.body, SyncStateSet)
        code = 0
        if master != self.master:
            code = ResponseCode.CONTROLLER_INVALID_MASTER
        elif epoch != self.epoch:
            code = ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH
        elif wanted.sync_state_set_epoch != self.set_epoch:
            code = ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH
        if code:
            self.refused_sets.append(code)
            return answer(request, code, AlterSyncStateSetAnswer(), remark="refused")
        self.members, self.set_epoch = set(wanted.sync_state_set), self.set_epoch + 1
        header = AlterSyncStateSetAnswer(new_sync_state_set_epoch=self.set_epoch)
        return answer(request, fields=header, body=self._set())
