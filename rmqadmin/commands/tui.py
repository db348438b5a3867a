"""``tui``: opens the live dashboard on the terminal, or serves it: what it needs from the command line, files and
contexts, and how it ends."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.common_options import Value, option
from rmqadmin.cli.output.terminal_guard import TerminalGuard
from rmqadmin.core.exit_codes import ExitCode
from rmqproto.errors import RocketMQError, UsageError

if TYPE_CHECKING:
    from rmqadmin.tui.dashboard_client import DashboardClient
    from rmqadmin.tui.settings import DashboardSettings


_LOOPBACK = "127.0.0.1"
_SIDE_MAX = 1000
"""The most columns and lines that a variable may give a dashboard: it draws them all."""


def tui(
    call: Call,
    read_only: Annotated[bool, option("--read-only", "Offer no changes and make none.")] = False,
    interval_s: Annotated[
        float | None,
        Value.SECONDS,
        option("--interval", "How often to ask. [default: as last time; 2.0]", min=0.5, max=60.0),
    ] = None,
    alerts: Annotated[
        Path | None, Value.FILE, option("--alerts", "File of alert rules. [default: alerts.toml beside config.toml]")
    ] = None,
    record: Annotated[Path | None, Value.FILE, option("--record", "Record all that is seen to a new file.")] = None,
    replay: Annotated[Path | None, Value.FILE, option("--replay", "Show such a recording, step by step.")] = None,
    serve: Annotated[bool, option("--serve", "Serve it to browsers, without changes; needs rmqadmin[serve].")] = False,
    host: Annotated[str | None, option("--host", "With --serve: listen on this address. [default: 127.0.0.1]")] = None,
    port: Annotated[
        int | None, option("--port", "With --serve: on this port. [default: a free one]", min=0, max=65535)
    ] = None,
    write: Annotated[bool, option("--write", "With --serve: also offer changes there.")] = False,
) -> int:
    """Keys are shown at the bottom; `?` shows all of them. Before a change, it shows a preview and asks you to type the
    name. In a read-only or protected context it changes nothing until unlocked with --unlock or `:unlock`.

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
    return _open(call, read_only=read_only, interval_s=interval_s, alerts=alerts, record=record, replay=replay)


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


class DashboardFailedError(RocketMQError):
    """Textual caught an exception, printed it and restored the terminal."""


def _open(
    call: Call,
    *,
    read_only: bool = False,
    interval_s: float | None = None,
    alerts: Path | None = None,
    record: Path | None = None,
    replay: Path | None = None,
) -> int:
    """Runs the dashboard until the user leaves it, or a signal or the end of the terminal ends it; the exit status.
    ``interval_s`` None: as last time. RocketMQError before anything is shown, if options or files are invalid."""
    _check_terminal()
    gc.disable()  # as in __main__: loaded objects are never garbage, and cost 50 ms in every full collection
    from rmqadmin.core.alerts.alerts_file import rules_in_force
    from rmqadmin.tui.app import DashboardApp  # 200 ms that no other command should pay
    from rmqadmin.tui.app_base import collect_at_rest
    from rmqadmin.tui.refresh import INTERVAL_DEFAULT_S
    from rmqadmin.tui.remembered import read_remembered
    from rmqadmin.tui.settings import DashboardSettings, keys_path, read_keys

    said: dict[str, None] = {}
    keys = read_keys(keys_path())
    rules = rules_in_force(alerts)
    replayed = None
    if replay is not None:
        from rmqadmin.core.contexts.context import ContextColor
        from rmqadmin.tui.recording.recording_file import RecordingReader
        from rmqadmin.tui.recording.replay import Replay

        replayed = Replay(RecordingReader(replay), rules)
        settings = DashboardSettings(
            replayed.reader.head.namesrv_text, replayed.make_client, replayed.now_ms, read_only=True,
            context=f"replay of {replay.name}", color=ContextColor.CYAN,
        )  # fmt: skip
    else:  # reports an error before the first frame, not in a feed
        settings = _settings(call, lambda text: said.update({text: None}), read_only=read_only, record=record)
    collect_at_rest()
    gc.enable()
    if interval_s is None:
        interval_s = read_remembered().interval_s or INTERVAL_DEFAULT_S
    app = DashboardApp(msgspec.structs.replace(settings, interval_s=interval_s, keys=keys, alerts=rules), replayed)
    guard = TerminalGuard(app.leave)
    with call.asking_limited(), guard:
        app.run()
    if settings.recording is not None:
        settings.recording.close()
    if replayed is not None:
        replayed.reader.close()
    for text in said:
        call.notice(text)
    if app.return_code:
        raise DashboardFailedError("the dashboard ended because of a defect", hint="The lines above show where.")
    return guard.status or ExitCode.OK


def _check_terminal() -> None:
    """UsageError without a terminal that can be drawn on. A web page can: Textual is told of it by this variable."""
    if "TEXTUAL_DRIVER" in os.environ:
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()):
        raise UsageError("the dashboard needs a terminal", hint="Commands with --watch work without one.")
    for name in ("COLUMNS", "LINES"):  # they stand before the terminal's own size
        text = os.environ.get(name, "")
        if not (text.isascii() and text.isdigit() and 0 < int(text) <= _SIDE_MAX):
            os.environ.pop(name, None)
    kind = os.environ.get("TERM")
    if not kind or kind == "dumb":
        raise UsageError(
            f"the dashboard cannot draw on this terminal: TERM is {kind or 'not set'}",
            hint="Commands with --watch work there. Where the terminal can draw: export TERM=xterm-256color",
        )


def _settings(
    call: Call, tell: Callable[[str], None], *, read_only: bool, record: Path | None = None
) -> DashboardSettings:
    """The settings of a dashboard for the servers of a call. RocketMQError, as from ``call.new_client``. ``tell`` takes
    what to print once the terminal is restored. ``record``: a new file for a recording; UsageError if it cannot be
    created."""
    from rmqadmin.tui.settings import DashboardSettings, Reach

    def make_client(*, read_only: bool) -> DashboardClient:
        from rmqadmin.tui.dashboard_client import DashboardClient  # 50 ms that the first frame does not wait for

        if read_only and recording is not None:
            from rmqadmin.tui.recording.replay import RecordingClient

            recorded = call.new_client(RecordingClient, read_only=True)
            recorded.recording, recorded.recorded_ms = recording, call.now_ms
            return recorded
        if read_only:
            return call.new_client(DashboardClient, read_only=True)
        from rmqadmin.tui.dashboard_client import AuditedClient

        trail = call.new_trail(tell)
        client = call.new_client(AuditedClient, read_only=False, before_change=trail.begin)
        client.trail = trail
        return client

    namesrv_addrs = call.namesrv_addrs
    call.check_options()
    recording = None
    if record is not None:
        from rmqadmin.tui.recording.recording_file import Head, RecordingWriter

        recording = RecordingWriter(record, Head(";".join(namesrv_addrs), call.now_ms()))
    context = call.settings.context
    return DashboardSettings(
        ";".join(namesrv_addrs),
        make_client,
        call.now_ms,
        read_only=read_only or call.locked_by is not None,
        locked_by=None if read_only else call.locked_by,
        context=None if context is None else context.name,
        color=None if context is None else context.shown_color,
        protected=next((guard.name for guard in call.guards() if guard.settings.protected), None),
        access=call.settings.access,
        reach=Reach(*call.reach()),
        open_context=lambda name: _settings(call.in_context(name), tell, read_only=read_only),
        tell=tell,
        recording=recording,
    )
