"""The settings of a broker."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from rmqproto.bodies.routes import QUEUE_NUMS_MAX
from rmqproto.errors import UsageError
from rmqproto.java.java_numbers import INT_MAX, LONG_MAX
from rmqserver.auth.auth_settings import ACL_1, AUTHENTICATION
from rmqserver.config.keyed_settings import Settings, setting
from rmqserver.config.setting_values import (
    MILLISECONDS,
    TIME_MAX_MS,
    BrokerRole,
    between,
    parse_addresses,
    parse_delay_levels_ms,
    parse_flush_mode,
    parse_host,
    parse_hours,
    parse_metrics_exporter,
    parse_named_rates,
    parse_namesrvs,
    parse_period_ms,
    parse_permission,
    parse_positive,
    parse_request_mode,
    parse_role,
    parse_timer_precision_ms,
    shown,
)
from rmqserver.limits import NamedRates, parse_rates
from rmqserver.store.options import FlushMode, StoreOptions, TimerOptions, bounded_disk_percent


@dataclasses.dataclass(init=False, eq=False)
class BrokerConfig(Settings):
    """A broker's settings; ``store_options`` are those of its store."""

    keys_file = "broker_keys.txt"
    own_keys_files = ("own_keys.txt", "own_broker_keys.txt")
    refused = {
        "storeType": frozenset({"defaultRocksDB"}),
        "enableDLegerCommitLog": frozenset({"true"}),
        "enableRemoteEscape": frozenset({"true"}),
        "enableSlaveActingMaster": frozenset({"true"}),
        "duplicationEnable": frozenset({"true"}),
        "enableConsumeQueueExt": frozenset({"true"}),
        "timerWheelSnapshotFlush": frozenset({"true"}),
    }
    instead = {
        "enableDLegerCommitLog": "a set of brokers under controllers fails over (enableControllerMode=true); "
        "docs/replication.md says how to get there",
        "enableRemoteEscape": "what is due waits for the master, which alone knows what it has delivered; a set under "
        "controllers (enableControllerMode=true) has a master that delivers it",
        "enableSlaveActingMaster": "in a set of brokers under controllers (enableControllerMode=true) a slave becomes "
        "the master, and takes messages, too; a slave that clients may read has slaveReadEnable=true. "
        "docs/replication.md says how to get there",
    }

    # Its names and addresses.
    broker_cluster_name: str = setting("brokerClusterName")
    broker_name: str = setting("brokerName")
    broker_id: int = setting("brokerId", between(0, LONG_MAX))
    broker_ip1: str = setting("brokerIP1")
    broker_ip2: str = setting("brokerIP2", parse_host)
    listen_port: int = setting("listenPort", between(0, 65_535))
    grpc_server_port: int = setting("grpcServerPort", between(0, 65_535))
    namesrv_addresses: tuple[str, ...] = setting("namesrvAddr", parse_namesrvs)
    register_name_server_period_ms: int = setting("registerNameServerPeriod")
    register_broker_timeout_ms: int = setting("registerBrokerTimeoutMills", between(100, 600_000))
    broker_permission: int = setting("brokerPermission", parse_permission)
    region_id: str = setting("regionId")
    store_path_root_dir: str = setting("storePathRootDir")
    rocketmq_home: str = setting("rocketmqHome")
    """The directory with the files of ACL 1.0 (``auth_settings``)."""

    # Its slaves.
    broker_role: BrokerRole = setting("brokerRole", parse_role)  # noqa: RUF009 - a field all the same
    ha_listen_port: int = setting("haListenPort", between(0, 65_535))
    in_sync_replicas: int = setting("inSyncReplicas", between(-INT_MAX - 1, INT_MAX))
    slave_timeout_ms: int = setting("slaveTimeout", between(1, MILLISECONDS["d"]))
    sync_broker_metadata_period_ms: int = setting("syncBrokerMetadataPeriod", parse_period_ms)
    slave_read_enable: bool = setting("slaveReadEnable")
    offset_check_in_slave: bool = setting("offsetCheckInSlave")
    sync_master_flush_offset_when_startup: bool = setting("syncMasterFlushOffsetWhenStartup")
    sync_from_last_file: bool = setting("syncFromLastFile")
    ha_send_heartbeat_interval_ms: int = setting("haSendHeartbeatInterval", parse_period_ms)
    ha_housekeeping_interval_ms: int = setting("haHousekeepingInterval", parse_period_ms)
    ha_transfer_batch_size_bytes: int = setting("haTransferBatchSize", between(1024, 4 << 20))
    ha_max_gap_not_in_sync_bytes: int = setting("haMaxGapNotInSync", between(0, INT_MAX))
    ha_flow_control_enable: bool = setting("haFlowControlEnable")
    max_ha_transfer_byte_in_second: int = setting("maxHaTransferByteInSecond", between(1, LONG_MAX))

    # Its set, whose master the controllers choose.
    enable_controller_mode: bool = setting("enableControllerMode")
    controller_addresses: tuple[str, ...] = setting("controllerAddr", parse_addresses)
    store_path_broker_identity: str = setting("storePathBrokerIdentity")
    store_path_epoch_file: str = setting("storePathEpochFile")
    all_ack_in_sync_state_set: bool = setting("allAckInSyncStateSet")
    min_in_sync_replicas: int = setting("minInSyncReplicas", between(1, INT_MAX))
    master_lease_enable: bool = setting("masterLeaseEnable")
    forward_to_master_enable: bool = setting("forwardToMasterEnable")
    async_learner: bool = setting("asyncLearner")
    ha_max_time_slave_not_catchup_ms: int = setting("haMaxTimeSlaveNotCatchup", between(1, LONG_MAX))
    check_sync_state_set_period_ms: int = setting("checkSyncStateSetPeriod", parse_period_ms)
    sync_controller_metadata_period_ms: int = setting("syncControllerMetadataPeriod", parse_period_ms)
    broker_heartbeat_interval_ms: int = setting("brokerHeartbeatInterval", parse_period_ms)
    controller_heart_beat_timeout_ms: int = setting("controllerHeartBeatTimeoutMills", between(100, LONG_MAX))
    broker_election_priority: int = setting("brokerElectionPriority", between(-INT_MAX - 1, INT_MAX))

    # Metrics.
    metrics_exporter_type: str = setting("metricsExporterType", parse_metrics_exporter)
    metrics_host: str = setting("metricsPromExporterHost", parse_host)
    metrics_port: int = setting("metricsPromExporterPort", between(0, 65_535))

    # Topics and groups.
    auto_create_topic_enable: bool = setting("autoCreateTopicEnable")
    auto_create_topic_on_all_brokers: bool = setting("autoCreateTopicOnAllBrokers")
    auto_create_subscription_group: bool = setting("autoCreateSubscriptionGroup")
    default_topic_queue_nums: int = setting("defaultTopicQueueNums", between(1, QUEUE_NUMS_MAX))
    cluster_topic_enable: bool = setting("clusterTopicEnable")
    broker_topic_enable: bool = setting("brokerTopicEnable")
    trace_topic_enable: bool = setting("traceTopicEnable")
    msg_trace_topic_name: str = setting("msgTraceTopicName")
    trace_on: bool = setting("traceOn")
    validate_system_topic_when_update_topic: bool = setting("validateSystemTopicWhenUpdateTopic")
    enable_mixed_message_type: bool = setting("enableMixedMessageType")
    clear_retry_topic_when_delete_topic: bool = setting("clearRetryTopicWhenDeleteTopic")
    enable_split_metadata: bool = setting("enableSplitMetadata")
    split_metadata_size: int = setting("splitMetadataSize", parse_positive)
    store_reply_message_enable: bool = setting("storeReplyMessageEnable")

    # Sending.
    max_message_size_bytes: int = setting("maxMessageSize", between(1024, INT_MAX))  # less would stop all sending
    start_accept_send_request_ms: int = setting("startAcceptSendRequestTimeStamp", between(-LONG_MAX - 1, TIME_MAX_MS))
    delay_levels_ms: tuple[int, ...] = setting("messageDelayLevel", parse_delay_levels_ms)
    unique_key_check_ms: int = setting("uniqueKeyCheckMillis", between(0, LONG_MAX))  # 0: keys are not checked

    # Limits of one client (``rmqserver/limits.py``).
    max_requests_in_flight_per_connection: int = setting("maxRequestsInFlightPerConnection", between(0, INT_MAX))
    max_send_rate_per_topic: NamedRates = setting("maxSendRatePerTopic", parse_named_rates)  # noqa: RUF009
    max_pull_rate_per_topic: NamedRates = setting("maxPullRatePerTopic", parse_named_rates)  # noqa: RUF009
    max_request_rate_per_user: NamedRates = setting("maxRequestRatePerUser", parse_named_rates)  # noqa: RUF009

    # Transactions.
    reject_transaction_message: bool = setting("rejectTransactionMessage")
    transaction_timeout_ms: int = setting("transactionTimeOut", between(0, LONG_MAX))
    transaction_check_interval_ms: int = setting("transactionCheckInterval", parse_period_ms)
    transaction_check_max: int = setting("transactionCheckMax")
    transaction_op_batch_interval_ms: int = setting("transactionOpBatchInterval", parse_period_ms)
    transaction_op_msg_max_size_bytes: int = setting("transactionOpMsgMaxSize", between(1, 1 << 20))
    transaction_metric_flush_interval_ms: int = setting("transactionMetricFlushInterval", parse_period_ms)

    # Timers.
    timer_wheel_enable: bool = setting("timerWheelEnable")
    timer_precision_ms: int = setting("timerPrecisionMs", parse_timer_precision_ms)
    timer_roll_window_slot: int = setting("timerRollWindowSlot")
    timer_log_file_size_bytes: int = setting("mappedFileSizeTimerLog", between(1024, INT_MAX))
    timer_flush_interval_ms: int = setting("timerFlushIntervalMs", parse_period_ms)
    timer_max_delay_s: int = setting("timerMaxDelaySec", between(0, INT_MAX))
    timer_congest_num_each_slot: int = setting("timerCongestNumEachSlot", between(1, INT_MAX))
    timer_stop_enqueue: bool = setting("timerStopEnqueue")
    timer_stop_dequeue: bool = setting("timerStopDequeue")
    recall_message_enable: bool = setting("recallMessageEnable")
    allow_recall_when_broker_not_writeable: bool = setting("allowRecallWhenBrokerNotWriteable")
    append_topic_for_timer_delete_key: bool = setting("appendTopicForTimerDeleteKey")

    # Consuming.
    lite_pull_message_enable: bool = setting("litePullMessageEnable")
    reject_pull_consumer_enable: bool = setting("rejectPullConsumerEnable")
    long_polling_enable: bool = setting("longPollingEnable")
    short_polling_time_ms: int = setting("shortPollingTimeMills", between(1, MILLISECONDS["d"]))
    enable_property_filter: bool = setting("enablePropertyFilter")
    filter_support_retry: bool = setting("filterSupportRetry")
    server_load_balancer_enable: bool = setting("serverLoadBalancerEnable")
    default_message_request_mode: str = setting("defaultMessageRequestMode", parse_request_mode)
    default_pop_share_queue_num: int = setting("defaultPopShareQueueNum", between(-1, INT_MAX))
    revive_queue_num: int = setting("reviveQueueNum", between(1, 1024))
    max_pop_polling_size: int = setting("maxPopPollingSize", between(0, LONG_MAX))
    pop_polling_map_size: int = setting("popPollingMapSize", between(0, INT_MAX))
    pop_polling_size: int = setting("popPollingSize", between(0, INT_MAX))
    use_message_filter_for_notification: bool = setting("useMessageFilterForNotification")
    enable_pop_message_threshold: bool = setting("enablePopMessageThreshold")
    pop_inflight_message_threshold: int = setting("popInflightMessageThreshold", between(0, LONG_MAX))
    pop_from_retry_probability: int = setting("popFromRetryProbability", between(0, 100))
    pop_from_retry_probability_for_priority: int = setting("popFromRetryProbabilityForPriority", between(0, 100))
    priority_order_asc: bool = setting("priorityOrderAsc")
    pop_response_return_actual_retry_topic: bool = setting("popResponseReturnActualRetryTopic")
    pop_revive_skip_if_group_absent: bool = setting("popReviveSkipIfGroupAbsent")
    enable_retry_topic_v2: bool = setting("enableRetryTopicV2")
    use_separate_retry_queue: bool = setting("useSeparateRetryQueue")
    retrieve_message_from_pop_retry_topic_v1: bool = setting("retrieveMessageFromPopRetryTopicV1")
    notify_consumer_ids_changed_enable: bool = setting("notifyConsumerIdsChangedEnable")
    flush_consumer_offset_interval_ms: int = setting("flushConsumerOffsetInterval", parse_period_ms)
    use_server_side_reset_offset: bool = setting("useServerSideResetOffset")
    channel_expired_timeout_ms: int = setting("channelExpiredTimeout", between(60_000, LONG_MAX))  # two heartbeats
    max_msgs_num_batch: int = setting("maxMsgsNumBatch", between(1, 1024))  # read at a time
    default_query_max_num: int = setting("defaultQueryMaxNum", parse_positive)

    # The store (``StoreOptions`` explains each).
    flush_mode: FlushMode = setting("flushDiskType", parse_flush_mode)  # noqa: RUF009 - a field all the same
    commit_log_file_size_bytes: int = setting("mappedFileSizeCommitLog", parse_positive)
    consume_queue_file_size_bytes: int = setting("mappedFileSizeConsumeQueue", parse_positive)
    index_enabled: bool = setting("messageIndexEnable")
    index_slot_count: int = setting("maxHashSlotNum", parse_positive)
    index_unit_count: int = setting("maxIndexNum", parse_positive)
    max_lite_subscription_count: int = setting("maxLiteSubscriptionCount", between(0, INT_MAX))
    min_lite_ttl_ms: int = setting("minLiteTTl", between(0, LONG_MAX))
    lite_ttl_check_interval_ms: int = setting("liteTtlCheckInterval", parse_period_ms)
    enable_lmq: bool = setting("enableLmq")
    enable_multi_dispatch: bool = setting("enableMultiDispatch")
    enable_lmq_quota: bool = setting("enableLmqQuota")
    max_lmq_consume_queue_num: int = setting("maxLmqConsumeQueueNum", between(0, INT_MAX))
    flush_interval_ms: int = setting("flushIntervalCommitLog", parse_positive)
    sync_flush_timeout_ms: int = setting("syncFlushTimeout", between(1, MILLISECONDS["d"]))
    checkpoint_interval_ms: int = setting("flushConsumeQueueThoroughInterval", parse_positive)
    transfer_count_in_memory_max: int = setting("maxTransferCountOnMessageInMemory", parse_positive)
    transfer_bytes_in_memory_max: int = setting("maxTransferBytesOnMessageInMemory", parse_positive)
    transfer_count_on_disk_max: int = setting("maxTransferCountOnMessageInDisk", parse_positive)
    transfer_bytes_on_disk_max: int = setting("maxTransferBytesOnMessageInDisk", parse_positive)
    memory_percent_for_messages: int = setting("accessMessageInMemoryMaxRatio", between(0, 100))
    filter_scan_bytes_max: int = setting("maxFilterMessageSize", between(0, 1 << 18))  # filtered at a time
    check_crc_on_recover: bool = setting("checkCRCOnRecover")
    delete_hours: tuple[int, ...] = setting("deleteWhen", parse_hours)
    file_reserved_hours: int = setting("fileReservedTime", between(0, INT_MAX))
    delete_file_batch_max: int = setting("deleteFileBatchMax", between(1, 100))  # up to 100 ms each
    clean_forcibly_enabled: bool = setting("cleanFileForciblyEnable")
    clean_resource_interval_ms: int = setting("cleanResourceInterval", parse_period_ms)
    disk_used_percent_max: int = setting("diskMaxUsedSpaceRatio")
    disk_used_percent_forcible: int = setting("diskSpaceCleanForciblyRatio")
    disk_used_percent_full: int = setting("diskSpaceWarningLevelRatio")

    def is_black_listed(self, key: str) -> bool:
        return super().is_black_listed(key) or key == "brokerConfigPath"

    def _check_together(self, values: Mapping[str, str]) -> None:
        """Also of what Apache's broker accepts and does not keep: settings that promise copies."""
        role = values["brokerRole"]
        is_controlled = values["enableControllerMode"] == "true"
        _check_rate_of_users(values)
        if (role == BrokerRole.SLAVE.value) is not (self.broker_role is BrokerRole.SLAVE):
            raise UsageError(f"brokerRole={role}: a broker becomes a slave, or no longer is one, when it starts")
        if is_controlled is not self.enable_controller_mode:
            text = values["enableControllerMode"]
            raise UsageError(f"enableControllerMode={text}: a broker joins a set, or leaves it, when it starts")
        if is_controlled:
            if not values["controllerAddr"]:
                raise UsageError("enableControllerMode=true: no controller is named", hint="set controllerAddr")
        elif role == BrokerRole.SLAVE.value and values["brokerId"] == "0":
            raise UsageError("brokerRole=SLAVE: brokerId 0 is the master's", hint="set brokerId=1, or another above")
        else:
            _check_copies_promised(values)

    def ha_addr(self, host: str) -> str:
        """Where slaves connect; ``host`` is our address, unless brokerIP2 names another."""
        return f"{self.broker_ip2 or host}:{self.ha_listen_port}"

    def timer_options(self) -> TimerOptions:
        """The options for opening the timer store."""
        return TimerOptions(
            precision_ms=self.timer_precision_ms,
            log_file_size_bytes=self.timer_log_file_size_bytes,
            roll_window_slots=self.timer_roll_window_slot,
        )

    @property
    def has_light_queues(self) -> bool:
        """Whether messages may name light queues. With only one of the two settings, Apache's broker does half of it,
        which is of no use."""
        return self.enable_lmq and self.enable_multi_dispatch

    def store_options(self) -> StoreOptions:
        """The options for opening the store; clamped as Apache clamps (5.5.0, ``MessageStoreConfig``)."""
        same = {field.name for field in dataclasses.fields(StoreOptions)} & {
            field.name for field in self._fields.values()
        }
        return dataclasses.replace(
            StoreOptions(**{name: getattr(self, name) for name in same}),
            message_size_max_bytes=self.max_message_size_bytes,
            waits_for_copies=self.enable_controller_mode,
            light_queues_enabled=self.has_light_queues,
            light_queue_count_max=self.max_lmq_consume_queue_num if self.enable_lmq_quota else None,
            disk_used_percent_max=bounded_disk_percent("disk_used_percent_max", self.disk_used_percent_max),
            disk_used_percent_forcible=bounded_disk_percent(
                "disk_used_percent_forcible", self.disk_used_percent_forcible
            ),
            disk_used_percent_full=bounded_disk_percent("disk_used_percent_full", self.disk_used_percent_full),
        )


