"""Keeps a redrive to the failed group from adding to its dead letters. A broker turns a send to a retry topic into a
dead letter while the group holds queue locks, as orderly consumers do."""

from __future__ import annotations

from rmqproto.errors import RefusedError, RequestTimeoutError, UsageError
from rmqproto.names import dlq_topic
from rmqreplay.ledger.ledger import Fence
from rmqreplay.sending.target import read_fences, replay_ids_since
from rmqreplay.source.live import LiveCluster

TO_SAME = "--to same sends to the origin topic, which reaches every group that reads it"


def refuse_orderly_group(cluster: LiveCluster, group: str) -> None:
    """UsageError if the group or a member of it consumes orderly. A member that does not answer is passed over; if it
    consumes orderly, ``came_back`` will show it."""
    for broker in cluster.admin.cluster_info().broker_addr_table.values():
        address = broker.master_addr
        if address is None:
            continue
        _refuse_if_set(cluster, address, group)
        try:
            for client_id in cluster.admin.consumer_ids(address, group):
                info = cluster.admin.consumer_running_info(address, group, client_id)
                if info.is_orderly:
                    raise UsageError(
                        f"group {group} consumes orderly: its retry topic leads back to its dead letters", hint=TO_SAME
                    )
        except (RefusedError, RequestTimeoutError):
            continue


def _refuse_if_set(cluster: LiveCluster, address: str, group: str) -> None:
    """UsageError if a broker is told that the group consumes orderly. A broker that does not show its groups is passed
    over."""
    try:
        config = cluster.admin.all_groups(address).subscription_group_table.get(group)
    except (RefusedError, RequestTimeoutError):
        return
    if config is not None and config.consume_message_orderly:
        raise UsageError(
            f"group {group} consumes orderly (consumeMessageOrderly): its retry topic does not keep the order",
            hint=TO_SAME,
        )


def dead_letter_fences(cluster: LiveCluster, group: str) -> list[Fence]:
    """The current ends of the group's dead-letter topic; none if it has no such topic."""
    return read_fences(cluster, [dlq_topic(group)]) if cluster.route(dlq_topic(group)) else []


def came_back(cluster: LiveCluster, fences: list[Fence], job: str) -> int:
    """The number of the job's messages that have become dead letters again since the fences."""
    addresses = {fence.broker_name: cluster.master(fence.topic, fence.broker_name) for fence in fences}
    return sum(1 for _ in replay_ids_since(fences, addresses.__getitem__, job, cluster.connections))
