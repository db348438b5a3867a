"""The nameserver of this process, and the file of its key-value table."""

from __future__ import annotations

import logging
from pathlib import Path

from rmqserver.command_line import ServerPlan
from rmqserver.config.namesrv_config import NamesrvConfig
from rmqserver.namesrv.kv import KvConfig
from rmqserver.namesrv.nameserver import Nameserver
from rmqserver.process.entrance import Entrance

log = logging.getLogger(__name__)


class NamesrvHost:
    """It listens as soon as it is made. ``close`` it."""

    def __init__(self, config: NamesrvConfig, plan: ServerPlan, entrance: Entrance):
        """UsageError if the port is not available, StorageError if the file cannot be read; nothing stays open then."""
        self._kv = KvConfig(Path(plan.kv_path) if plan.kv_path else None)
        self._kv.load()
        self.nameserver = Nameserver(config, self._kv, notices=entrance.make_notices())
        self.takes_brokers_users = config.auth_enabled and plan.broker is not None
        if config.auth_enabled and not self.takes_brokers_users:
            entrance.guard_alone(self.nameserver)
        port = entrance.listen(config.listen_port, self.nameserver)
        config.record({"listenPort": str(port)})
        self.addr = entrance.local_addr(port)
        log.info("event=namesrv-opened addr=%s kv_file=%s", self.addr, plan.kv_path or "none")

    def close(self) -> bool:
        """False if the key-value table is not on the device."""
        return self._kv.close()
