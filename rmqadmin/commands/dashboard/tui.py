"""``tui``: opens the live dashboard."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from rmqadmin.call import Call
from rmqadmin.options.value_markers import Value
from rmqadmin.shared.open_dashboard import open_dashboard
from rmqproto.errors import UsageError

_LOOPBACK = "127.0.0.1"


def tui(
    call: Call,
    read_only: Annotated[bool, typer.Option("--read-only", help="Offer no changes and make none.")] = False,
    interval_s: Annotated[
        float | None,
        typer.Option(
            "--interval", metavar="SECONDS", min=0.5, max=60.0, help="How often to ask. [default: as last time; 2.0]"
        ),
    ] = None,
    alerts: Annotated[
        Path | None,
        Value.FILE,
        typer.Option("--alerts", metavar="FILE", help="File of alert rules. [default: alerts.toml beside config.toml]"),
    ] = None,
    record: Annotated[
        Path | None, Value.FILE, typer.Option("--record", metavar="FILE", help="Record all that is seen to a new file.")
    ] = None,
    replay: Annotated[
        Path | None, Value.FILE, typer.Option("--replay", metavar="FILE", help="Show such a recording, step by step.")
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve it to browsers, without changes; needs rmqadmin[serve].")
    ] = False,
    host: Annotated[
        str | None, typer.Option("--host", help="With --serve: listen on this address. [default: 127.0.0.1]")
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="With --serve: on this port. [default: a free one]")
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="With --serve: also offer changes there.")] = False,
) -> int:
    """Keys are shown at the bottom; `?` shows all of them. Before a change, it shows a preview and asks you to type the
    name. In a read-only or protected context it changes nothing until unlocked with --unlock or `:unlock`.

    Examples:
      rmqadmin tui -n 127.0.0.1:9876
      rmqadmin tui --read-only --interval 5
    """
    if record is not None and replay is not None:
        raise UsageError("--record and --replay are not for one dashboard", hint="Leave one of them out.")
    if not serve and (host is not None or port is not None or write):
        raise UsageError("--host, --port and --write are for --serve", hint="Add --serve.")
    if serve and (record is not None or (write and read_only)):
        raise UsageError(f"--serve is not for {'--record' if record else '--write with --read-only'}")
    if serve:
        options = [] if interval_s is None else ["--interval", f"{interval_s:g}"]
        options += [f"--{name}={path}" for name, path in (("alerts", alerts), ("replay", replay)) if path is not None]
        _serve(call, options, host or _LOOPBACK, port or 0, write=write)
        return 0
    return open_dashboard(call, read_only=read_only, interval_s=interval_s, alerts=alerts, record=record, replay=replay)


def _serve(call: Call, options: Sequence[str], host: str, port: int, *, write: bool) -> None:
    """Serves the dashboard until a signal ends it. Checks the options once here, not on each page: UsageError."""
    import asyncio

    try:
        from rmqadmin.tui.browser.browser_server import BrowserServer, ServedDashboard  # 300 ms; only for this
    except ImportError as error:
        hint = "pip install 'rmqadmin[serve]'"
        raise UsageError(f"--serve needs a package that is not installed: {error.name}", hint=hint) from None
    addresses = ";".join(call.namesrv_addrs)
    call.check_options()
    words, environment = call.reach()
    words += [*options, *([] if write else ["--read-only"]), *(["--unlock"] if call.is_unlocked else [])]
    argv = [sys.executable, "-m", "rmqadmin", "tui", *words]
    server = BrowserServer(ServedDashboard(argv, environment, f"rmqadmin {addresses}"), host, port)

    def tell(url: str) -> None:
        stdout.write(f"{url}\n")
        stdout.flush()
        call.notice(
            f"{'it offers changes' if write else 'it is read-only'}; the address is the key to it; Ctrl-C ends it"
        )

    stdout = sys.stdout
    with redirect_stdout(sys.stderr):  # textual-serve prints the output of a failed dashboard
        asyncio.run(server.run(tell))
