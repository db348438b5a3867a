"""``getAcl``: shows what one user may do, on each broker."""

from __future__ import annotations

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.auth_options import Subject
from rmqadmin.cli.options.command_options import BrokerAddr, ClusterName
from rmqadmin.core import targets
from rmqadmin.core.access.acls import Acls, BrokerAcls


def get_acl(call: Call, subject: Subject, broker_addr: BrokerAddr = None, cluster_name: ClusterName = None) -> Acls:
    """With -c, asks every master of the cluster. Each broker keeps its own ACL.

    Examples:
      rmqadmin getAcl -b 127.0.0.1:10911 -s User:alice
      rmqadmin getAcl -c DefaultCluster -s User:alice --output wide
    """
    who = subject.strip()
    addrs = targets.masters(call.admin, broker_addr, cluster_name)
    answers = call.answers.of(lambda addr: call.admin.acl(addr, who), addrs)
    return Acls([BrokerAcls(addr, [acl] if acl else []) for addr, acl in answers.items()])
