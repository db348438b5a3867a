"""The part of the app that screens and dialogs may use. They know only this protocol, because the app imports them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from textual.screen import ModalScreen, Screen

    from rmqadmin.core.health.finding import Subject
    from rmqadmin.core.servers.broker_state import Replica
    from rmqadmin.tui.dashboard_client import DashboardClient
    from rmqadmin.tui.memory.cluster import ClusterMemory
    from rmqadmin.tui.memory.pulse_memory import PulseMemory
    from rmqadmin.tui.memory.readings import RowReading
    from rmqadmin.tui.sampler import Sampler
    from rmqadmin.tui.settings import DashboardSettings
    from rmqadmin.tui.sources.groups import GroupFacts


Thing: TypeAlias = "str | GroupFacts | Replica | tuple[GroupFacts, str]"


class Dashboard(Protocol):
    settings: DashboardSettings
    read_only: bool
    last_undo: Callable[[], ModalScreen[None]] | None
    """Makes the dialog that undoes the last change; None if nothing was changed in this context."""
    client_loaded: asyncio.Event
    """Set when ``make_client`` no longer has to wait for imports."""

    @property
    def screen(self) -> Screen[object]:
        """The screen on top."""

    @property
    def shows_system(self) -> bool:
        """Whether lists also show what belongs to RocketMQ itself."""

    @property
    def sampler(self) -> Sampler | None:
        """The sampler of the cluster's pulse; None until the client is loaded."""

    @property
    def pulse(self) -> PulseMemory:
        """What the sampler has found; nothing while there is none."""

    @property
    def away_since_ms(self) -> int:
        """When the user's current absence began, or the last one if the user is back."""

    @property
    def memory(self) -> ClusterMemory:
        """What all screens remember of the cluster. Its module is loaded with the client."""

    @property
    def replay_text(self) -> str:
        """Which step of which recording is shown; empty if servers are shown."""

    @property
    def interval_s(self) -> float:
        """The interval between refreshes, as the user has set it."""

    @property
    def places(self) -> dict[str, tuple[str, str]]:
        """Key and name of each place, by its mode."""

    @property
    def current_mode(self) -> str:
        """The mode of the place that is shown."""

    async def action_go(self, mode: str) -> None:
        """Goes to a place; inside it, to its first screen."""

    @property
    def way(self) -> list[str]:
        """The steps from the noun to the top screen."""

    def make_client(self, *, read_only: bool) -> DashboardClient:
        """A new client. In a read-only dashboard it is always read-only."""

    def now_ms(self) -> int: ...

    async def open_context(self, name: str) -> None:
        """Shows the servers of another context."""

    async def go_into(self, mode: str, screen: Screen[None] | None) -> None:
        """Goes to a noun's first screen, or to ``screen`` above it."""

    def open_command_line(self, text: str) -> None:
        """Opens the command line (``:``) with ``text`` in it."""

    def ask_to_unlock(self) -> None:
        """Asks for the name of the context that forbids changes, and then permits them. Says why if that is
        impossible."""

    def set_read_only(self, read_only: bool) -> None:
        """Forbids changes, or permits them."""

    def keep(self, remember: Callable[[], None]) -> None:
        """Saves something for the next start, in a thread because the file is flushed to disk."""

    def leave(self) -> None:
        """Ends the dashboard."""

    def action_undo(self) -> None:
        """Opens the dialog that undoes the last change."""

    async def go_back(self) -> None:
        """Goes back to the screen that opened this one."""

    def open_thing(self, thing: Thing, tab: int = 1) -> None:
        """Opens a tab of a topic (by its name), a group, a broker, or a member of a group (by its client id)."""
        ...

    def plot(self, subject: Subject, read: Callable[[DashboardClient], RowReading] | None) -> None:
        """Shows the numbers of a row over time. ``read`` asks for them in a thread; None if the pulse reads all of
        them."""

    def say(self, text: str, *, is_error: bool = False) -> None:
        """Shows a notification. ``text`` may come from a broker: it is never parsed as markup."""
