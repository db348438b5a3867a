"""``updateTopicList``: many topics at once, from a file."""

from __future__ import annotations

from rmqadmin.call import Call
from rmqadmin.command_options import BrokerAddr, ClusterName, ListFile, Replace
from rmqadmin.core import targets
from rmqadmin.core.changes import Changes, carry_out, targets_done
from rmqadmin.core.config_lists import ListKind, plan_list, read_entries
from rmqadmin.core.topics.perms import perm_of_letters
from rmqadmin.core.topics.topic_config import topic_fields
from rmqproto.bodies.routes import TopicConfig

TOPICS = ListKind(TopicConfig, "topicName", "topicConfigTable", topic_fields, {"perm": perm_of_letters})


def update_topic_list(
    call: Call,
    filename: ListFile,
    broker_addr: BrokerAddr = None,
    cluster_name: ClusterName = None,
    replace: Replace = False,
) -> Changes:
    """The file holds a list of objects with topicName, readQueueNums, writeQueueNums, perm, order, topicFilterType,
    topicSysFlag and attributes, or what exportMetadata wrote. What an object leaves out stays as it is. Attributes need
    no sign; -name deletes one. A perm is 6 or "RW".

    Examples:
      rmqadmin updateTopicList -c DefaultCluster -f topics.json --dry-run
      rmqadmin updateTopicList -b 127.0.0.1:10911 -f topics.json
    """
    admin = call.admin
    entries = read_entries(filename.strip(), TOPICS)
    addrs = targets.masters(admin, broker_addr, cluster_name)
    steps = [
        plan_list(
            TOPICS, entries, addr, admin.all_topics(addr).topic_config_table, admin.create_topics, replace=replace
        )
        for addr in addrs
    ]
    rows = carry_out(steps, dry_run=call.dry_run)
    done = targets_done(rows)
    text = "".join(f"submit batch of topic config to {addr} success, please check the result later.\n" for addr in done)
    return Changes(rows, None if call.dry_run else text)
