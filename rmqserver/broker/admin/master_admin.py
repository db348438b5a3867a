"""What tools ask of a master: its slaves; read limits for cold data, which are kept and shown but hold nothing back;
and RocksDB, which this broker does not have (``AdminBrokerProcessor``, 5.5.0)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rmqproto.bodies.master import ColdDataFlow, HaStatus
from rmqproto.codes import ResponseCode
from rmqproto.headers.controller import HaInfoHeader
from rmqproto.java import java_properties
from rmqserver.broker.errors import TableFull
from rmqserver.operation import Refused

if TYPE_CHECKING:
    from rmqserver.broker.own_address import OwnAddress
    from rmqserver.broker.replicas.ha_master import HaMaster
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.operation import Peer

LIMITS_MAX = 10_000
_INT64_MAX = (1 << 63) - 1
_CONFIG_TYPES = frozenset({"topics", "subscriptiongroups", "consumeroffsets"})
"""``ExportRocksDBConfigToJsonRequestHeader.ConfigType``, in lower case."""

_MADV_NORMAL, _MADV_RANDOM = 0, 1


class MasterAdmin:
    def __init__(self, config: BrokerConfig, replicas: HaMaster, address: OwnAddress):
        self._config = config
        self._replicas = replicas
        self._address = address
        self._cold_limits_bytes: dict[str, int] = {}
        """By group. As in Apache's broker, they last as long as the process."""

    def status(self) -> HaStatus:
        return self._replicas.status()

    def ha_info(self, header: HaInfoHeader, peer: Peer) -> HaInfoHeader:
        """This master's addresses, as the peer reaches it. A request that names another master changes nothing."""
        if header.master_ha_address is not None:
            return HaInfoHeader()
        addr = self._address.address(peer)
        ha_addr = self._config.ha_addr(addr.rpartition(":")[0])
        return HaInfoHeader(master_address=addr, master_flush_offset=0, master_ha_address=ha_addr)

    # --- cold data ---------------------------------------------------------------------------------------------------

    def set_cold_limits(self, text: bytes) -> None:
        """Takes lines of ``group=bytes``. As in Apache's broker, values that are not numbers are skipped."""
        for group, limit in java_properties.parse_untrusted(text).items():
            if not re.fullmatch(r"[-+]?[0-9]{1,19}", limit) or abs(int(limit)) > _INT64_MAX:
                continue
            if len(self._cold_limits_bytes) >= LIMITS_MAX and group not in self._cold_limits_bytes:
                raise TableFull(f"limits of {LIMITS_MAX} groups are kept, and no more are taken")
            self._cold_limits_bytes[group] = int(limit)

    def remove_cold_limit(self, group: str) -> None:
        self._cold_limits_bytes.pop(group, None)

    def cold_limits(self) -> ColdDataFlow:
        return ColdDataFlow(
            config_table=self._cold_limits_bytes,
            cg_cold_read_threshold=int(self._config.text("cgColdReadThreshold")),
            global_cold_read_threshold=int(self._config.text("globalColdReadThreshold")),
        )

    def read_mode(self, mode: str | None) -> int:
        """The mode that is asked for. Nothing changes: it is ``madvise`` for a mapped log; ours is read by ``pread``,
        and the kernel adapts."""
        if mode is None or not re.fullmatch(r"[-+]?[0-9]{1,10}", mode):
            raise Refused(ResponseCode.SYSTEM_ERROR, "set commitlog readahead mode failed")
        if int(mode) not in (_MADV_NORMAL, _MADV_RANDOM):
            raise Refused(ResponseCode.INVALID_PARAMETER, "set commitlog readahead mode param value error")
        return int(mode)

    @staticmethod
    def check_export(config_type: str) -> None:
        """Raises Refused for an unknown kind of table. Nothing is exported, since the tables are JSON already; Apache's
        broker then also answers that it is done."""
        for kind in config_type.split(";"):
            if kind and kind.strip().lower() not in _CONFIG_TYPES:
                raise Refused(ResponseCode.SYSTEM_ERROR, f"Unknown config type: {kind.strip()}")
