"""What a member of a set does in its role, and of whom.

A slave asks its master where slaves connect. A master hands over: once its successor is nearly level it stops serving
clients, who wait, until the successor has its whole log, its tables and offsets, and every message that it took is
answered. Only then may it give its lease back. So nothing that was acknowledged is lost, whatever the set's settings,
and clients notice a pause and no error."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import trio

from rmqproto.errors import ProtocolError, RefusedError
from rmqserver.config.setting_values import BrokerRole

if TYPE_CHECKING:
    from rmqserver.broker.controlled.set_master import SetMaster
    from rmqserver.broker.replicas.ha_master import HaMaster
    from rmqserver.broker.replicas.slave import Slave
    from rmqserver.broker.replicas.table_watch import TableWatch
    from rmqserver.broker.sending.pending import PendingPuts
    from rmqserver.broker.tables.topics import TopicTable
    from rmqserver.store.message_store import MessageStore

log = logging.getLogger(__name__)

CATCH_UP_MAX_S = 1.0
"""Less than the controller waits for the lease (``HANDOVER_MAX_S``)."""

NEAR_BYTES = 4 << 20
"""A successor that lacks no more than this is level in a moment. Before, clients are served."""

LOOK_EVERY_S = 0.002

ASK_MASTER_EVERY_S = 0.5


class ServedBroker(Protocol):
    """What a ``SetMember`` uses of the broker that is open now."""

    topics: TopicTable
    store: MessageStore
    replicas: HaMaster
    pending: PendingPuts
    slave: Slave | None
    table_watch: TableWatch | None


class Host(Protocol):
    """Opens and closes brokers."""

    @property
    def broker(self) -> ServedBroker | None: ...

    async def change_role(self, role: BrokerRole, broker_id: int, change: Callable[[], None] | None) -> None:
        """Closes the broker, applies ``change`` to its files, and opens it in that role."""
        ...

    def hold_clients(self) -> None:
        """Serves no client until the broker's role changes, or ``release_clients``. They wait; slaves that watch tables
        do not."""

    def release_clients(self) -> None:
        """Does nothing if the role has changed meanwhile."""

    def role_is_known(self) -> None:
        """From now on the broker may register with nameservers."""
        ...


async def has_caught_up(
    master: SetMaster,
    pending: PendingPuts,
    watch: TableWatch | None,
    successor_id: int,
    hold_clients: Callable[[], None],
) -> bool:
    """Waits until the successor has the whole log and the tables, and no put waits any more. False if that takes too
    long, or if the successor is lost on the last stretch. ``hold_clients`` is called when that begins."""
    is_held = are_tables_copied = False
    with trio.move_on_after(CATCH_UP_MAX_S):
        while True:
            log_end, acked = master.store.written_offset, master.acked().get(successor_id)
            if acked is None and is_held:
                return False
            if acked is not None and acked >= log_end - NEAR_BYTES and not is_held:
                is_held = True
                hold_clients()
            if acked is not None and acked >= log_end and pending.has_settled(log_end):
                if are_tables_copied or watch is None:
                    return True
                if not await watch.copied_by(successor_id):
                    log.warning("event=tables-not-copied successor=%d reason='it does not watch them'", successor_id)
                are_tables_copied = True  # and the log again: delays and timers go on
                continue
            await trio.sleep(LOOK_EVERY_S)
    return False


class Following:
    """Has the slave that is open follow its master. An Apache slave learns from a nameserver where slaves connect, up
    to half a minute later."""

    def __init__(self, host: Host, note: Callable[[str], None]):
        """``note`` is told why a master does not answer."""
        self._host = host
        self._note = note
        self._scope: trio.CancelScope | None = None
        self.nursery: trio.Nursery | None = None

    def start(self, master_addr: str) -> None:
        assert self.nursery is not None
        self._scope = trio.CancelScope()
        self.nursery.start_soon(self._find_master, master_addr, self._scope)

    def stop(self) -> None:
        if self._scope is not None:
            self._scope.cancel()

    async def _find_master(self, master_addr: str, scope: trio.CancelScope) -> None:
        with scope:
            while self._host.broker is not None and (slave := self._host.broker.slave) is not None:
                try:
                    found = await slave.ask_ha_info(master_addr)
                    if found.master_ha_address:
                        slave.take_master(master_addr, found.master_ha_address)
                        return
                except (OSError, ProtocolError, RefusedError) as error:
                    self._note(f"the master at {master_addr}: {str(error) or type(error).__name__}")
                await trio.sleep(ASK_MASTER_EVERY_S)