def _check_rate_of_users(values: Mapping[str, str]) -> None:
    """UsageError for a limit of users' requests on a broker that does not ask who sends them."""
    text = values["maxRequestRatePerUser"]
    asks = any(values.get(key, "").lower() == "true" for key in (AUTHENTICATION, ACL_1))
    if parse_rates(text).is_any and not asks:
        raise UsageError(
            f"maxRequestRatePerUser={shown(text)}: users are not known without authentication",
            hint=f"set {AUTHENTICATION}=true as well, when the server starts",
        )


def _check_copies_promised(values: Mapping[str, str]) -> None:
    """UsageError for a promise of copies that a broker without controllers does not keep."""
    for key, idle in (("minInSyncReplicas", "1"), ("allAckInSyncStateSet", "false")):
        if values[key] != idle:
            raise UsageError(
                f"{key}={shown(values[key])}: without a controller nobody knows who is in sync",
                hint="set enableControllerMode and controllerAddr; or brokerRole=SYNC_MASTER and inSyncReplicas=2, "
                "and producers wait for a slave",
            )
    if values["brokerRole"] == BrokerRole.ASYNC_MASTER.value and int(values["inSyncReplicas"]) > 1:
        raise UsageError(
            f"inSyncReplicas={values['inSyncReplicas']}: with brokerRole=ASYNC_MASTER no producer waits for slaves",
            hint="set brokerRole=SYNC_MASTER as well",
        )
