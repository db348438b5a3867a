"""What a screen or a dialog may ask of its app. Screens know the app only by this protocol, because it imports them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from textual.screen import Screen

    from rmqadmin.tui.dashboard_client import DashboardClient
    from rmqadmin.tui.memory.changes import Subject
    from rmqadmin.tui.memory.cluster import ClusterMemory
    from rmqadmin.tui.memory.readings import RowReading
    from rmqadmin.tui.sampler import Sampler
    from rmqadmin.tui.settings import DashboardSettings


class Dashboard(Protocol):
    settings: DashboardSettings
    read_only: bool
    client_loaded: asyncio.Event
    """Set when a client can be made without a wait."""

    @property
    def screen(self) -> Screen[object]:
        """The one on top."""

    @property
    def shows_system(self) -> bool:
        """Whether lists also have what belongs to RocketMQ itself."""

    @property
    def sampler(self) -> Sampler | None:
        """What takes the pulse of the cluster; None until the client is loaded."""

    @property
    def away_since_ms(self) -> int:
        """Since when the user has looked away, or had the last time."""

    @property
    def memory(self) -> ClusterMemory:
        """What all screens remember of the cluster. Its home is loaded with the client."""

    @property
    def replay_text(self) -> str:
        """Which step of which recording is shown; empty while servers are asked."""

    @property
    def interval_s(self) -> float:
        """How often to ask, as the user has set it."""

    @property
    def way(self) -> list[str]:
        """The steps from the noun to the screen on top."""

    def make_client(self, *, read_only: bool) -> DashboardClient:
        """A new client. In a read-only dashboard it is always read-only."""

    def now_ms(self) -> int: ...

    async def open_context(self, name: str) -> None:
        """Shows the servers of another context."""

    async def go_into(self, mode: str, screen: Screen[None] | None) -> None:
        """To a noun's first screen, or to one that it leads to."""

    def open_command_line(self, text: str) -> None:
        """The line behind ``:``, with what stands in it already."""

    def ask_to_unlock(self) -> None:
        """Permits changes in the context that forbids them, once its name has been typed. Says why it cannot."""

    def set_read_only(self, read_only: bool) -> None:
        """Forbids changes, or permits them."""

    def keep(self, remember: Callable[[], None]) -> None:
        """Has a thread write down what is to be remembered at the next start: the file is flushed to the disk."""

    def leave(self) -> None:
        """Ends the dashboard."""

    async def go_back(self) -> None:
        """To the screen that this one was opened from."""

    def plot(self, subject: Subject, read: Callable[[DashboardClient], RowReading] | None) -> None:
        """Shows the numbers of a row over time. ``read`` asks for them, in a thread; None if what the pulse reads is
        all there is."""

    def say(self, text: str, *, is_error: bool = False) -> None:
        """A notification. ``text`` may hold what a broker said: it is shown as it is."""
