"""``getControllerMetaData``: shows the controllers of a group, and which of them leads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.controller_options import ControllerAddr
from rmqadmin.core.mqadmin_text import java_text
from rmqadmin.core.results import Result, Row, doc
from rmqadmin.core.servers.replicas import controllers_meta
from rmqproto.headers.controller import ControllerMetaAnswer


class ControllerRow(Row, frozen=True):
    controller_id: Annotated[str, doc("id of the controller", key=True)]
    controller_addr: Annotated[str, doc("its address")]
    is_leader: Annotated[bool, doc("whether it leads the group", vital=True)]


class ControllerFacts(Row, frozen=True):
    group: Annotated[str | None, doc("name of the group of controllers")]
    leader_id: Annotated[str | None, doc("id of the controller that leads; none if there is none now")]
    leader_addr: Annotated[str | None, doc("its address")]


class Controllers(Result, frozen=True):
    """The controllers of a group."""

    row_type: ClassVar[type[Row]] = ControllerRow
    meta: ControllerMetaAnswer

    @property
    def _peers(self) -> list[str]:
        return [peer for peer in self.meta.peers.split(";") if peer]

    def rows(self) -> Sequence[ControllerRow]:
        return [
            ControllerRow(controller_id=name, controller_addr=addr, is_leader=name == self.meta.controller_leader_id)
            for name, _, addr in (peer.partition(":") for peer in self._peers)
        ]

    def summary(self) -> ControllerFacts:
        meta = self.meta
        return ControllerFacts(
            group=meta.group,
            leader_id=meta.controller_leader_id or None,
            leader_addr=meta.controller_leader_address or None,
        )

    def mqadmin_text(self) -> str:
        meta = self.meta
        return (
            f"\n#ControllerGroup\t{java_text(meta.group)}\n#ControllerLeaderId\t{java_text(meta.controller_leader_id)}\n"
            f"#ControllerLeaderAddress\t{java_text(meta.controller_leader_address)}\n"
        ) + "".join(f"#Peer:\t{peer}\n" for peer in self._peers)


def get_controller_meta_data(call: Call, controller_address: ControllerAddr) -> Controllers:
    """One row a controller.

    Examples:
      rmqadmin getControllerMetaData -a 127.0.0.1:9878
      rmqadmin -o json getControllerMetaData -a 127.0.0.1:9878
    """
    return Controllers(controllers_meta(call.admin, controller_address))
