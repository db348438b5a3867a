"""What an option is, and the values of those that commands share.

What the value of an option or a word is, its marker says, which stands beside ``option`` or ``argument``. From it
follow what is completed, what the log of changes holds, what the palette fills in, which near name an error suggests,
and the word in the help. A text without a marker may be anything, and is written down nowhere."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterable
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from rmqadmin.cli.output.output_format import Format
from rmqadmin.core.contexts.context import (
    ASKED_AT_ONCE_DEFAULT,
    ASKED_AT_ONCE_MAX,
    NAMESRV_DEFAULT,
    SECONDS_MAX,
    TIMEOUT_DEFAULT_S,
)

if TYPE_CHECKING:
    from rmqadmin.core.contexts.settings import EffectiveSettings


class Value(StrEnum):
    """A single word stands in the help where an option has no other. The dashboard's screens tell what is selected by
    the same words."""

    TOPIC = "TOPIC"
    GROUP = "GROUP"
    CLUSTER = "CLUSTER"
    CLUSTERS = "CLUSTERS"
    BROKER_ADDR = "HOST:PORT"
    BROKER_NAME = "BROKER"
    ADDRESSES = "HOST:PORT[;...]"
    QUEUE = "QUEUE"
    CLIENT = "CLIENT"
    ID = "ID"
    USER = "USER"
    SUBJECT = "User:NAME"
    RESOURCE = "RESOURCE"
    ACTION = "ACTION"
    CONTEXT = "CONTEXT"
    PROPERTY = "PROPERTY"
    KV_KEY = "KV_KEY"
    FIELDS = "FIELDS"
    FORMAT = "FORMAT"
    FILE = "FILE"
    NAME = "NAME"  # of something else at the servers or on this machine
    TIME = "TIME"
    SECONDS = "SECONDS"
    NUMBER = "a number or a size"
    CHOICE = "one of the words that the help lists"
    TEXT = "whatever the user likes: bodies, keys, conditions, expressions"
    SECRET = "a secret, which is written down nowhere"

    @property
    def is_told(self) -> bool:
        """Whether such a value may be written down."""
        return self not in (Value.TEXT, Value.SECRET)


def option(*spellings_and_help: str, **more: Any) -> Any:
    """An option of a command: its spellings, then its help. ``more`` is as for ``typer.Option``; words to choose from
    are taken in any case unless it says otherwise."""
    *spellings, help = spellings_and_help
    return typer.Option(*spellings, help=help, **{"case_sensitive": False, **more})


def argument(help: str, **more: Any) -> Any:
    """A word of a command, as ``option``."""
    return typer.Argument(help=help, **{"case_sensitive": False, **more})


def value_of(parameter: inspect.Parameter) -> Value:
    """What the value of an option or word is: its marker or, for numbers, choices and flags, its type."""
    metas = typing.get_args(parameter.annotation)
    marked = next((meta for meta in metas if isinstance(meta, Value)), None)
    if marked is not None:
        return marked
    parts = [part for part in _parts(metas[0] if metas else parameter.annotation) if isinstance(part, type)]
    if any(issubclass(part, Enum) for part in parts):
        return Value.CHOICE
    return Value.NUMBER if any(issubclass(part, int | float) for part in parts) else Value.TEXT


def _parts(kind: Any) -> Iterable[Any]:
    found = typing.get_args(kind)
    return [part for each in found for part in _parts(each)] if found else [kind]


ContextName = Annotated[
    str | None,
    Value.CONTEXT,
    option(
        "--context",
        "Use the servers of this context; none: no context. Environment: RMQADMIN_CONTEXT.",
        metavar="CONTEXT",
    ),
]
Confirm = Annotated[
    str | None, Value.CONTEXT, option("--confirm", "Name of the protected context, for a script.", metavar="CONTEXT")
]
Yes = Annotated[bool, option("--yes", "Do not ask; act also where nobody can be asked.")]


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
        option(
            "-n",
            "--namesrvAddr",
            f"Name servers. Environment: RMQADMIN_NAMESRV, NAMESRV_ADDR; then the context. Default: {NAMESRV_DEFAULT}.",
        ),
    ] = None
    context: ContextName = None
    access_key: Annotated[
        str | None, option("-ak", "--access-key", "Access key. Environment: RMQADMIN_ACCESS_KEY.", metavar="KEY")
    ] = None
    secret_key: Annotated[
        str | None,
        Value.SECRET,
        option("-sk", "--secret-key", "Secret key. Environment: RMQADMIN_SECRET_KEY.", metavar="KEY"),
    ] = None
    tls: Annotated[bool | None, option("--tls/--no-tls", "Connect over TLS. Environment: RMQADMIN_TLS=true.")] = None
    tls_ca: Annotated[
        str | None, Value.FILE, option("--tls-ca", "CA certificate of the servers. Environment: RMQADMIN_TLS_CA.")
    ] = None
    tls_cert: Annotated[
        str | None, Value.FILE, option("--tls-cert", "Client certificate. Environment: RMQADMIN_TLS_CERT.")
    ] = None
    tls_key: Annotated[
        str | None, Value.FILE, option("--tls-key", "Key of the client certificate. Environment: RMQADMIN_TLS_KEY.")
    ] = None
    tls_insecure: Annotated[
        bool | None, option("--tls-insecure", "Accept any server certificate. Environment: RMQADMIN_TLS_INSECURE=true.")
    ] = None
    address_map: Annotated[
        list[str] | None,
        Value.NAME,
        option(
            "--address-map",
            "Connect elsewhere than to an advertised address. Repeatable. Environment: RMQADMIN_ADDRESS_MAP.",
            metavar="HOST[:PORT]=HOST[:PORT]",
        ),
    ] = None
    timeout_s: Annotated[
        float | None,
        Value.SECONDS,
        option(
            "--timeout",
            f"Longest wait for one answer. Environment: RMQADMIN_TIMEOUT. Default: {TIMEOUT_DEFAULT_S:g}.",
            min=0.001,
            max=SECONDS_MAX,
        ),
    ] = None
    parallel: Annotated[
        int | None,
        option(
            "--parallel",
            f"Ask at most N servers at once. Environment: RMQADMIN_PARALLEL. Default: {ASKED_AT_ONCE_DEFAULT}.",
            metavar="N",
            min=1,
            max=ASKED_AT_ONCE_MAX,
        ),
    ] = None
    output: Annotated[
        str | None, Value.FORMAT, option("--output", f"{', '.join(Format)}. Environment: RMQADMIN_OUTPUT.")
    ] = None
    json_fields: Annotated[
        str | None, Value.FIELDS, option("--json", "Show items as a JSON array with only these fields: a,b.")
    ] = None
    jq: Annotated[str | None, option("--jq", "With --json: filter the array with this jq program.", metavar="EXPR")] = (
        None
    )
    columns: Annotated[
        str | None,
        Value.NAME,
        option("--columns", "With table, wide, csv and tsv: only these columns, in this order: a,b.", metavar="NAMES"),
    ] = None
    no_header: Annotated[
        bool, option("--no-header", "With table, wide, csv and tsv: leave out the line of headings.")
    ] = False
    watch_s: Annotated[
        float | None,
        Value.SECONDS,
        option(
            "--watch",
            f"Repeat until Ctrl-C, every {WATCH_INTERVAL_DEFAULT_S:g} s by default.",
            metavar="[SECONDS]",
            min=WATCH_INTERVAL_MIN_S,
            max=SECONDS_MAX,
        ),
    ] = None
    interval_s: Annotated[
        float | None,
        Value.SECONDS,
        option(
            "-i",
            "--interval",
            "mqadmin's spelling of --watch.",
            min=WATCH_INTERVAL_MIN_S,
            max=SECONDS_MAX,
        ),
    ] = None
    until: Annotated[
        str | None, option("--until", "With --watch: end as soon as EXPR holds, e.g. 'lag_count == 0'.", metavar="EXPR")
    ] = None
    dry_run: Annotated[bool, option("--dry-run", "Show what would change; change nothing.")] = False
    yes: Yes = False
    unlock: Annotated[bool, option("--unlock", "Allow the change although the context is read-only.")] = False
    confirm: Confirm = None

    def settings(self) -> EffectiveSettings:
        """The settings in force, to which these options contribute."""
        from rmqadmin.core.contexts.settings import EffectiveSettings  # 3 ms; not needed for `--help`

        flags = {name: getattr(self, name) for name in (*SERVER_OPTIONS, "output")}
        flags["address_map"] = tuple(self.address_map) if self.address_map else None
        return EffectiveSettings(flags, context_flag=self.context)


SERVER_OPTIONS = (
    "namesrv_addr", "context", "access_key", "secret_key", "tls", "tls_ca", "tls_cert", "tls_key", "tls_insecure",
    "address_map", "timeout_s", "parallel",
)  # fmt: skip
"""The fields of ``CommonOptions`` about how servers are reached."""
