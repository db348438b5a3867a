"""The settings of a controller."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

from rmqproto.errors import UsageError
from rmqserver.config.keyed_settings import Settings, setting
from rmqserver.config.setting_values import between, parse_list, parse_peers, parse_period_ms, parse_urls, shown


@dataclasses.dataclass(init=False, eq=False)
class ControllerConfig(Settings):
    """A controller's settings."""

    keys_file = "controller_keys.txt"
    own_keys_files = ("own_keys.txt", "own_controller_keys.txt")
    max_requests_in_flight_per_connection: ClassVar[int] = 0
    """A controller answers every request at once."""
    refused = {"controllerType": frozenset({"jRaft"})}

    listen_port: int = setting("listenPort", between(0, 65_535))
    controller_store_path: str = setting("controllerStorePath")
    controller_dleger_group: str = setting("controllerDLegerGroup")
    controller_dleger_self_id: str = setting("controllerDLegerSelfId")
    controller_dleger_peers: tuple[str, ...] = setting("controllerDLegerPeers", parse_peers)
    etcd_endpoints: tuple[str, ...] = setting("etcdEndpoints", parse_urls)
    """Where several controllers keep their state. Empty: this is the only controller, with its state in
    controllerStorePath."""
    etcd_lease_ttl_s: int = setting("etcdLeaseTtlSeconds", between(2, 600))
    etcd_user_name: str = setting("etcdUserName")
    etcd_password_path: str = setting("etcdPasswordPath")
    etcd_ca_path: str = setting("etcdCaPath")
    etcd_cert_path: str = setting("etcdCertPath")
    etcd_key_path: str = setting("etcdKeyPath")
    enable_elect_unclean_master: bool = setting("enableElectUncleanMaster")
    notify_broker_role_changed: bool = setting("notifyBrokerRoleChanged")
    scan_not_active_broker_interval_ms: int = setting("scanNotActiveBrokerInterval", parse_period_ms)
    scan_inactive_master_interval_ms: int = setting("scanInactiveMasterInterval", parse_period_ms)

    def is_black_listed(self, key: str) -> bool:
        """Also its addresses and identity, which brokers know, and the place of its state, which is in use."""
        return (
            super().is_black_listed(key)
            or key in ("configStorePath", "controllerStorePath", "controllerType", "listenPort", "bindAddress")
            or key.startswith(("controllerDLeger", "etcd"))
        )

    def _check_together(self, values: Mapping[str, str]) -> None:
        if len(parse_list(values["controllerDLegerPeers"])) > 1 and not values["etcdEndpoints"]:
            raise UsageError(
                f"controllerDLegerPeers={shown(values['controllerDLegerPeers'])}: several controllers keep their "
                "state in etcd",
                hint="give --etcd URL[,URL...]; or, to a controller that is alone, its own entry or none",
            )
