"""Admin calls to controllers and broker containers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rmqclient.admin.caller import AdminCaller, config_request, config_values_untrusted
from rmqproto import bodies, headers
from rmqproto.codes import RequestCode
from rmqproto.headers.base import from_ext
from rmqproto.wire import fastjson

_CONTAINER_TIMEOUT_S = 20.0
"""A container answers after the broker has started or stopped."""


class ControllerCalls(AdminCaller):
    """``controller_addr`` is ``host:port``. Only the leader answers 1002, 1006 and 1011; others raise RefusedError with
    code 2007."""

    def controller_metadata(self, controller_addr: str) -> headers.controller.ControllerMetaAnswer:
        """The group of controllers and its leader (1005)."""
        answer = self.call(controller_addr, RequestCode.CONTROLLER_GET_METADATA_INFO)
        return from_ext(answer.ext, headers.controller.ControllerMetaAnswer)

    def replica_sets(self, controller_addr: str, broker_names: Sequence[str]) -> bodies.replication.ReplicaSets:
        """The replicas of each broker name (1006); an unknown one is left out. Without names our controller returns
        all; Apache's refuses."""
        body = fastjson.dumps(list(broker_names))
        answer = self.call(controller_addr, RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, body=body)
        return fastjson.loads_untrusted(answer.body, bodies.replication.ReplicaSets)

    def elect_master(
        self, controller_addr: str, cluster: str, broker_name: str, broker_id: int, now_ms: int
    ) -> tuple[headers.controller.ElectMasterAnswer, bodies.replication.ElectedMaster]:
        """Makes one replica the master (1002). RefusedError with code 2011 while the old master is alive, 2012 if that
        replica cannot be elected."""
        header = headers.controller.ElectMasterHeader(
            cluster_name=cluster, broker_name=broker_name, broker_id=broker_id, designate_elect=True, invoke_time=now_ms
        )
        answer = self.call(controller_addr, RequestCode.CONTROLLER_ELECT_MASTER, header)
        body = (
            fastjson.loads_untrusted(answer.body, bodies.replication.ElectedMaster)
            if answer.body
            else bodies.replication.ElectedMaster()
        )
        return from_ext(answer.ext, headers.controller.ElectMasterAnswer), body

    def clean_broker_data(
        self,
        controller_addr: str,
        broker_name: str,
        now_ms: int,
        *,
        cluster: str | None = None,
        broker_ids: Sequence[int] | None = None,
        also_living: bool = False,
    ) -> None:
        """Has the controllers forget replicas (1011): those ids, or all. RefusedError with code 2009 if one of them is
        alive. With ``also_living`` Apache's controllers forget all replicas, whatever the ids."""
        header = headers.controller.CleanBrokerDataHeader(
            cluster_name=cluster,
            broker_name=broker_name,
            broker_controller_ids_to_clean=None if broker_ids is None else ";".join(map(str, broker_ids)),
            is_clean_living_broker=also_living,
            invoke_time=now_ms,
        )
        self.call(controller_addr, RequestCode.CLEAN_BROKER_DATA, header)

    def controller_config(self, controller_addr: str, *, with_own_defaults: bool = False) -> dict[str, str]:
        """A controller's configuration (1010); ``with_own_defaults`` as for ``config_values_untrusted``."""
        answer = self.call(controller_addr, RequestCode.GET_CONTROLLER_CONFIG)
        return config_values_untrusted(answer.body, with_own_defaults=with_own_defaults)

    def update_controller_config(self, controller_addr: str, values: Mapping[str, str]) -> None:
        """Sets properties of a controller (1009), which ignores unknown ones."""
        self.call(controller_addr, RequestCode.UPDATE_CONTROLLER_CONFIG, body=config_request(values))

    # --- broker containers -------------------------------------------------------------------------------------------

    def add_broker(self, container_addr: str, config_path: str) -> None:
        """Starts a broker in a container, from a configuration file on its machine (902)."""
        header = headers.controller.AddBrokerHeader(config_path=config_path)
        self.call(container_addr, RequestCode.ADD_BROKER, header, timeout_s=_CONTAINER_TIMEOUT_S)

    def remove_broker(self, container_addr: str, cluster: str, broker_name: str, broker_id: int) -> None:
        """Stops a broker of a container (903)."""
        header = headers.controller.RemoveBrokerHeader(
            broker_cluster_name=cluster, broker_name=broker_name, broker_id=broker_id
        )
        self.call(container_addr, RequestCode.REMOVE_BROKER, header, timeout_s=_CONTAINER_TIMEOUT_S)
