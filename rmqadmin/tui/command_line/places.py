"""Goes to a place that was typed after ``:``."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rmqadmin.core.own_files import expanded
from rmqadmin.tui.command_line.understood import PlaceAsked
from rmqadmin.tui.sources.found import read_askable
from rmqproto.errors import RocketMQError, UsageError
from rmqproto.names import dlq_topic
from rmqproto.wording import counted

if TYPE_CHECKING:
    from rmqadmin.tui.dashboard import Dashboard
    from rmqadmin.tui.screens.base import DashboardScreen

_NOUNS = {
    "pulse": "pulse",
    "cluster": "cluster",
    "masters": "cluster",
    "topics": "topics",
    "groups": "groups",
    "letters": "dead_letters",
    "search": "search",
    "topic": "topics",
    "messages": "topics",
    "group": "groups",
    "dlq": "dead_letters",
}
"""The noun that each place belongs to."""


async def open_place(dashboard: Dashboard, asked: PlaceAsked) -> None:
    """Goes to a place, or shows why that is impossible. Does neither if another context was opened meanwhile."""
    settings = dashboard.settings
    try:
        if asked.word == "ctx" and dashboard.settings.open_context is None:
            dashboard.say("a recording is shown, and has no context to leave", is_error=True)
        elif asked.word == "ctx":
            await dashboard.open_context(asked.name)
        elif asked.word == "q":
            dashboard.leave()
        elif asked.word == "save":
            _save(dashboard, asked.name)
        elif asked.word in ("unlock", "lock"):
            dashboard.ask_to_unlock() if asked.word == "unlock" else dashboard.set_read_only(True)
        else:
            screen = await _screen_of(dashboard, asked) if asked.name or asked.word == "masters" else None
            if dashboard.settings is settings:
                await dashboard.go_into(_NOUNS[asked.word], screen)
    except RocketMQError as error:
        if dashboard.settings is settings:
            dashboard.say(f"{error}. {error.hint or ''}".rstrip(), is_error=True)


def _save(dashboard: Dashboard, name: str) -> None:
    """Saves the focused table in a file on the machine where rmqadmin runs."""
    from rmqadmin.tui.screens.base import DashboardScreen
    from rmqadmin.tui.table_file import write_table

    screen = dashboard.screen
    table = screen.filtered_table() if isinstance(screen, DashboardScreen) else None
    if table is None:
        raise UsageError("there is no table on this screen")
    row_count = write_table(expanded(name), table.model)
    dashboard.say(f"saved {counted(row_count, 'row')} in {name}")


async def _screen_of(dashboard: Dashboard, asked: PlaceAsked) -> DashboardScreen:
    from rmqadmin.tui.screens.broker_sets import BrokerSetsScreen
    from rmqadmin.tui.screens.group import GroupScreen
    from rmqadmin.tui.screens.messages import MessagesScreen
    from rmqadmin.tui.screens.topics import QueuesScreen
    from rmqadmin.tui.sources.groups import GroupFacts

    if asked.word == "masters":
        return BrokerSetsScreen()
    if asked.word == "topic":
        return QueuesScreen(asked.name)
    if asked.word == "group":
        with dashboard.make_client(read_only=True) as client:
            cluster = await asyncio.to_thread(read_askable, client, dashboard.memory)
        return GroupScreen(GroupFacts(asked.name, cluster.brokers, None, tuple(cluster.gone)))
    return MessagesScreen(dlq_topic(asked.name) if asked.word == "dlq" else asked.name)
