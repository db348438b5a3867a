"""What a broker answers differently by its role. A slave takes no messages, and is read only while it may be
(``SendMessageProcessor.rejectRequest``, 5.5.0). A broker of a set takes none without a role or a lease, or while too
few brokers are in sync; it asks again who the master is when a controller says so, and tells its epochs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rmqproto.bodies.replication import EpochCache, EpochEntry
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.ha import MASTER_ID
from rmqproto.headers.consuming import PullAnswer, PullHeader
from rmqproto.headers.controller import HaInfoHeader, MasterFlushOffsetHeader
from rmqproto.headers.request_table import RequestKind, codes_of
from rmqproto.wire.fastjson import dumps
from rmqserver.doors.remoting.handlers import value_of
from rmqserver.operation import Refused
from rmqserver.remoting.answer import Request, success
from rmqserver.request_rules import OnSlave, on_slave
from rmqserver.store.append.confirmation import OFFSET_MAX

if TYPE_CHECKING:
    from rmqserver.broker.controlled.set_master import SetMaster
    from rmqserver.broker.controlled.set_state import SetState
    from rmqserver.broker.replicas.slave import Slave
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.service import Handler


REJECTED_TEXT = "[REJECTREQUEST]system busy, start flow control for a while"
NO_RESET_TEXT = "Can not reset offset in slave broker"
OTHER_LOG_TEXT = "the log of this slave is not its master's"

READS, WRITES, ENDINGS = on_slave(OnSlave.READ), on_slave(OnSlave.REFUSED), on_slave(OnSlave.ENDS_NOTHING)


def retry_at_master(pull: PullHeader, remark: str | None) -> Refused:
    """The refusal after which a consumer asks the master: after any other, it would ask here again."""
    at = pull.queue_offset
    again = PullAnswer(suggest_which_broker_id=MASTER_ID, next_begin_offset=at, min_offset=at, max_offset=at)
    return Refused(ResponseCode.PULL_RETRY_IMMEDIATELY, remark, again)


class SlaveRefusals:
    def __init__(self, config: BrokerConfig, slave: Slave):
        self._config = config
        self._slave = slave

    def handlers(self, table: Mapping[int, Handler]) -> dict[int, Handler]:
        """Handlers that replace some of the table's."""
        changed: dict[int, Handler] = dict.fromkeys(WRITES, _reject) | dict.fromkeys(ENDINGS, _reject_ending)
        for code in READS:
            changed[code] = self._read_by(table[code])
        reset = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
        changed[reset] = self._reset_by(table[reset])
        changed[RequestCode.GET_BROKER_HA_STATUS] = value_of(lambda request, _: self._slave.log.status())
        changed[RequestCode.EXCHANGE_BROKER_HA_INFO] = self._told_master
        changed[RequestCode.RESET_MASTER_FLUSH_OFFSET] = self._reset_master_flush_offset
        changed[RequestCode.GET_ALL_DELAY_OFFSET] = value_of(lambda request, _: self._slave.delay_offsets())
        if self._config.timer_wheel_enable:
            changed[RequestCode.GET_TIMER_CHECK_POINT] = lambda request, _: success(
                request, body=self._slave.timer_checkpoint()
            )
        return {code: handler for code, handler in changed.items() if code in table}

    def _told_master(self, request: Request[HaInfoHeader], connection: Connection) -> bytes:
        self._slave.told_master(request.header)
        return success(request, HaInfoHeader())

    def _reset_master_flush_offset(self, request: Request[MasterFlushOffsetHeader], connection: Connection) -> bytes:
        """Only shown in the status: our slave does not use the offset."""
        self._slave.log.master_flush_offset = request.header.master_flush_offset
        return success(request)

    def _read_by(self, read: Handler) -> Handler:
        def handle(request: Request[Any], connection: Connection) -> bytes | None:
            if self._slave.may_be_read:
                return read(request, connection)
            if self._slave.is_beside_master:
                raise retry_at_master(request.header, OTHER_LOG_TEXT)
            return _reject(request, connection)

        return handle

    def _reset_by(self, reset: Handler) -> Handler:
        """The next copy of the master's offsets would undo a reset in this broker; one that only tells the clients
        stays."""

        def handle(request: Request[Any], connection: Connection) -> bytes | None:
            if self._config.use_server_side_reset_offset:
                raise Refused(ResponseCode.SYSTEM_ERROR, NO_RESET_TEXT)
            return reset(request, connection)

        return handle


def _reject(request: Request[Any], connection: Connection) -> bytes:
    raise Refused(ResponseCode.SYSTEM_BUSY, REJECTED_TEXT)


def _reject_ending(request: Request[Any], connection: Connection) -> bytes:
    raise Refused(ResponseCode.SLAVE_NOT_AVAILABLE, None)


_PUTS = codes_of(RequestKind.PUT)


class MemberRequests:
    def __init__(self, state: SetState, replicas: SetMaster):
        self._config = replicas.config
        self._store = replicas.store
        self._state = state
        self._replicas = replicas

    def handlers(self, table: Mapping[int, Handler]) -> dict[int, Handler]:
        """Handlers that replace some of the table's, and additional ones."""
        changed: dict[int, Handler] = {code: self._put_by(table[code]) for code in _PUTS if code in table}
        changed[RequestCode.NOTIFY_BROKER_ROLE_CHANGED] = self._look_again
        changed[RequestCode.GET_BROKER_EPOCH_CACHE] = self._epochs
        return changed

    def _put_by(self, put: Handler) -> Handler:
        def handle(request: Request[Any], connection: Connection) -> bytes | None:
            refused = self._replicas.put_refusal()
            if refused is not None:
                raise refused
            return put(request, connection)

        return handle

    def may_put(self) -> bool:
        """Whether a message may be stored now."""
        return self._replicas.put_refusal() is None

    def _look_again(self, request: Request[Any], connection: Connection) -> bytes:
        """An Apache broker believes the request. Ours asks the controller, since anyone can send one."""
        self._state.look_again()
        return success(request)

    def _epochs(self, request: Request[Any], connection: Connection) -> bytes:
        config, epochs = self._config, self._state.epochs.epochs
        body = EpochCache(
            broker_id=config.broker_id,
            broker_name=config.broker_name,
            cluster_name=config.broker_cluster_name,
            epoch_list=[
                EpochEntry(
                    epoch=entry.epoch, start_offset=entry.start_offset, end_offset=epochs.end_of(entry, OFFSET_MAX)
                )
                for entry in epochs.entries
            ],
            max_offset=self._store.written_offset,
        )
        return success(request, body=dumps(body))
