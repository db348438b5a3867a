"""The ``rmqserver`` command: ``standalone``, ``namesrv``, ``broker`` and ``controller``. It must start in a blink, so
it uses argparse, and imports nothing heavy before the command line is checked."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from functools import partial

from rmqproto.errors import RocketMQError, UsageError
from rmqproto.hosts import PORT_MAX
from rmqserver.environment import VARIABLE_PREFIX, EnvironmentParser
from rmqserver.version import VERSION

EXIT_FAILED = 1
EXIT_USAGE = 2
BROKERS_MAX = 9

_DESCRIPTION = f"""\
A RocketMQ nameserver, broker and controller. One JSON line on standard output tells when it serves; SIGTERM, SIGINT
or SIGHUP ends it. An option that is not given is taken from the environment: --flush from {VARIABLE_PREFIX}FLUSH, and
so on."""

_EXAMPLES = """\
examples:
  rmqserver standalone                         nameserver on 9876, broker on 10911, a temporary store
  rmqserver standalone --data ./store          keep the messages; flush each before it is acknowledged
  rmqserver standalone --namesrv-port 0 --port 0 --ready-file ready.json      any free ports, for tests
  rmqserver standalone --brokers 2             two brokers of one cluster, each with a core and a store of its own
  rmqserver standalone --replicas 3            three brokers, of which one takes over when the master is killed
  rmqserver broker --namesrv "ns1:9876;ns2:9876" --config broker.conf --set brokerName=broker-b
  rmqserver controller --data ./controller     elects the masters of brokers with enableControllerMode=true
  RMQSERVER_DATA=/store RMQSERVER_LISTEN=0.0.0.0 rmqserver standalone         the same by the environment
"""


def run(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0 after a clean stop, 2 if the command line or a setting is wrong, 1 otherwise."""
    started_s = time.perf_counter()
    argv = sys.argv[1:] if argv is None else argv
    if sorted(argv) == ["--verbose", "--version"]:
        from rmqserver import core  # what a report of a fault should say

        python = f"{sys.version.split()[0]}, {sys.executable}"
        sys.stdout.write(f"rmqserver {VERSION}\ncore: {core.NAME}\nPython: {python}\n")
        return 0
    parser = _parser()
    args = vars(parser.parse(argv, os.environ))
    command = args.pop("command")
    if command == "completion":
        from rmqserver import completion

        try:
            return completion.run(args["shell"], installs=args["install"], commands=parser.options_by_command)
        except UsageError as error:
            return _told(error)

    from rmqserver import logs
    from rmqserver.command_line import Options, plan
    from rmqserver.process.server import serve  # 150 ms, most of it trio

    logs.set_up(args["log_level"])
    try:
        options = Options(
            has_namesrv=command in ("standalone", "namesrv"),
            has_broker=command in ("standalone", "broker"),
            has_controller=command == "controller",
            **args,
        )
        if options.replicas is None and options.brokers is None:
            return serve(plan(options), started_s)
        from rmqserver.process.local_set import plan_local_set

        server_plan, local_set = plan_local_set(options)
        return serve(server_plan, started_s, local_set)
    except RocketMQError as error:
        return _told(error)


def _told(error: RocketMQError) -> int:
    """Says why the program ends; the exit status."""
    hint = f"\nhint: {error.hint}" if error.hint else ""
    sys.stderr.write(f"rmqserver: error: {error}{hint}\n")
    return EXIT_USAGE if isinstance(error, UsageError) else EXIT_FAILED


