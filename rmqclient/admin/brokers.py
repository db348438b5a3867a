"""Admin calls about a broker as a whole: its state, its configuration, its housekeeping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rmqclient.admin.caller import AdminCaller, body_of, config_request, config_values_untrusted
from rmqproto import bodies, headers
from rmqproto.codes import OwnRequestCode, RequestCode
from rmqproto.wire import fastjson

_EXPORT_TIMEOUT_S = 30.0
"""mqadmin's time-out: the broker answers after writing its files."""


class BrokerCalls(AdminCaller):
    """``broker_addr`` is ``host:port`` throughout."""

    def broker_runtime_info(self, broker_addr: str) -> dict[str, str]:
        """Everything a broker says about its state, all values as text (28)."""
        return self.read(broker_addr, RequestCode.GET_BROKER_RUNTIME_INFO, None, bodies.routes.KvTable).table

    def broker_config(self, broker_addr: str, *, with_own_defaults: bool = False) -> dict[str, str]:
        """A broker's configuration (26); ``with_own_defaults`` as for ``config_values_untrusted``."""
        answer = self.call(broker_addr, RequestCode.GET_BROKER_CONFIG)
        return config_values_untrusted(answer.body, with_own_defaults=with_own_defaults)

    def update_broker_config(self, broker_addr: str, values: Mapping[str, str]) -> None:
        """Sets properties of a broker (25). Apache's broker silently ignores unknown properties and values that do not
        parse; read them back if that matters. RefusedError with code 16 for properties that must not be changed."""
        self.call(broker_addr, RequestCode.UPDATE_BROKER_CONFIG, body=config_request(values))

    def broker_stats(self, broker_addr: str, stats_name: str, stats_key: str) -> bodies.statistics.BrokerStatsData:
        """One statistic over the last minute, hour and day (315), for example TOPIC_PUT_NUMS of a topic. RefusedError
        with code 1 if nothing was counted under the key."""
        header = headers.tables.ViewStatsHeader(stats_name=stats_name, stats_key=stats_key)
        return self.read(broker_addr, RequestCode.VIEW_BROKER_STATS_DATA, header, bodies.statistics.BrokerStatsData)

    def broker_consume_stats(
        self, broker_addr: str, *, ordered: bool = False, timeout_s: float | None = None
    ) -> bodies.statistics.ConsumeStatsList:
        """The offsets of every group on one broker, of its ordered or its other topics (317)."""
        header = headers.tables.BrokerConsumeStatsHeader(is_order=ordered)
        code = RequestCode.GET_BROKER_CONSUME_STATS
        return self.read(broker_addr, code, header, bodies.statistics.ConsumeStatsList, timeout_s=timeout_s)

    def delay_offsets(self, broker_addr: str) -> bodies.statistics.DelayOffsets:
        """The delivery progress of each delay level: next queue offset by level (45)."""
        return self.read(broker_addr, RequestCode.GET_ALL_DELAY_OFFSET, None, bodies.statistics.DelayOffsets)

    def switch_timer_engine(self, broker_addr: str, engine: str) -> None:
        """Makes a broker keep timers in files (F) or in RocksDB (R) from now on (5001). RefusedError with code 29 if it
        was not started with RocksDB timers."""
        self.call(
            broker_addr, RequestCode.SWITCH_TIMER_ENGINE, headers.tables.SwitchTimerEngineHeader(engine_type=engine)
        )

    def ha_status(self, broker_addr: str) -> bodies.replication.HaStatus:
        """The progress of a master's slaves, or of a slave itself (907)."""
        return self.read(broker_addr, RequestCode.GET_BROKER_HA_STATUS, None, bodies.replication.HaStatus)

    def epoch_cache(self, broker_addr: str) -> bodies.replication.EpochCache:
        """Which parts of a replica's log were written under which master (1007). RefusedError with code 1 if the broker
        has no controller."""
        return self.read(broker_addr, RequestCode.GET_BROKER_EPOCH_CACHE, None, bodies.replication.EpochCache)

    def reset_master_flush_offset(self, broker_addr: str, log_offset: int) -> None:
        """Tells a slave how far its master has flushed (908). A master ignores it."""
        header = headers.controller.MasterFlushOffsetHeader(master_flush_offset=log_offset)
        self.call(broker_addr, RequestCode.RESET_MASTER_FLUSH_OFFSET, header)

    # --- reads of cold data ------------------------------------------------------------------------------------------

    def cold_data_flow(self, broker_addr: str) -> bodies.replication.ColdDataFlow:
        """How much cold data groups have read, and how much they may read (2003)."""
        return self.read(broker_addr, RequestCode.GET_COLD_DATA_FLOW_CTR_INFO, None, bodies.replication.ColdDataFlow)

    def set_cold_limit(self, broker_addr: str, group: str, limit_bytes: int) -> None:
        """Sets how much cold data one group may read (2001)."""
        body = config_request({group: str(limit_bytes)})
        self.call(broker_addr, RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, body=body)

    def remove_cold_limit(self, broker_addr: str, group: str) -> None:
        """Removes a group's own limit, so that the general limit applies (2002)."""
        self.call(broker_addr, RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG, body=group.encode())

    def set_read_mode(self, broker_addr: str, mode: str) -> str:
        """Sets the access pattern that a broker announces to the kernel for its log: 0 normal, 1 random (2004). Returns
        the broker's answer."""
        header = headers.tables.ReadModeHeader(mode=mode)
        return self.call(broker_addr, RequestCode.SET_COMMITLOG_READ_MODE, header).remark or ""

    # --- tables in RocksDB -------------------------------------------------------------------------------------------

    def check_rocksdb_queues(
        self, broker_addr: str, topic: str, stored_after_ms: int
    ) -> bodies.replication.RocksDbProgress:
        """Makes a broker compare its consume queues in RocksDB and in files, of one topic or (empty) of all (354). It
        answers at once and writes the result to its log."""
        header = headers.tables.CheckQueuesHeader(topic=topic, check_store_time=stored_after_ms)
        return self.read(
            broker_addr, RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS, header, bodies.replication.RocksDbProgress
        )

    def export_rocksdb_tables(self, broker_addr: str, kinds: Sequence[str]) -> None:
        """Makes a broker write its tables in RocksDB to JSON files on its own disk (355)."""
        header = headers.tables.ExportConfigHeader(config_type="".join(f"{kind};" for kind in kinds))
        code = RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON
        self.call(broker_addr, code, header, timeout_s=_EXPORT_TIMEOUT_S)

    def export_pop_records(self, broker_addr: str) -> None:
        """Makes a broker write its POP records from RocksDB to files (200056)."""
        self.call(broker_addr, RequestCode.POP_ROLLBACK, timeout_s=_EXPORT_TIMEOUT_S)

    # --- housekeeping ------------------------------------------------------------------------------------------------

    def clean_expired_consume_queues(self, broker_addr: str) -> None:
        """Makes a broker delete consume queue files whose messages are gone (306)."""
        self.call(broker_addr, RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)

    def delete_expired_commit_log(self, broker_addr: str) -> None:
        """Makes a broker delete commit log files past their time (329)."""
        self.call(broker_addr, RequestCode.DELETE_EXPIRED_COMMITLOG)

    def clean_unused_topics(self, broker_addr: str) -> None:
        """Makes a broker delete the consume queues of topics that it does not know (316)."""
        self.call(broker_addr, RequestCode.CLEAN_UNUSED_TOPIC)


