"""The values of the options that commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from rmqadmin.cli.options.value_markers import Value
from rmqadmin.cli.output.output_format import Color, Format, parse_format
from rmqadmin.core.contexts.defaults import (
    ASKED_AT_ONCE_DEFAULT,
    ASKED_AT_ONCE_MAX,
    NAMESRV_DEFAULT,
    SECONDS_MAX,
    TIMEOUT_DEFAULT_S,
)
from rmqproto.errors import UsageError

if TYPE_CHECKING:
    from rmqadmin.core.contexts.settings import EffectiveSettings


ContextName = Annotated[
    str | None,
    Value.CONTEXT,
    typer.Option(
        "--context",
        metavar="CONTEXT",
        help="Use the servers of this context; none: no context. Environment: RMQADMIN_CONTEXT.",
    ),
]
Confirm = Annotated[
    str | None,
    Value.CONTEXT,
    typer.Option("--confirm", metavar="CONTEXT", help="Name of the protected context, for a script."),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask; act also where nobody can be asked.")]


WATCH_INTERVAL_DEFAULT_S = 2.0
WATCH_INTERVAL_MIN_S = 0.1


class OptionGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group of related options, for a command with many: it declares a parameter of this type, and gets one frozen
    value. Annotate every field with ``typer.Option``; the command line shows them in order."""


