"""The options for the settings of a context."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.options.common_options import OptionGroup
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core.contexts.context import ContextColor
from rmqadmin.core.contexts.defaults import ASKED_AT_ONCE_MAX
from rmqadmin.core.own_files import expanded

OneContext = Annotated[str, Value.CONTEXT, typer.Argument(metavar="CONTEXT", help="Name of the context.")]


class ContextOptions(OptionGroup, frozen=True):
    """The settings of a context, by key. None means not given."""

    namesrv_addr: Annotated[
        str | None,
        Value.ADDRESSES,
        typer.Option("-n", "--namesrvAddr", metavar="HOST:PORT[;...]", help="Its name servers."),
    ] = None
    cluster: Annotated[
        str | None,
        Value.CLUSTER,
        typer.Option("-c", "--cluster", metavar="CLUSTER", help="Cluster for commands that need -b or -c."),
    ] = None
    read_only: Annotated[
        bool | None, typer.Option("--read-only/--no-read-only", help="Refuse every change without --unlock.")
    ] = None
    protected: Annotated[
        bool | None, typer.Option("--protected/--no-protected", help="Ask for its name before every change.")
    ] = None
    color: Annotated[
        ContextColor | None, typer.Option("--color", help="Color of its name, in questions and in the dashboard.")
    ] = None
    tls: Annotated[bool | None, typer.Option("--tls/--no-tls", help="Connect to its servers over TLS.")] = None
    tls_ca: Annotated[
        str | None, Value.FILE, typer.Option("--tls-ca", metavar="FILE", help="CA certificate of the servers.")
    ] = None
    tls_cert: Annotated[
        str | None, Value.FILE, typer.Option("--tls-cert", metavar="FILE", help="Client certificate.")
    ] = None
    tls_key: Annotated[
        str | None, Value.FILE, typer.Option("--tls-key", metavar="FILE", help="Key of the client certificate.")
    ] = None
    tls_insecure: Annotated[
        bool | None, typer.Option("--tls-insecure/--no-tls-insecure", help="Accept any server certificate.")
    ] = None
    address_map: Annotated[
        list[str] | None,
        Value.NAME,
        typer.Option(
            "--address-map",
            metavar="HOST[:PORT]=HOST[:PORT]",
            help="Connect elsewhere than to an address that its servers advertise. Repeatable.",
        ),
    ] = None
    access_key: Annotated[
        str | None,
        typer.Option("-ak", "--access-key", metavar="REFERENCE", help="env:NAME, file:PATH or command:WORDS."),
    ] = None
    secret_key: Annotated[
        str | None,
        Value.SECRET,
        typer.Option("-sk", "--secret-key", metavar="REFERENCE", help="In the same forms; never the key itself."),
    ] = None
    timeout_s: Annotated[
        float | None, typer.Option("--timeout", metavar="SECONDS", min=0.001, help="Longest wait for an answer.")
    ] = None
    parallel: Annotated[
        int | None,
        typer.Option("--parallel", metavar="N", min=1, max=ASKED_AT_ONCE_MAX, help="Ask at most N servers at once."),
    ] = None

    def values(self) -> dict[str, object]:
        """The given settings by key. Paths are made absolute."""
        import os

        import msgspec

        given = {key: value for key, value in msgspec.structs.asdict(self).items() if value is not None}
        for key in ("tls_ca", "tls_cert", "tls_key"):
            if key in given:
                given[key] = os.path.abspath(expanded(given[key]))
        for key in ("access_key", "secret_key"):
            kind, colon, rest = given.get(key, "").partition(":")
            if kind == "file" and rest:
                given[key] = kind + colon + os.path.abspath(expanded(rest))
        if "color" in given:
            given["color"] = str(given["color"])
        return given
