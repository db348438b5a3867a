"""The settings of a nameserver."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from rmqserver.config.keyed_settings import Settings, setting
from rmqserver.config.setting_values import between, parse_period_ms


@dataclasses.dataclass(init=False, eq=False)
class NamesrvConfig(Settings):
    """A nameserver's settings."""

    keys_file = "namesrv_keys.txt"
    own_keys_files = ("own_keys.txt", "own_namesrv_keys.txt")
    refused = {"enableControllerInNamesrv": frozenset({"true"})}
    max_requests_in_flight_per_connection: ClassVar[int] = 0
    """A nameserver answers every request at once."""

    auth_enabled: bool = setting("namesrvAuthEnabled")
    """Whether requests must be signed. For a nameserver without a broker, ``authenticationEnabled`` decides."""
    listen_port: int = setting("listenPort", between(0, 65_535))
    kv_config_path: str = setting("kvConfigPath")
    scan_not_active_broker_interval_ms: int = setting("scanNotActiveBrokerInterval", parse_period_ms)
    order_message_enable: bool = setting("orderMessageEnable")
    return_order_topic_config_to_broker: bool = setting("returnOrderTopicConfigToBroker")
    enable_topic_list: bool = setting("enableTopicList")
    enable_all_topic_list: bool = setting("enableAllTopicList")
    delete_topic_with_broker_registration: bool = setting("deleteTopicWithBrokerRegistration")
    support_acting_master: bool = setting("supportActingMaster")
    notify_min_broker_id_changed: bool = setting("notifyMinBrokerIdChanged")
    need_wait_for_service: bool = setting("needWaitForService")
    wait_seconds_for_service: int = setting("waitSecondsForService", between(0, 86_400))

    def is_black_listed(self, key: str) -> bool:
        return super().is_black_listed(key) or key in ("configStorePath", "kvConfigPath")
