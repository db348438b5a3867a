"""Planned handovers (``electMaster``) of masters that have a lease. The master gives its lease back before another
broker is elected: it knows then that it may acknowledge nothing more alone, and has seen to it that its successor has
its whole log. So the successor may acknowledge at once, and nothing is lost whatever the set's settings.

The controller waits for a heartbeat of the successor first: a broker that has just frozen still counts as alive, and
has all of the log of a master that is idle. Then it only says that it wants the lease back, in its answers to
heartbeats and to questions about the master. A broker believes nobody who connects to it, since anyone can."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from rmqproto.codes import ResponseCode
from rmqproto.headers.controller import ElectMasterHeader
from rmqserver.controller import elections
from rmqserver.controller.controller_state import BrokerSet, BrokerSets
from rmqserver.controller.decider import Done
from rmqserver.controller.decision import Situation
from rmqserver.operation import Refused

HANDOVER_MAX_S = 2.5
"""Apache's mqadmin waits three seconds for the answer to an election."""

REPLACED = "was lost, or has started again, meanwhile"


@dataclass
class Handover:
    """``wanted`` is the operator's request, and ``done`` answers it. ``handover_id`` proves that a lease was given back
    for this handover, and not for an earlier one."""

    handover_id: int
    wanted: ElectMasterHeader
    master_address: str
    master_epoch: int
    ends_s: float
    done: Done
    is_asked: bool = False
    """The successor has been heard since the request: the master is asked for its lease."""
    is_given_back: bool = False


class Handovers:
    """At most one for each set."""

    def __init__(self, clock_s: Callable[[], float]):
        self._clock_s = clock_s
        self._of_name: dict[str, Handover] = {}

    def of(self, found: BrokerSet) -> Handover | None:
        """The handover of this set's master. None for one of an earlier master: the present one has no part in it."""
        handover = self._of_name.get(found.broker_name)
        return handover if handover is not None and handover.master_epoch == found.master_epoch else None

    def begin(self, found: BrokerSet, wanted: ElectMasterHeader, done: Done) -> None:
        """Takes the place of one of an earlier master."""
        former = self._of_name.get(found.broker_name)
        if former is not None and not former.is_given_back:
            self._give_up(former, REPLACED)
        self._of_name[found.broker_name] = Handover(
            secrets.randbits(62), wanted, found.master_address or "", found.master_epoch,
            self._clock_s() + HANDOVER_MAX_S, done,
        )  # fmt: skip

    def heard(self, found: BrokerSet, broker_id: int) -> bool:
        """A heartbeat has come. Whether a master has to be asked for its lease now."""
        handover = self.of(found)
        if handover is None or handover.is_asked or handover.wanted.broker_id != broker_id:
            return False
        handover.is_asked = True
        return True

    def give_back(self, broker_name: str, handover_id: int) -> Handover | None:
        """The master has given its lease back for this handover. None if it is over."""
        found = self._of_name.get(broker_name)
        if found is None or found.handover_id != handover_id or found.is_given_back:
            return None
        found.is_given_back = True
        return found

    def end(self, handover: Handover) -> None:
        """The election has been carried out, or was refused."""
        if self._of_name.get(handover.wanted.broker_name) is handover:
            del self._of_name[handover.wanted.broker_name]

    def expire(self, sets: BrokerSets) -> None:
        """Gives up those whose masters have not given their leases back in time, or are masters no more."""
        now_s = self._clock_s()
        for name, each in list(self._of_name.items()):
            if each.is_given_back:
                continue
            found = sets.get(name)
            if found is None or each.master_epoch != found.master_epoch:
                self._give_up(each, REPLACED)
            elif each.ends_s <= now_s:
                overdue = f"did not give its lease back within {HANDOVER_MAX_S:g} s"
                if not each.is_asked:
                    silent = f"broker {each.wanted.broker_id} has sent no heartbeat for {HANDOVER_MAX_S:g} s"
                    overdue = f"is not asked for its lease, since {silent}"
                self._give_up(each, overdue)

    def give_up_all(self) -> None:
        """Another controller may have led meanwhile, and may have left a master its lease."""
        for each in list(self._of_name.values()):
            self.end(each)
            if not each.is_given_back:  # else the election that was refused answers
                self._give_up(each, "was left its lease, since the leading controller has changed")

    def _give_up(self, handover: Handover, reason: str) -> None:
        self.end(handover)
        text = f"Failed to elect a new master: the master at {handover.master_address} {reason}"
        handover.done(Refused(ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, text))


AGAIN_AFTER_S = 10.0
"""How long after a handover that has failed: in each, clients wait for up to a second."""


class Reliefs:
    """When the controller itself wants another master: the present one says that it takes no messages, because its disk
    is full or has failed, and a replica in sync takes them. It has to hand over as if an operator had asked for it."""

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