class CommonOptions(OptionGroup, frozen=True):
    """The values of the shared options of one call. A field that a command does not offer keeps its default."""

    namesrv_addr: Annotated[
        str | None,
        Value.ADDRESSES,
        typer.Option(
            "-n",
            "--namesrvAddr",
            help="Name servers. Environment: RMQADMIN_NAMESRV, NAMESRV_ADDR; then the context."
            f" Default: {NAMESRV_DEFAULT}.",
        ),
    ] = None
    context: ContextName = None
    access_key: Annotated[
        str | None,
        typer.Option("-ak", "--access-key", metavar="KEY", help="Access key. Environment: RMQADMIN_ACCESS_KEY."),
    ] = None
    secret_key: Annotated[
        str | None,
        Value.SECRET,
        typer.Option("-sk", "--secret-key", metavar="KEY", help="Secret key. Environment: RMQADMIN_SECRET_KEY."),
    ] = None
    is_tls: Annotated[
        bool | None, typer.Option("--tls/--no-tls", help="Connect over TLS. Environment: RMQADMIN_TLS=true.")
    ] = None
    tls_ca: Annotated[
        str | None,
        Value.FILE,
        typer.Option("--tls-ca", help="CA certificate of the servers. Environment: RMQADMIN_TLS_CA."),
    ] = None
    tls_cert: Annotated[
        str | None, Value.FILE, typer.Option("--tls-cert", help="Client certificate. Environment: RMQADMIN_TLS_CERT.")
    ] = None
    tls_key: Annotated[
        str | None,
        Value.FILE,
        typer.Option("--tls-key", help="Key of the client certificate. Environment: RMQADMIN_TLS_KEY."),
    ] = None
    tls_insecure: Annotated[
        bool | None,
        typer.Option("--tls-insecure", help="Accept any server certificate. Environment: RMQADMIN_TLS_INSECURE=true."),
    ] = None
    address_map: Annotated[
        list[str] | None,
        Value.NAME,
        typer.Option(
            "--address-map",
            metavar="HOST[:PORT]=HOST[:PORT]",
            help="Connect elsewhere than to an advertised address. Repeatable. Environment: RMQADMIN_ADDRESS_MAP.",
        ),
    ] = None
    timeout_s: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            min=0.001,
            max=SECONDS_MAX,
            help=f"Longest wait for one answer. Environment: RMQADMIN_TIMEOUT. Default: {TIMEOUT_DEFAULT_S:g}.",
        ),
    ] = None
    parallel: Annotated[
        int | None,
        typer.Option(
            "--parallel",
            metavar="N",
            min=1,
            max=ASKED_AT_ONCE_MAX,
            help=f"Ask at most N servers at once. Environment: RMQADMIN_PARALLEL. Default: {ASKED_AT_ONCE_DEFAULT}.",
        ),
    ] = None
    output: Annotated[
        str | None, Value.FORMAT, typer.Option("--output", help=f"{', '.join(Format)}. Environment: RMQADMIN_OUTPUT.")
    ] = None
    json_fields: Annotated[
        str | None, Value.FIELDS, typer.Option("--json", help="Show items as a JSON array with only these fields: a,b.")
    ] = None
    jq: Annotated[
        str | None, typer.Option("--jq", metavar="EXPR", help="With --json: filter the array with this jq program.")
    ] = None
    columns: Annotated[
        str | None,
        Value.NAME,
        typer.Option(
            "--columns", metavar="NAMES", help="With table, wide, csv and tsv: only these columns, in this order: a,b."
        ),
    ] = None
    no_header: Annotated[
        bool, typer.Option("--no-header", help="With table, wide, csv and tsv: leave out the line of headings.")
    ] = False
    watch_s: Annotated[
        float | None,
        typer.Option(
            "--watch",
            metavar="[SECONDS]",
            min=WATCH_INTERVAL_MIN_S,
            max=SECONDS_MAX,
            help=f"Repeat until Ctrl-C, every {WATCH_INTERVAL_DEFAULT_S:g} s by default.",
        ),
    ] = None
    interval_s: Annotated[
        float | None,
        typer.Option(
            "-i",
            "--interval",
            metavar="SECONDS",
            min=WATCH_INTERVAL_MIN_S,
            max=SECONDS_MAX,
            help="mqadmin's spelling of --watch.",
        ),
    ] = None
    until: Annotated[
        str | None,
        typer.Option("--until", metavar="EXPR", help="With --watch: end as soon as EXPR holds, e.g. 'lag_count == 0'."),
    ] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change; change nothing.")] = False
    yes: Yes = False
    unlock: Annotated[bool, typer.Option("--unlock", help="Allow the change although the context is read-only.")] = (
        False
    )
    confirm: Confirm = None

    def settings(self) -> EffectiveSettings:
        """The settings in force, to which these options contribute."""
        from rmqadmin.core.contexts.settings import EffectiveSettings  # 3 ms; not needed for `--help`

        flags = {
            "namesrv_addr": self.namesrv_addr,
            "access_key": self.access_key,
            "secret_key": self.secret_key,
            "tls": self.is_tls,
            "tls_ca": self.tls_ca,
            "tls_cert": self.tls_cert,
            "tls_key": self.tls_key,
            "tls_insecure": self.tls_insecure,
            "address_map": tuple(self.address_map) if self.address_map else None,
            "timeout_s": self.timeout_s,
            "parallel": self.parallel,
            "output": self.output,
        }
        return EffectiveSettings(flags, context_flag=self.context)

    def format(self, before_command: str | None) -> Format:
        """``--output``, else ``-o`` before the command, else the settings. UsageError."""
        if self.json_fields is not None:
            if self.output is not None or before_command is not None:
                raise UsageError("--json is a format of its own", hint="Leave out --output.")
            return Format.JSON
        if self.jq is not None:
            raise UsageError("--jq needs --json FIELDS")
        if self.output is not None:
            return parse_format(self.output, "--output")
        if before_command is not None:
            return parse_format(before_command, "-o")
        setting = self.settings().setting("output")
        return parse_format(setting.value, setting.source)


SERVER_OPTIONS = (
    "namesrv_addr", "context", "access_key", "secret_key", "is_tls", "tls_ca", "tls_cert", "tls_key", "tls_insecure",
    "address_map", "timeout_s", "parallel",
)  # fmt: skip
"""The fields of ``CommonOptions`` about how servers are reached."""


def color_of(option: Color) -> Color:
    """``--color``, else the settings. UsageError for an invalid word in the file."""
    if option is not Color.AUTO:
        return option
    setting = CommonOptions().settings().setting("color")
    try:
        return Color(setting.value)
    except ValueError:
        raise UsageError(f"{setting.source}: color must be one of {', '.join(Color)}") from None