# --- what only our own broker serves, and only for tests (docs/testing.md) -------------------------------------------

_SNAPSHOT_TIMEOUT_S = 60.0
"""Long, because stores are copied."""


class FaultCalls(AdminCaller):
    """RefusedError with code 16 from a broker that does not serve requests for tests because it keeps its store, with
    code 3 from Apache's."""

    def set_faults(self, broker_addr: str, rules: Sequence[str]) -> None:
        """Replaces the fault rules; no rules means no faults. RefusedError with code 29, and no change, if a rule is
        not valid."""
        body = fastjson.dumps(bodies.own_requests.FaultRules(rules=list(rules)))
        self.call(broker_addr, OwnRequestCode.SET_FAULTS, body=body)

    def faults(self, broker_addr: str) -> list[bodies.own_requests.FaultState]:
        """The rules and how often each was hit."""
        return body_of(self.call(broker_addr, OwnRequestCode.GET_FAULTS), bodies.own_requests.FaultStates).faults


class SnapshotCalls(AdminCaller):
    """RefusedError as of ``FaultCalls``; with code 2 while another of these calls is under way. The broker restarts on
    its ports: all other connections to it are closed, and clients reconnect as after a restart."""

    def reset_broker(self, broker_addr: str) -> None:
        """Deletes topics, groups, offsets and messages, and creates again what ``--seed`` says."""
        self.call(broker_addr, OwnRequestCode.RESET, timeout_s=_SNAPSHOT_TIMEOUT_S)

    def save_snapshot(self, broker_addr: str, name: str) -> None:
        """Saves the broker's state under this name, replacing an earlier snapshot. A name has letters, digits, ``-``
        and ``_``."""
        self._call_named(broker_addr, OwnRequestCode.SNAPSHOT, name)

    def restore_snapshot(self, broker_addr: str, name: str) -> None:
        """Restores the state of a snapshot. RefusedError with code 22 if there is no such snapshot."""
        self._call_named(broker_addr, OwnRequestCode.RESTORE, name)

    def snapshots(self, broker_addr: str) -> list[str]:
        """The names of all snapshots."""
        return body_of(self.call(broker_addr, OwnRequestCode.GET_SNAPSHOTS), bodies.own_requests.SnapshotNames).names

    def _call_named(self, broker_addr: str, code: OwnRequestCode, name: str) -> None:
        self.call(
            broker_addr,
            code,
            body=fastjson.dumps(bodies.own_requests.SnapshotName(name=name)),
            timeout_s=_SNAPSHOT_TIMEOUT_S,
        )
