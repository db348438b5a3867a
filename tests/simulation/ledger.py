"""Records what producers were told and readers saw, and checks the invariants:

- No message acknowledged under the in-sync promise is lost: each elected master has all of them, and so have all
  brokers at the end.
- With ``minInSyncReplicas=2``, two brokers have a message at the moment when it is acknowledged.
- Only one master acknowledges in each epoch, and none that knows of a later one.
- As far as readers may see them, logs are equal at every broker and at any time: so readers never go back, and see
  nothing that is missing later.
- A message that was refused with "nothing is stored" never appears.
- A master lets its clients wait only if an operator has asked for another one in its epoch, or the controller has,
  because the master takes no messages.
- At the end, when nothing fails any more, there is a master, all brokers are in sync, and a put is acknowledged.

A message that a power cut took from a log before it was on the device is excused: "what a slave has is written, and
maybe not on its device" (docs/replication.md). Without ``allAckInSyncStateSet`` only the lease's promise holds: nothing
is acknowledged once another master is elected, but messages that were acknowledged or seen may be lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tests.simulation.stored_log import RECORD_BYTES, message_at, messages

if TYPE_CHECKING:
    from rmqserver.controller.controller_state import BrokerSet
    from tests.simulation.broker import SimulatedBroker
    from tests.simulation.world import World


class Violation(AssertionError):
    """An invariant does not hold."""


class Decided(Protocol):
    """Knows the last decision, while it is up."""

    world: World
    is_up: bool

    @property
    def found(self) -> BrokerSet | None: ...


class Ledger:
    def __init__(self, decided: Decided, brokers: list[SimulatedBroker], copies: int, *, promises_in_sync: bool):
        """``copies`` is how many logs must have a message when it is acknowledged."""
        self.acknowledged: dict[int, int] = {}
        """Log offset by message."""
        self.refused: set[int] = set()
        self.let_off: set[int] = set()
        self.shown: list[int] = []
        """Messages in the order of the log."""
        self.violation = ""
        self._designated: set[int] = set()
        """Epochs in which an operator, or the controller, has asked for another master."""
        self._decided = decided
        self._brokers = brokers
        self._copies = copies
        self._promises_in_sync = promises_in_sync
        self.masters: dict[int, str] = {}
        """Who has acknowledged messages, by epoch."""
        self._checked: dict[str, tuple[object, int]] = {}

    def violated(self, what: str) -> None:
        """Records a violation and stops the world. Raises nothing, since the product's code would catch it."""
        self.violation = self.violation or what
        self._decided.world.stop()

    def acknowledge(self, broker: SimulatedBroker, message: int, log_offset: int) -> None:
        epoch = broker.member.state.master_epoch
        first = self.masters.setdefault(epoch, broker.name)
        if first != broker.name:
            self.violated(f"{first} and {broker.name} acknowledge in epoch {epoch}")
        found = self._decided.found if self._decided.is_up else None
        if not self._promises_in_sync and found is not None and found.master_epoch > epoch:
            self.violated(
                f"{broker.name} acknowledges in epoch {epoch}, and {found.master_broker_id} is master in epoch "
                f"{found.master_epoch}"
            )
        if message_at(broker.log_on_disk.data, log_offset) != message:
            self.violated(f"{broker.name} acknowledges {message} at {log_offset}, where its log has something else")
        copies = sum(message_at(each.log_on_disk.data, log_offset) == message for each in self._brokers)
        if copies < self._copies and message not in self.let_off:
            self.violated(f"{broker.name} acknowledges {message} at {log_offset}, and {copies} have it")
        self.acknowledged[message] = log_offset

    def designated(self, found: BrokerSet | None) -> None:
        if found is not None:
            self._designated.add(found.master_epoch)

    def held(self, broker: SimulatedBroker) -> None:
        epoch = broker.member.state.master_epoch
        if epoch not in self._designated:
            self.violated(f"{broker.name} lets its clients wait in epoch {epoch}, and nobody wants another master")

    def opened(self, broker: SimulatedBroker) -> None:
        """Checks a broker that was opened in a new role."""
        self._checked.pop(broker.name, None)
        if broker.member.state.sync_set is not None and self._promises_in_sync:
            self.check_has_all(broker)

    def check_has_all(self, broker: SimulatedBroker) -> None:
        data = broker.log_on_disk.data
        for message, log_offset in self.acknowledged.items():
            if message not in self.let_off and message_at(data, log_offset) != message:
                self.violated(
                    f"{broker.name} leads in epoch {broker.member.state.master_epoch} without message {message}, which "
                    f"was acknowledged at log offset {log_offset}; its log ends at {len(data)}"
                )

    def look(self, broker: SimulatedBroker) -> None:
        """Checks everything that readers may see at the broker and that was not checked before."""
        if not self._promises_in_sync:
            return
        store = broker.opened.store
        looked_at, start = self._checked.get(broker.name, (store, 0))
        if looked_at is not store:
            start = 0
        end = broker.shown_end
        for log_offset, message in messages(broker.log_on_disk.data, start, end):
            self._show(broker, log_offset // RECORD_BYTES, message)
        self._checked[broker.name] = store, max(start, end)

    def _show(self, broker: SimulatedBroker, place: int, message: int) -> None:
        if message in self.refused:
            self.violated(f"{broker.name} shows message {message}, which was refused")
        if place == len(self.shown):
            self.shown.append(message)
        elif self.shown[place] != message and message not in self.let_off:  # a slave may not have cut it off yet
            before = self.shown[place]
            if before not in self.let_off:
                self.violated(
                    f"{broker.name} shows message {message} at log offset {place * RECORD_BYTES}, and readers have "
                    f"seen {before} there"
                )
            del self.shown[place:]
            self.shown.append(message)
            self._checked.clear()
