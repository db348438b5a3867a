"""What a broker of a set answers differently from one that stands alone. It takes no message without a role or a lease,
or while too few brokers are in sync. It asks again who the master is when a controller says so, and tells its
epochs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rmqproto.bodies.replication import EpochCache, EpochEntry
from rmqproto.codes import RequestCode
from rmqproto.headers.request_table import RequestKind, codes_of
from rmqproto.wire.fastjson import dumps
from rmqserver.remoting.answer import Request, success
from rmqserver.store.append.confirmation import OFFSET_MAX

if TYPE_CHECKING:
    from rmqserver.broker.controlled.set_master import SetMaster
    from rmqserver.broker.controlled.set_state import SetState
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.service import Handler

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
