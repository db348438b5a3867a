"""``export users``: exports users as a file for `apply`, with passwords only on request."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import BrokerAddr, ClusterName
from rmqadmin.cli.shared.exported_objects import ExportedObjects, FileText, export_objects
from rmqadmin.core.manifests.documents import TextFormat
from rmqadmin.core.manifests.kinds import UserKind


def export_users(
    call: Call,
    broker_addr: BrokerAddr = None,
    cluster_name: ClusterName = None,
    format: FileText = TextFormat.YAML,
    with_passwords: Annotated[
        bool, typer.Option("--with-passwords", help="Include passwords in clear text: keep the file secret.")
    ] = False,
) -> ExportedObjects:
    """Reads the users of the masters. Without passwords, the file can change users but not create any.

    Examples:
      rmqadmin export users -c DefaultCluster
      rmqadmin export users -b 127.0.0.1:10911 --with-passwords
    """
    kind = UserKind(with_passwords=with_passwords)
    return export_objects(call, kind, broker_addr, cluster_name, format)
