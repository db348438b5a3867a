"""``tui``: the live dashboard."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from rmqadmin.call import Call
from rmqclient.addresses import parse_addresses
from rmqproto.errors import UsageError

if TYPE_CHECKING:
    from rmqadmin.tui.client import DashboardClient


def tui(
    call: Call,
    read_only: Annotated[bool, typer.Option("--read-only", help="Offer and carry out no change.")] = False,
    interval_s: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", min=0.5, max=60.0, help="How often to ask.")
    ] = 2.0,
) -> None:
    """Keys are shown at the bottom; `?` shows all of them. Nothing is changed without a preview and the name typed.

    Examples:
      rmqadmin tui -n 127.0.0.1:9876
      rmqadmin tui --read-only --interval 5
    """
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        raise UsageError("the dashboard needs a terminal", hint="Commands with --watch work without one.")
    gc.disable()  # as in __main__: what loads is never garbage, and 50 ms of every full collection to look through
    from rmqadmin.tui.app import DashboardApp  # 200 ms, which no other command shall pay
    from rmqadmin.tui.settings import Settings, keys_path, read_keys

    def make_client(*, read_only: bool) -> DashboardClient:
        from rmqadmin.tui.client import DashboardClient  # 50 ms that the first frame does not wait for

        return call.new_client(DashboardClient, read_only=read_only)

    # What is wrong with either is said before the first frame, and not by a feed.
    namesrv_addrs, _ = parse_addresses(call.namesrv_addr), call.credentials
    keys = read_keys(keys_path())
    gc.freeze()
    gc.enable()
    DashboardApp(
        Settings(
            ";".join(namesrv_addrs), make_client, call.now_ms, read_only=read_only, interval_s=interval_s, keys=keys
        )
    ).run()
