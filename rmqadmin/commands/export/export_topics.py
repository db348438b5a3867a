"""``export topics``: exports topics as a file for `apply`."""

from __future__ import annotations

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import BrokerAddr, ClusterName
from rmqadmin.cli.shared.exported_objects import ExportedObjects, FileText, export_objects
from rmqadmin.core.manifests.documents import TextFormat
from rmqadmin.core.manifests.kinds import TOPIC_KIND


def export_topics(
    call: Call, broker_addr: BrokerAddr = None, cluster_name: ClusterName = None, format: FileText = TextFormat.YAML
) -> ExportedObjects:
    """Leaves out retry topics, dead-letter queues and system topics.

    Examples:
      rmqadmin export topics -c DefaultCluster
      rmqadmin export topics -b 127.0.0.1:10911 --format json
    """
    return export_objects(call, TOPIC_KIND, broker_addr, cluster_name, format)
