"""When the controller itself wants another master: the present one says that it takes no messages, because its disk is
full or has failed, and a replica in sync takes them. It has to hand over as if an operator had asked for it."""

from __future__ import annotations

from collections.abc import Callable

from rmqproto.headers.controller import ElectMasterHeader
from rmqserver.controller import elections
from rmqserver.controller.controller_state import BrokerSet
from rmqserver.controller.decision import Situation

AGAIN_AFTER_S = 10.0
"""How long after a handover that has failed: in each, clients wait for up to a second."""


class Reliefs:
    def __init__(self, clock_s: Callable[[], float]):
        self._clock_s = clock_s
        self._tried: dict[str, tuple[int, float]] = {}
        """For each set, the master's epoch and when its last handover was wanted."""

    def wanted(self, now: Situation, found: BrokerSet) -> ElectMasterHeader | None:
        """The election that is due now; it counts as tried. None if there is none."""
        successor = elections.relief(now, found)
        epoch, tried_s = self._tried.get(found.broker_name, (0, 0.0))
        if successor is None or (epoch == found.master_epoch and self._clock_s() < tried_s + AGAIN_AFTER_S):
            return None
        self._tried[found.broker_name] = found.master_epoch, self._clock_s()
        return ElectMasterHeader(
            cluster_name=found.cluster_name, broker_name=found.broker_name, broker_id=successor, designate_elect=True
        )
