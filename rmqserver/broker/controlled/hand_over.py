"""The master's part in a planned handover: once its successor is nearly level it stops serving clients, who wait, until
the successor has its whole log, its tables and offsets, and every message that it took is answered. Only then may it
give its lease back. So nothing that was acknowledged is lost, whatever the set's settings, and clients notice a pause
and no error."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from rmqserver.broker.controlled.set_master import SetMaster
    from rmqserver.broker.replicas.table_watch import TableWatch
    from rmqserver.broker.sending.pending import PendingPuts

CATCH_UP_MAX_S = 1.0
"""Less than the controller waits for the lease (``HANDOVER_MAX_S``)."""

NEAR_BYTES = 4 << 20
"""A successor that lacks no more than this is level in a moment. Before, clients are served."""

LOOK_EVERY_S = 0.002


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
