"""The users of one broker, or of all, and their ACL. Brokers send passwords in clear text. They are never shown, and
are dropped as soon as the answer is read."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, ClassVar

from textual.binding import BindingType

from rmqadmin.core.servers.broker_state import Replica
from rmqadmin.core.tables.marks import Mark
from rmqadmin.tui.dashboard_client import DashboardClient
from rmqadmin.tui.dialogs.brokers import delete_user, edit_user, grant, new_user, revoke
from rmqadmin.tui.key_map import bound
from rmqadmin.tui.screens.row_parts import of_replica
from rmqadmin.tui.screens.table_screen import TableScreen
from rmqadmin.tui.sources import access
from rmqadmin.tui.sources.access import Grant
from rmqadmin.tui.sources.found import Found
from rmqadmin.tui.widgets.tables.columns import MINOR, VITAL, Column
from rmqproto.access.users import UserType
from rmqproto.bodies.acl import UserInfo


def _resource(grant: Grant) -> str | None:
    if grant.entry is not None:
        return grant.entry.resource
    is_super = grant.user is not None and grant.user.user_type == UserType.SUPER
    return "everything" if is_super else "nothing granted"


def _word(name: str, value: Callable[[Grant], str | None], warns: str, **how: Any) -> Column:
    """A word, highlighted if it is ``warns``."""
    mark = lambda grant: Mark.WARN if (value(grant) or "").lower() == warns else None  # noqa: E731
    return Column(name=name, value=value, mark=mark, **how)


_of_broker = Column(name="broker_name", value=attrgetter("replica.broker_name"), importance=VITAL)


class AccessScreen(TableScreen):
    NOUN = ("entry", "entries")
    NONE = "no users, and nothing is granted"
    ROWS_OPEN = False
    file_name = "access"
    BINDINGS: ClassVar[list[BindingType]] = [
        bound("new"),
        bound("edit"),
        bound("permissions", word="Grant"),
        bound("revoke"),
        bound("delete"),
    ]
    changing_actions = frozenset({"new", "edit", "permissions", "revoke", "delete"})

    def columns(self) -> list[Column]:
        return [
            Column(name="subject", importance=VITAL),
            *([] if self._replica else [_of_broker]),
            Column(name="type", value=lambda grant: grant.user and grant.user.user_type),
            _word("status", lambda grant: grant.user.user_status if grant.user else None, "disable"),
            Column(name="policy", value=attrgetter("policy_type"), importance=MINOR),
            Column(name="resource", value=_resource, importance=VITAL),
            Column(name="actions", value=lambda grant: grant.entry and ", ".join(grant.entry.actions)),
            Column(
                name="source",
                words="from",
                value=lambda grant: grant.entry and (", ".join(grant.entry.source_ips or ()) or "any"),
            ),
            _word("decision", lambda grant: grant.entry.decision if grant.entry else None, "deny", importance=VITAL),
        ]

    def __init__(self, replica: Replica | None = None):
        self._replica = replica
        self.step = "Users" if replica is None else f"Access to {replica.broker_name} {replica.broker_id}"
        super().__init__()

    def read_rows(self, client: DashboardClient) -> Found[Grant]:
        return access.read_access(client, self.dashboard.memory, self._replica)

    def selected(self) -> dict[str, str]:
        """The broker, and the subject under the cursor, also as a user."""
        grant: Grant | None = self.table.chosen
        if grant is None:
            return {} if self._replica is None else of_replica(self._replica)
        kind, _, name = grant.subject.partition(":")
        user = {"USER": name} if kind == "User" else {}
        return of_replica(grant.replica) | {"User:NAME": grant.subject} | user

    # --- changes -----------------------------------------------------------------------------------------------------

    def _user(self) -> tuple[UserInfo, str] | None:
        """The user of the row, and the broker's address. Says so if the broker lists no user of that name."""
        row: Grant | None = self.row()
        if row is None:
            return None
        if row.user is None:
            self.dashboard.say("the broker lists no such user", is_error=True)
            return None
        return row.user, row.replica.broker_addr

    def action_new(self) -> None:
        cluster = next(iter(self.dashboard.memory.clusters), "")
        self.open_change(new_user(cluster if self._replica is None else self._replica.broker_addr))

    def action_edit(self) -> None:
        if (found := self._user()) is not None:
            self.open_change(edit_user(*found))

    def action_delete(self) -> None:
        if (found := self._user()) is not None:
            self.open_change(delete_user(found[0].username, found[1]))

    def action_permissions(self) -> None:
        """Opens the form for the entry under the cursor, which can also add another entry."""
        if (row := self.row()) is not None:
            self.open_change(grant(row.subject, row.entry, row.replica.broker_addr))

    def action_revoke(self) -> None:
        if (row := self.row()) is None:
            return
        if row.entry is None:
            self.dashboard.say("nothing is granted here", is_error=True)
            return
        self.open_change(revoke(row.subject, row.entry.resource, row.replica.broker_addr))
