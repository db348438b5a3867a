"""Makes decisions strictly one after the other: each starts from the state that the one before left, is stored, and is
then answered. Requests that come meanwhile wait for their turn."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

import trio

from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import RocketMQError, StorageError
from rmqproto.headers.controller import RoleChangeHeader
from rmqserver.config.controller_config import ControllerConfig
from rmqserver.controller.controller_state import BrokerSet, BrokerSets, ControllerEvent, MasterElected, apply_all
from rmqserver.controller.controller_store import ControllerStore
from rmqserver.controller.decision import ControllerDecision, Situation, set_body
from rmqserver.controller.live_brokers import LiveBrokers
from rmqserver.operation import Refused
from rmqserver.remoting.notices import Notices

log = logging.getLogger(__name__)

WAITING_MAX = 1024
"""Limit of waiting requests, as in Apache's controller."""

Decide = Callable[[Situation], ControllerDecision]
Done = Callable[[ControllerDecision | Exception], None]
"""Gets the stored decision, or the reason why there is none."""


def not_leading() -> Refused:
    """Has the code and text of Apache's controller."""
    return Refused(ResponseCode.CONTROLLER_NOT_LEADER, "The controller is not in leader state")


class Decider:
    """Begins to decide when ``lead`` is called."""

    def __init__(
        self, config: ControllerConfig, store: ControllerStore, notices: Notices, clock_s: Callable[[], float]
    ):
        self.live = LiveBrokers(clock_s)
        self.sets: BrokerSets = {}
        """Empty while another controller leads."""
        self.failure: StorageError | None = None
        self.failed = trio.Event()
        self._config = config
        self._store = store
        self._notices = notices
        self._clock_s = clock_s
        self._leads = False
        self._keeping: tuple[ControllerEvent, ...] = ()
        """Events of the decision that is being stored."""
        self._waiting: deque[tuple[Decide, Done]] = deque()

    @property
    def is_leading(self) -> bool:
        return self._leads and self._store.is_leading

    def is_electing(self, broker_name: str) -> bool:
        """Whether an election of that set is decided but perhaps not stored yet: the former master may no longer be
        the master."""
        return any(isinstance(event, MasterElected) and event.broker_name == broker_name for event in self._keeping)

    def lead(self, sets: BrokerSets) -> None:
        """Decides from now on, starting from this state. Which brokers live must be learned anew: what another
        controller has decided meanwhile is not known."""
        self.live = LiveBrokers(self._clock_s)
        self.sets, self._leads = sets, True

    def follow(self) -> None:
        """Stops deciding: another controller may decide from now on."""
        self.sets, self._leads = {}, False
        waiting, self._waiting = self._waiting, deque()
        for _, done in waiting:
            done(not_leading())

    def now(self) -> Situation:
        return Situation(self.sets, self.live.alive(), self.live.is_settled, self._config.enable_elect_unclean_master)

    def submit(self, decide: Decide, done: Done) -> None:
        """Queues a decision. Calls ``done`` once, maybe before it returns: with the decision when that is stored, or
        with Refused or a RocketMQError if it is not, or may not be."""
        if not self.is_leading:
            done(not_leading())
        elif not self._keeping:
            self._carry_out(decide, done)
        elif len(self._waiting) < WAITING_MAX:
            self._waiting.append((decide, done))
        else:
            done(Refused(ResponseCode.SYSTEM_BUSY, f"{WAITING_MAX} requests wait for a decision already"))

    def _carry_out(self, decide: Decide, done: Done) -> None:
        try:
            decision = decide(self.now())
            if not decision.events:
                done(decision)
                return
            if self.failure is not None:
                raise self.failure
            after = apply_all(self.sets, decision.events)
        except Exception as error:  # one decision that fails must not end the others: its request gets the error
            done(error)
            return
        self._keeping = tuple(decision.events)

        def kept(error: RocketMQError | None) -> None:
            self._keeping = ()
            if error is None:
                before, self.sets = self.sets, after
                for event in decision.events:
                    log.info("event=controller-decided what=%r", event)
                    if isinstance(event, MasterElected):
                        self._tell_elected(after[event.broker_name], before[event.broker_name].master_broker_id)
                done(decision)
            else:
                if isinstance(error, StorageError):
                    self.failure = error
                    self.failed.set()
                done(error)
            while self._waiting and not self._keeping:
                self.submit(*self._waiting.popleft())

        self._store.append(decision.events, after, kept)

    def _tell_elected(self, found: BrokerSet, former_id: int | None) -> None:
        """Notifies all living replicas and the former master: that one may be frozen or only cut off from this
        controller, and should hear of it as soon as it can. Apache's controller notifies only the living ones."""
        if found.master_broker_id is not None and self._config.notify_broker_role_changed:
            alive = self.live.alive()
            addresses = [
                replica.broker_address
                for broker_id, replica in found.replicas.items()
                if (found.broker_name, broker_id) in alive or broker_id == former_id
            ]
            self.tell(found, addresses)

    def tell(self, found: BrokerSet, addresses: list[str]) -> None:
        """Queues notices of the set's master (1008), and does not wait for them. Brokers also ask sometimes (1004)."""
        header = RoleChangeHeader(
            master_broker_id=found.master_broker_id,
            master_address=found.master_address,
            master_epoch=found.master_epoch,
            sync_state_set_epoch=found.sync_state_set_epoch,
        )
        for address in addresses:
            self._notices.post(address, RequestCode.NOTIFY_BROKER_ROLE_CHANGED, header, set_body(found))
