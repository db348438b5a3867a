"""The options that commands share, declared once: the fields of ``CommonOptions``, which every command gets behind its
own, and the types of the values that mqadmin spells in its own way.

What we add has long names only, because mqadmin's commands use the short letters for other things; ``-ak`` and ``-sk``
are the exception that its users know.
"""

from __future__ import annotations

import inspect
import os
import typing
from enum import StrEnum
from typing import Annotated, Any

import msgspec
import typer

from rmqadmin.output import Format, parse_format
from rmqadmin.registry import Effect, Entry
from rmqproto.errors import UsageError
from rmqproto.signing import Credentials

NAMESRV_DEFAULT = "127.0.0.1:9876"
TIMEOUT_DEFAULT_S = 5.0
WATCH_INTERVAL_DEFAULT_S = 2.0
WATCH_INTERVAL_MIN_S = 0.1

IMPLIED_VALUES = {"--watch": f"{WATCH_INTERVAL_DEFAULT_S:g}"}
"""Options that may stand without a value, and what they then mean."""

MQADMIN_OPTIONS = frozenset({"--namesrvAddr", "--interval"})
"""The shared options that are mqadmin's own."""


class TrueFalse(StrEnum):
    """A boolean that takes a value, as mqadmin has them: ``-o true``."""

    TRUE = "true"
    FALSE = "false"


def as_bool(value: TrueFalse | None) -> bool | None:
    return None if value is None else value is TrueFalse.TRUE


BrokerAddr = Annotated[str | None, typer.Option("-b", "--brokerAddr", metavar="HOST:PORT", help="This broker only.")]
ClusterName = Annotated[
    str | None, typer.Option("-c", "--clusterName", metavar="CLUSTER", help="Every master of this cluster.")
]
AskedBroker = Annotated[
    str | None, typer.Option("-b", "--brokerAddr", metavar="HOST:PORT", help="Ask this broker only.")
]
BrokerName = Annotated[str, typer.Option("-b", "--brokerName", metavar="NAME", help="Broker name.")]
Topic = Annotated[str, typer.Option("-t", "--topic", metavar="TOPIC", help="Topic name.")]
LmqParent = Annotated[
    str | None,
    typer.Option("-c", "--cluster", metavar="TOPIC", help="Look up the route of this topic instead (LMQ parent)."),
]
ConsumerGroup = Annotated[str, typer.Option("-g", "--consumerGroup", metavar="GROUP", help="Consumer group.")]
GroupName = Annotated[str, typer.Option("-g", "--groupName", metavar="GROUP", help="Consumer group.")]
Replace = Annotated[bool, typer.Option("--replace", help="Put what is not given back to its default, as mqadmin does.")]
IgnoredForce = Annotated[
    TrueFalse | None, typer.Option("-f", "--force", case_sensitive=False, help="Without effect, as in mqadmin.")
]


class CommonOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The values of the shared options of one call. A field that a command does not offer keeps its default."""

    namesrv_addr: Annotated[
        str | None,
        typer.Option(
            "-n",
            "--namesrvAddr",
            metavar="HOST:PORT[;...]",
            help=f"Name servers. Environment: RMQADMIN_NAMESRV, NAMESRV_ADDR. Default: {NAMESRV_DEFAULT}.",
        ),
    ] = None
    access_key: Annotated[
        str | None, typer.Option("-ak", "--access-key", metavar="KEY", help="Environment: RMQADMIN_ACCESS_KEY.")
    ] = None
    secret_key: Annotated[
        str | None, typer.Option("-sk", "--secret-key", metavar="KEY", help="Environment: RMQADMIN_SECRET_KEY.")
    ] = None
    timeout_s: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0.001, help="Longest wait for one answer.")
    ] = TIMEOUT_DEFAULT_S
    output: Annotated[
        str | None,
        typer.Option("--output", metavar="FORMAT", help=f"{', '.join(Format)}. Environment: RMQADMIN_OUTPUT."),
    ] = None
    watch_s: Annotated[
        float | None,
        typer.Option(
            "--watch",
            metavar="[SECONDS]",
            min=WATCH_INTERVAL_MIN_S,
            help=f"Repeat until Ctrl-C, every {WATCH_INTERVAL_DEFAULT_S:g} s if not said otherwise.",
        ),
    ] = None
    interval_s: Annotated[
        float | None,
        typer.Option(
            "-i", "--interval", metavar="SECONDS", min=WATCH_INTERVAL_MIN_S, help="mqadmin's way to say --watch."
        ),
    ] = None
    until: Annotated[
        str | None,
        typer.Option("--until", metavar="EXPR", help="With --watch: end as soon as EXPR holds, e.g. 'lag_count == 0'."),
    ] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change; change nothing.")] = False
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False

    def format(self, before_command: str | None) -> Format:
        """``--output``, then ``-o`` before the command, then RMQADMIN_OUTPUT, then a table. UsageError."""
        if self.output is not None:
            return parse_format(self.output, "--output")
        if before_command is not None:
            return parse_format(before_command, "-o")
        from_environment = os.environ.get("RMQADMIN_OUTPUT")
        return parse_format(from_environment, "RMQADMIN_OUTPUT") if from_environment else Format.TABLE

    def credentials(self) -> Credentials | None:
        """``-ak`` and ``-sk``, else what the environment says. UsageError for one without the other."""
        access_key = self.access_key or os.environ.get("RMQADMIN_ACCESS_KEY")
        secret_key = self.secret_key or os.environ.get("RMQADMIN_SECRET_KEY")
        if not access_key and not secret_key:
            return None
        if not access_key or not secret_key:
            missing = "-sk (RMQADMIN_SECRET_KEY)" if access_key else "-ak (RMQADMIN_ACCESS_KEY)"
            raise UsageError(f"credentials are two keys: {missing} is missing")
        return Credentials(access_key, secret_key)


_SERVER = ("namesrv_addr", "access_key", "secret_key", "timeout_s")
_WATCH = ("watch_s", "until")
_CHANGE = ("dry_run", "yes")
_FIELDS_BY_EFFECT: dict[Effect, tuple[str, ...]] = {
    Effect.LOCAL: ("output",),
    Effect.SCREEN: _SERVER,
    Effect.READ: (*_SERVER, "output", *_WATCH),
    Effect.READ_OR_CHANGE: (*_SERVER, "output", *_WATCH, *_CHANGE),
    Effect.CHANGE: (*_SERVER, "output", *_CHANGE),
    Effect.DESTROY: (*_SERVER, "output", *_CHANGE),
}


def options_for(entry: Entry) -> list[inspect.Parameter]:
    """The shared options of a command as parameters of a function, for Typer to read."""
    names = (*(["interval_s"] if entry.has_interval else []), *_FIELDS_BY_EFFECT[entry.effect])
    annotations: dict[str, Any] = typing.get_type_hints(CommonOptions, include_extras=True)
    defaults = {field.name: field.default for field in msgspec.structs.fields(CommonOptions)}
    return [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults[name], annotation=annotations[name])
        for name in names
    ]
