"""The options that commands share, declared once: the fields of ``CommonOptions``, which every command gets behind its
own, and the types of the values that mqadmin spells in its own way.

What we add has long names only, because mqadmin's commands use the short letters for other things; ``-ak`` and ``-sk``,
which its users know, are exceptions, and ``-o`` wherever it is free.
"""

from __future__ import annotations

import inspect
import os
import typing
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from typer.models import OptionInfo

from rmqadmin.output import Format, parse_format
from rmqadmin.registry import Effect, Entry
from rmqadmin.tls_options import TlsFiles, is_set, tls_context
from rmqproto.errors import UsageError
from rmqproto.signing import Credentials

if TYPE_CHECKING:
    import ssl

NAMESRV_DEFAULT = "127.0.0.1:9876"
TIMEOUT_DEFAULT_S = 5.0
WATCH_INTERVAL_DEFAULT_S = 2.0
WATCH_INTERVAL_MIN_S = 0.1

OUTPUT_SHORT = "-o"
"""Short for ``--output`` before every command, and behind those of which it is not an option of their own."""

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
AnyCluster = Annotated[
    str | None, typer.Option("-c", "--cluster", metavar="CLUSTER", help="Every broker of this cluster, slaves too.")
]
AllClusters = Annotated[bool, typer.Option("--all-clusters", help="Every broker that the name server knows.")]
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
Group = Annotated[str, typer.Option("-g", "--group", metavar="GROUP", help="Consumer group.")]
ProbeCount = Annotated[int, typer.Option("-a", "--amount", min=1, help="How many messages to each.")]
ProbeSize = Annotated[int, typer.Option("-s", "--size", metavar="BYTES", min=1, help="Size of each message's body.")]
ContainerAddr = Annotated[
    str, typer.Option("-c", "--brokerContainerAddr", metavar="HOST:PORT", help="The container's address.")
]
PERM_METAVAR = "R|W|RW|NUMBER"
ListFile = Annotated[str, typer.Option("-f", "--filename", metavar="FILE", help="JSON file with a list of them.")]
Namespace = Annotated[str, typer.Option("-s", "--namespace", metavar="NAME", help="Namespace of the key.")]
Key = Annotated[str, typer.Option("-k", "--key", metavar="NAME", help="The key.")]
Property = Annotated[str, typer.Option("-k", "--key", metavar="NAME", help="Name of the property.")]
PropertyValue = Annotated[str, typer.Option("-v", "--value", metavar="TEXT", help="Its new value.")]
Replace = Annotated[bool, typer.Option("--replace", help="Put what is not given back to its default, as mqadmin does.")]
ShowAll = Annotated[bool, typer.Option("--all", help="On a terminal, too, what is the system's own.")]
IgnoredForce = Annotated[
    TrueFalse | None, typer.Option("-f", "--force", case_sensitive=False, help="Without effect, as in mqadmin.")
]


class OptionGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Options that belong together, for a command that has many: it declares a parameter of this type, and gets one
    frozen value. Annotate every field with ``typer.Option``; the command line shows them in their order."""


Texts = list[str] | None
"""An option that may be repeated."""


def pairs(option: str, texts: Texts) -> dict[str, str]:
    """What a repeated option says, each time in the form NAME=VALUE; UsageError for another form."""
    found = {}
    for text in texts or []:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise UsageError(f"{option} {text} is not of the form NAME=VALUE")
        found[name] = value
    return found


class CommonOptions(OptionGroup, frozen=True):
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
    is_tls: Annotated[bool, typer.Option("--tls", help="Reach servers by TLS. Environment: RMQADMIN_TLS=true.")] = False
    tls_ca: Annotated[
        str | None,
        typer.Option("--tls-ca", metavar="FILE", help="What signed their certificates. Environment: RMQADMIN_TLS_CA."),
    ] = None
    tls_cert: Annotated[
        str | None,
        typer.Option("--tls-cert", metavar="FILE", help="Our own certificate. Environment: RMQADMIN_TLS_CERT."),
    ] = None
    tls_key: Annotated[
        str | None, typer.Option("--tls-key", metavar="FILE", help="Its key. Environment: RMQADMIN_TLS_KEY.")
    ] = None
    tls_insecure: Annotated[
        bool,
        typer.Option("--tls-insecure", help="Take any certificate. Environment: RMQADMIN_TLS_INSECURE=true."),
    ] = False
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
            help=f"Repeat until Ctrl-C, every {WATCH_INTERVAL_DEFAULT_S:g} s by default.",
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

    def tls(self) -> ssl.SSLContext | None:
        """None without ``--tls`` and RMQADMIN_TLS. UsageError for a file that cannot be used, and for one that is given
        on the command line while connections are plain."""
        if not (self.is_tls or is_set("RMQADMIN_TLS")):
            if self.tls_ca or self.tls_cert or self.tls_key or self.tls_insecure:
                raise UsageError("--tls-ca, --tls-cert, --tls-key and --tls-insecure need --tls")
            return None
        files = TlsFiles(
            ca=self.tls_ca or os.environ.get("RMQADMIN_TLS_CA"),
            cert=self.tls_cert or os.environ.get("RMQADMIN_TLS_CERT"),
            key=self.tls_key or os.environ.get("RMQADMIN_TLS_KEY"),
        )
        return tls_context(files, insecure=self.tls_insecure or is_set("RMQADMIN_TLS_INSECURE"))


_SERVER = (
    "namesrv_addr", "access_key", "secret_key", "is_tls", "tls_ca", "tls_cert", "tls_key", "tls_insecure", "timeout_s",
)  # fmt: skip
_WATCH = ("watch_s", "until")
_CHANGE = ("dry_run", "yes")
_FIELDS_BY_EFFECT: dict[Effect, tuple[str, ...]] = {
    Effect.LOCAL: ("output",),
    Effect.SCREEN: _SERVER,
    Effect.READ: (*_SERVER, "output", *_WATCH),
    Effect.READ_OR_CHANGE: (*_SERVER, "output", *_WATCH, *_CHANGE),
    Effect.PROBE: (*_SERVER, "output", *_WATCH, "dry_run"),
    Effect.CHANGE: (*_SERVER, "output", *_CHANGE),
    Effect.DESTROY: (*_SERVER, "output", *_CHANGE),
}


def options_for(entry: Entry, *, has_own_o: bool = False) -> list[inspect.Parameter]:
    """The shared options of a command as parameters of a function, for Typer to read. ``has_own_o``: mqadmin's command
    has a ``-o``; elsewhere it is short for ``--output``."""
    names = (*(["interval_s"] if entry.has_interval else []), *_FIELDS_BY_EFFECT[entry.effect])
    parameters = {parameter.name: parameter for parameter in parameters_of(CommonOptions)}
    if not has_own_o:
        output = parameters["output"]
        kind, option = typing.get_args(output.annotation)
        short = typer.Option(OUTPUT_SHORT, *spellings_of(output), metavar=option.metavar, help=option.help)
        parameters["output"] = output.replace(annotation=Annotated[kind, short])
    return [parameters[name] for name in names]


def spellings_of(parameter: inspect.Parameter) -> tuple[str, ...]:
    """How an option may be written. Empty for an argument."""
    option = typing.get_args(parameter.annotation)[-1]
    return (str(option.default), *(option.param_decls or ())) if isinstance(option, OptionInfo) else ()


def parameters_of(group: type[OptionGroup]) -> list[inspect.Parameter]:
    """The options of a group as parameters of a function, for Typer to read."""
    annotations: dict[str, Any] = typing.get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=annotations[field.name]
        )
        for field in msgspec.structs.fields(group)
    ]


def group_of(parameter: inspect.Parameter) -> type[OptionGroup] | None:
    """The group that a command's parameter stands for, or None for an option of its own."""
    kind = parameter.annotation
    return kind if isinstance(kind, type) and issubclass(kind, OptionGroup) else None
