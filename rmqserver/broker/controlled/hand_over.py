"""The master's part in a planned handover: it stops serving clients, who wait, until its successor has its whole log
and every message that it took is answered. Only then may it give its lease back. So nothing that was acknowledged is
lost, whatever the set's settings, and clients notice a pause and no error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from rmqserver.broker.controlled.set_master import SetMaster
    from rmqserver.broker.sending.pending import PendingPuts

CATCH_UP_MAX_S = 1.0
"""Less than the controller waits for the lease (``HANDOVER_MAX_S``)."""

LOOK_EVERY_S = 0.002


async def has_caught_up(master: SetMaster, pending: PendingPuts, successor_id: int) -> bool:
    """Waits until the successor has the whole log and no put waits any more. False if that takes too long."""
    with trio.move_on_after(CATCH_UP_MAX_S):
        while True:
            log_end = master.store.written_offset
            if master.acked().get(successor_id, -1) >= log_end and pending.has_settled(log_end):
                return True
            await trio.sleep(LOOK_EVERY_S)
    return False
