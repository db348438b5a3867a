"""The ``rmqserver`` command: ``standalone``, ``namesrv`` and ``broker``. It must start in a blink, so it
is argparse, and nothing heavy is imported before the command line is known to be right."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from rmqproto.errors import RocketMQError, UsageError

EXIT_FAILED = 1
EXIT_USAGE = 2
PORT_MAX = 65_535

_DESCRIPTION = """\
A RocketMQ nameserver and broker. One JSON line on standard output tells when it serves; SIGTERM or SIGINT ends it."""

_EXAMPLES = """\
examples:
  rmqserver standalone                         nameserver on 9876, broker on 10911, a temporary store
  rmqserver standalone --data ./store          keep the messages; flush each before it is acknowledged
  rmqserver standalone --namesrv-port 0 --port 0 --ready-file ready.json      any free ports, for tests
  rmqserver broker --namesrv ns1:9876;ns2:9876 --config broker.conf --set brokerName=broker-b
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0 after a clean stop, 2 where the command line or a setting is wrong, 1 else."""
    started_s = time.perf_counter()
    args = vars(_parser().parse_args(argv))
    command, log_level = args.pop("command"), args.pop("log_level")

    from rmqserver import logs
    from rmqserver.options import Options, plan
    from rmqserver.server import serve  # 150 ms, most of it trio

    logs.set_up(log_level)
    try:
        options = Options(has_namesrv=command != "broker", has_broker=command != "namesrv", **args)
        return serve(plan(options), started_s)
    except RocketMQError as error:
        hint = f"\nhint: {error.hint}" if error.hint else ""
        sys.stderr.write(f"rmqserver: error: {error}{hint}\n")
        return EXIT_USAGE if isinstance(error, UsageError) else EXIT_FAILED


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="rmqserver", description=_DESCRIPTION, epilog=_EXAMPLES, formatter_class=raw, allow_abbrev=False
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    standalone = commands.add_parser("standalone", help="nameserver and broker in one process", allow_abbrev=False)
    namesrv = commands.add_parser("namesrv", help="a nameserver", allow_abbrev=False)
    broker = commands.add_parser("broker", help="a broker that registers with nameservers", allow_abbrev=False)
    _add_port(standalone, "--namesrv-port", "the nameserver's port (default 9876)")
    _add_port(namesrv, "--port", "the port (default 9876)")
    broker.add_argument(
        "--namesrv",
        metavar="HOST:PORT[;HOST:PORT]",
        help="the nameservers (default: namesrvAddr, then the environment's NAMESRV_ADDR)",
    )
    for command in (standalone, broker):
        _add_port(command, "--port", "the broker's port (default 10911)")
        _add_broker_options(command)
    for command in (standalone, namesrv, broker):
        _add_common_options(command)
    namesrv.add_argument("--data", metavar="DIR", help="where the key-value table is kept (default: in memory)")
    return parser


def _add_port(parser: argparse.ArgumentParser, name: str, help: str) -> None:
    parser.add_argument(name, type=_port, metavar="PORT", help=f"{help}; 0 is any free one")


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > PORT_MAX:
        raise argparse.ArgumentTypeError(f"{text} is no port from 0 to {PORT_MAX}")
    return int(text)


def _add_broker_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data", metavar="DIR", help="the store, in Apache's layout (default: a temporary one, removed at the end)"
    )
    parser.add_argument(
        "--advertise",
        metavar="auto|HOST[:PORT]",
        help="where clients are told to find the broker (default auto: the address on which they reached us)",
    )
    parser.add_argument(
        "--flush",
        choices=("sync", "async"),
        help="acknowledge a message after its fdatasync, or before (default: sync with --data, else async)",
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
        help="one of Apache's settings; before those of --config",
    )
    parser.add_argument("--ready-file", metavar="FILE", help="where the ready line is written, too")
    parser.add_argument("--log-level", choices=("debug", "info", "warning", "error"), default="info")


if __name__ == "__main__":
    sys.exit(main())
