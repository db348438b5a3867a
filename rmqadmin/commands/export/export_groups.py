"""``export groups``: exports groups as a file for `apply`."""

from __future__ import annotations

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import BrokerAddr, ClusterName
from rmqadmin.cli.shared.exported_objects import ExportedObjects, FileText, export_objects
from rmqadmin.core.manifests.documents import TextFormat
from rmqadmin.core.manifests.kinds import GROUP_KIND


def export_groups(
    call: Call, broker_addr: BrokerAddr = None, cluster_name: ClusterName = None, format: FileText = TextFormat.YAML
) -> ExportedObjects:
    """Leaves out system groups.

    Examples:
      rmqadmin export groups -c DefaultCluster
      rmqadmin export groups -b 127.0.0.1:10911 --format json
    """
    return export_objects(call, GROUP_KIND, broker_addr, cluster_name, format)
