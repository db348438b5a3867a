"""Options of the manifest commands, and their common first step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core.manifests.brokers import brokers_of
from rmqadmin.core.manifests.documents import STANDARD_INPUT
from rmqadmin.core.manifests.manifest import read_manifest
from rmqadmin.core.manifests.plan import ObjectStep, plan
from rmqproto.errors import UsageError

Files = Annotated[
    list[str],
    Value.FILE,
    typer.Option("-f", "--file", metavar="FILE|-", help="YAML or JSON; repeatable. - is standard input."),
]
Prune = Annotated[
    str | None,
    Value.CLUSTER,
    typer.Option(
        "--prune", metavar="CLUSTER", help="Also delete what the file's sections do not name. Type the cluster's name."
    ),
]


def planned(
    call: Call, files: Sequence[str], broker_addr: str | None, cluster_name: str | None, prune: str | None
) -> list[ObjectStep]:
    """The steps from the present state to the one in the files. UsageError for invalid files, and for a name after
    ``--prune`` that is not the cluster's."""
    if STANDARD_INPUT in files:
        call.tell_if_typed("the wanted state")
    manifest = read_manifest(files)
    if prune is not None and (cluster_name is None or prune.strip() != cluster_name.strip()):
        raise UsageError(
            f"--prune {prune}: that is not the cluster of -c", hint="It deletes, so type the cluster's full name."
        )
    brokers = brokers_of(call.admin, manifest, broker_addr, cluster_name)
    return plan(call.admin, manifest, brokers, prune=prune is not None)
