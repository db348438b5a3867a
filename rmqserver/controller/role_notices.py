"""Tells brokers which broker their master is (1008). They also ask for it every few seconds (1004)."""

from __future__ import annotations

from rmqproto.codes import RequestCode
from rmqproto.headers.controller import RoleChangeHeader
from rmqserver.controller.controller_state import BrokerSet
from rmqserver.controller.decision import set_body
from rmqserver.remoting.notices import Notices


class RoleNotices:
    def __init__(self, notices: Notices):
        self._notices = notices

    async def run(self) -> None:
        """Never returns."""
        await self._notices.run()

    def tell(self, found: BrokerSet, addresses: list[str]) -> None:
        """Queues notices of the set's master, and does not wait for them."""
        header = RoleChangeHeader(
            master_broker_id=found.master_broker_id,
            master_address=found.master_address,
            master_epoch=found.master_epoch,
            sync_state_set_epoch=found.sync_state_set_epoch,
        )
        for address in addresses:
            self._notices.post(address, RequestCode.NOTIFY_BROKER_ROLE_CHANGED, header, set_body(found))