def _parser() -> EnvironmentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = EnvironmentParser(
        prog="rmqserver", description=_DESCRIPTION, epilog=_EXAMPLES, formatter_class=raw, allow_abbrev=False
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"rmqserver {VERSION}",
        help="show the version and exit; with --verbose, also whether the native core is there",
    )
    standalone = parser.add_command("standalone", "nameserver and broker in one process")
    namesrv = parser.add_command("namesrv", "a nameserver")
    broker = parser.add_command("broker", "a broker that registers with nameservers")
    controller = parser.add_command("controller", "a controller, which elects the masters of brokers")
    shells = parser.add_command("completion", "print or install the completion of a shell")
    shells.add_argument("shell", choices=("bash", "zsh", "fish"))
    shells.add_argument("--install", action="store_true", help="write it where the shell looks for it, for this user")
    _add_port(standalone, "--namesrv-port", "the nameserver's port (default 9876)")
    _add_port(namesrv, "--port", "the port (default 9876)")
    _add_port(controller, "--port", "the port (default 9878)")
    broker.add_argument(
        "--namesrv",
        metavar="HOST:PORT[;HOST:PORT]",
        help="the nameservers (default: namesrvAddr, then the environment's NAMESRV_ADDR)",
    )
    standalone.add_argument(
        "--replicas",
        type=partial(_broker_count, at_least=2),
        metavar="N",
        help="run a set of N brokers under a controller (port 9878), to test clients: each is a process, and one of "
        "them is the master; each further broker's port is ten higher (docs/controller.md)",
    )
    standalone.add_argument(
        "--brokers",
        type=partial(_broker_count, at_least=1),
        metavar="N",
        help="run N brokers of one cluster to use more cores: each is a process with a name and a store, DIR/broker-a, "
        "DIR/broker-b, ...; each further broker's ports are ten higher (docs/brokers.md)",
    )
    for command in (standalone, broker):
        _add_port(command, "--port", "the broker's port (default 10911)")
        _add_broker_options(command)
    for command in (standalone, namesrv, broker, controller):
        _add_common_options(command)
    controller.add_argument("--data", metavar="DIR", help="directory for the masters and the in-sync replicas")
    controller.add_argument(
        "--etcd",
        metavar="URL[,URL...]",
        help="the members of an etcd where several controllers keep these instead; one leads, and another takes over",
    )
    _add_advertise(controller, "brokers find it")
    namesrv.add_argument("--data", metavar="DIR", help="where the key-value table is kept (default: in memory)")
    return parser


def _add_port(parser: argparse.ArgumentParser, name: str, help: str) -> None:
    parser.add_argument(name, type=_port, metavar="PORT", help=f"{help}; 0 is any free one")


def _port(text: str) -> int:
    port = _number(text)
    if port is None or port > PORT_MAX:
        raise argparse.ArgumentTypeError(f"{text} is not a port from 0 to {PORT_MAX}")
    return port


def _number(text: str) -> int | None:
    """As ``whole_number``, whose imports `--version` does not wait for."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def _broker_count(text: str, at_least: int) -> int:
    count = _number(text)
    if count is None or not at_least <= count <= BROKERS_MAX:
        raise argparse.ArgumentTypeError(f"{text} is not a number of brokers from {at_least} to {BROKERS_MAX}")
    return count


def _add_broker_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data", metavar="DIR", help="the store, in Apache's layout (default: a temporary one, removed at the end)"
    )
    _add_advertise(parser, "clients find the broker")
    parser.add_argument(
        "--flush",
        choices=("sync", "async"),
        help="acknowledge a message after its fdatasync, or before (default: sync with --data, else async)",
    )
    parser.add_argument(
        "--seed",
        metavar="FILE",
        help="topics, groups and messages to create before the server is ready, as YAML or JSON (docs/testing.md)",
    )
    parser.add_argument(
        "--test-requests",
        choices=("on", "off"),
        help="serve requests that inject faults or reset the server (default: on without --data, else off; "
        "docs/testing.md)",
    )


def _add_advertise(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument(
        "--advertise",
        metavar="auto|HOST[:PORT]",
        help=f"the address at which {what} (default auto: the one that they connected to; behind a mapped port: the "
        "host and port that they see)",
    )


def _add_common_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--listen", metavar="HOST", help="the address to listen on (default 127.0.0.1)")
    parser.add_argument("--config", metavar="FILE", help="settings in Apache's form: broker.conf, namesrv.conf")
    parser.add_argument(
        "--set",
        dest="settings",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="one of Apache's settings; overrides --config (in the environment: one a line)",
    )
    parser.add_argument(
        "--allow-unknown", action="store_true", help="start although --set names a setting that no server has"
    )
    parser.add_argument(
        "--fault",
        dest="faults",
        action="append",
        default=[],
        metavar="RULE",
        help="a fault to inject, such as SEND_MESSAGE:delay=200ms:share=0.1 (docs/testing.md; in the environment: one "
        "a line)",
    )
    parser.add_argument(
        "--metrics-port",
        type=_port,
        metavar="PORT",
        help="serve /metrics for Prometheus, /healthz and /readyz over HTTP (default: no); 0 is any free port",
    )
    parser.add_argument("--ready-file", metavar="FILE", help="also write the ready line to this file")
    parser.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="lowest level that is logged on standard error (default info)",
    )
