"""``consumer``: the older name of ``consumerStatus``, which Apache's tools still have but mqadmin does not list."""

from __future__ import annotations

from rmqadmin.call import Call
from rmqadmin.core.groups.client_answers import ask_clients
from rmqadmin.core.groups.client_status import GroupStatus, write_files
from rmqadmin.core.groups.consumption import group_brokers, online_clients
from rmqadmin.options.command_options import ConsumerGroup, Jstack


class Members(GroupStatus, frozen=True):
    """A group's clients, one row each."""

    def _mqadmin_clients(self) -> str:
        text = ""
        for index, (client_id, version, path) in enumerate(self._files(), 1):
            text += f"{index:03}  {client_id:40} {version:20} {path}\n"
        return text


def consumer(call: Call, consumer_group: ConsumerGroup, jstack: Jstack = False) -> Members:
    """Shows the same as consumerStatus, which can also show one client in detail. Apache's tools have this class, but
    mqadmin does not list it.

    Examples:
      rmqadmin consumer -g OrderGroup
      rmqadmin -o json consumer -g OrderGroup
    """
    group = consumer_group.strip()
    brokers = group_brokers(call.admin, group, None)
    clients = online_clients(call.admin, group, brokers)
    result = Members(ask_clients(call.admin, group, clients, brokers, jstack=jstack), call.now_ms())
    if call.as_mqadmin:
        write_files(result)
    return result
