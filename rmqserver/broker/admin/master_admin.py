"""What tools ask of a master: its slaves; read limits for cold data, which are kept and shown but hold nothing back;
and RocksDB, which this broker does not have (``AdminBrokerProcessor``, 5.5.0)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from rmqproto.bodies.master import ColdDataFlow, RocksDbProgress
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.headers.controller import HaInfoHeader
from rmqproto.headers.tables import ExportConfigHeader, ReadModeHeader
from rmqproto.java import java_properties
from rmqproto.wire.fastjson import dumps
from rmqserver.broker.errors import TableFull
from rmqserver.operation import UNSET_REMARK, Refused
from rmqserver.remoting.answer import Request, success

if TYPE_CHECKING:
    from rmqserver.broker.parts import BrokerParts
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.service import Handler

LIMITS_MAX = 10_000
_INT64_MAX = (1 << 63) - 1
_CHECK_UNDER_WAY = 2
_CONFIG_TYPES = frozenset({"topics", "subscriptiongroups", "consumeroffsets"})
"""``ExportRocksDBConfigToJsonRequestHeader.ConfigType``, in lower case."""

_MADV_NORMAL, _MADV_RANDOM = 0, 1


class MasterAdmin:
    def __init__(self, parts: BrokerParts):
        self._config = parts.config
        self._replicas = parts.replicas
        self._address = parts.address
        self._cold_limits_bytes: dict[str, int] = {}
        """By group. As in Apache's broker, they last as long as the process."""

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.GET_BROKER_HA_STATUS: self.ha_status,
            RequestCode.EXCHANGE_BROKER_HA_INFO: self.ha_info,
            RequestCode.RESET_MASTER_FLUSH_OFFSET: self.reset_master_flush_offset,
            RequestCode.GET_BROKER_EPOCH_CACHE: self.epochs,
            RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: self.set_cold_limits,
            RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: self.remove_cold_limit,
            RequestCode.GET_COLD_DATA_FLOW_CTR_INFO: self.cold_limits,
            RequestCode.SET_COMMITLOG_READ_MODE: self.set_read_mode,
            RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: self.rocks_db_progress,
            RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON: self.export_rocks_db,
        }

    # --- slaves and controller ---------------------------------------------------------------------------------------

    def ha_status(self, request: Request[Any], connection: Connection) -> bytes:
        return success(request, body=dumps(self._replicas.status()))

    def ha_info(self, request: Request[HaInfoHeader], connection: Connection) -> bytes:
        """Answers with this master's addresses. A request that names another master changes nothing."""
        if request.header.master_ha_address is not None:
            return success(request, HaInfoHeader())
        addr = self._address.address(connection)
        ha_addr = self._config.ha_addr(addr.rpartition(":")[0])
        return success(request, HaInfoHeader(master_address=addr, master_flush_offset=0, master_ha_address=ha_addr))

    def reset_master_flush_offset(self, request: Request[Any], connection: Connection) -> bytes:
        """Answers success: a master has nothing to reset."""
        return success(request)

    def epochs(self, request: Request[Any], connection: Connection) -> bytes:
        raise Refused(ResponseCode.SYSTEM_ERROR, "this request only for controllerMode ")

    # --- cold data ---------------------------------------------------------------------------------------------------

    def set_cold_limits(self, request: Request[Any], connection: Connection) -> bytes:
        """Takes lines of ``group=bytes``. As in Apache's broker, values that are not numbers are skipped."""
        for group, limit in java_properties.parse_untrusted(request.body).items():
            if not re.fullmatch(r"[-+]?[0-9]{1,19}", limit) or abs(int(limit)) > _INT64_MAX:
                continue
            if len(self._cold_limits_bytes) >= LIMITS_MAX and group not in self._cold_limits_bytes:
                raise TableFull(f"limits of {LIMITS_MAX} groups are kept, and no more are taken")
            self._cold_limits_bytes[group] = int(limit)
        return success(request)

    def remove_cold_limit(self, request: Request[Any], connection: Connection) -> bytes:
        """The body is a group."""
        self._cold_limits_bytes.pop(request.body.decode(errors="replace"), None)
        return success(request)

    def cold_limits(self, request: Request[Any], connection: Connection) -> bytes:
        flow = ColdDataFlow(
            config_table=self._cold_limits_bytes,
            cg_cold_read_threshold=int(self._config.text("cgColdReadThreshold")),
            global_cold_read_threshold=int(self._config.text("globalColdReadThreshold")),
        )
        return success(request, body=dumps(flow))

    def set_read_mode(self, request: Request[ReadModeHeader], connection: Connection) -> bytes:
        """Changes nothing. The mode is ``madvise`` for a mapped log; ours is read by ``pread``, and the kernel
        adapts."""
        mode = request.header.mode
        if mode is None or not re.fullmatch(r"[-+]?[0-9]{1,10}", mode):
            raise Refused(ResponseCode.SYSTEM_ERROR, "set commitlog readahead mode failed")
        if int(mode) not in (_MADV_NORMAL, _MADV_RANDOM):
            raise Refused(ResponseCode.INVALID_PARAMETER, "set commitlog readahead mode param value error")
        return success(request, remark=f"set commitlog readahead mode success, mode: {int(mode)}")

    # --- RocksDB -----------------------------------------------------------------------------------------------------

    def rocks_db_progress(self, request: Request[Any], connection: Connection) -> bytes:
        """Answers at once, as Apache's broker does, which later writes the outcome of the check to its log."""
        return success(request, body=dumps(RocksDbProgress(check_status=_CHECK_UNDER_WAY)), remark=UNSET_REMARK)

    def export_rocks_db(self, request: Request[ExportConfigHeader], connection: Connection) -> bytes:
        """Exports nothing, since the tables are JSON already. Apache's broker then also answers that it is done."""
        for kind in request.header.config_type.split(";"):
            if kind and kind.strip().lower() not in _CONFIG_TYPES:
                raise Refused(ResponseCode.SYSTEM_ERROR, f"Unknown config type: {kind.strip()}")
        return success(request, remark="export done.")
