"""What a command is given besides its own options: the admin client, the clock, and the user to be asked.

Commands take a ``Call`` first and return a ``Result``; they print nothing and exit from nowhere.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from rmqadmin import diagnostics
from rmqadmin.options import NAMESRV_DEFAULT, CommonOptions
from rmqadmin.output import Format, render
from rmqadmin.results import Result
from rmqproto.errors import RocketMQError

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient
    from rmqproto.signing import Credentials

C = TypeVar("C", bound="AdminClient")


class NotConfirmedError(RocketMQError):
    """The user was asked and did not say yes. Ends with status 1, as any refusal."""


class Call:
    """One invocation of one command. Leaving ``with`` closes the client."""

    def __init__(self, command: str, options: CommonOptions, format: Format):
        self.command = command
        self.format = format
        self.dry_run = options.dry_run
        self._options = options

    @cached_property
    def admin(self) -> AdminClient:
        """The client, connected to nothing yet. Under ``--dry-run`` it refuses every request that could change
        something, whatever the command does."""
        from rmqclient.admin import AdminClient  # 50 ms, which `explain` and every usage error do without

        return self.new_client(AdminClient, read_only=self.dry_run)

    def new_client(self, kind: type[C], *, read_only: bool) -> C:
        """A client of the caller's own, for whom waiting for another's answers will not do. The caller closes it."""
        return kind(self.namesrv_addr, self._options.credentials(), self._options.timeout_s, read_only=read_only)

    @cached_property
    def namesrv_addr(self) -> str:
        """As it was written: ``-n``, RMQADMIN_NAMESRV, NAMESRV_ADDR, then this machine, with a word about it."""
        found = self._options.namesrv_addr or os.environ.get("RMQADMIN_NAMESRV") or os.environ.get("NAMESRV_ADDR")
        if not found:
            diagnostics.notice(f"no name server given (-n, RMQADMIN_NAMESRV or NAMESRV_ADDR): using {NAMESRV_DEFAULT}")
        return found or NAMESRV_DEFAULT

    @property
    def credentials(self) -> Credentials | None:
        """For what talks to servers beside ``admin``. UsageError for half of a pair."""
        return self._options.credentials()

    @property
    def is_namesrv_given(self) -> bool:
        return bool(
            self._options.namesrv_addr or os.environ.get("RMQADMIN_NAMESRV") or os.environ.get("NAMESRV_ADDR")
        )  # fmt: skip

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def notice(self, text: str) -> None:
        diagnostics.notice(text)

    def remember(self, kind: str, names: Iterable[str]) -> None:
        """Keeps names for completion: topic, group, cluster or broker."""
        from rmqadmin.names_cache import remember

        remember(self.admin.namesrv_addrs, kind, names)

    def confirm(self, what: str, name: str, *, preview: Result | None = None) -> None:
        """Asks a person at a terminal to type ``name`` before ``what`` is done, after showing them ``preview``;
        NotConfirmedError for anything else.

        Passes without a question where nobody can be asked, as mqadmin does, so that scripts keep working; with
        ``--yes``; and with ``--output mqadmin``, which never asks.
        """
        if not self.can_ask:
            return
        table = "" if preview is None else render(preview, self.command, Format.TABLE)
        if diagnostics.ask(f"{table}{what}\nType {name} to go on: ") != name:
            raise NotConfirmedError("nothing was changed", hint="Type the name, or pass --yes.")

    @property
    def can_ask(self) -> bool:
        """Whether somebody is there to be asked, and wants to be."""
        return not self._options.yes and self.format is not Format.MQADMIN and sys.stdin.isatty()

    def close(self) -> None:
        if "admin" in self.__dict__:
            self.admin.close()
