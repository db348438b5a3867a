"""``updateTopicList``: creates or changes many topics at once, from a file."""

from __future__ import annotations

from functools import partial

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import BrokerAddr, ClusterName, ListFile, Replace
from rmqadmin.cli.shared.changing import change
from rmqadmin.core import targets
from rmqadmin.core.changes import Changes, Step, plan_each
from rmqadmin.core.config_lists import TOPICS, plan_list, read_entries
from rmqadmin.core.topics.shrinking import shrink_warnings


def update_topic_list(
    call: Call,
    filename: ListFile,
    broker_addr: BrokerAddr = None,
    cluster_name: ClusterName = None,
    replace: Replace = False,
) -> Changes:
    """The file holds a list of objects with topicName, readQueueNums, writeQueueNums, perm, order, topicFilterType,
    topicSysFlag and attributes, or what exportMetadata wrote. Fields that an object leaves out stay as they are.
    Attributes need no sign; -name deletes one. perm is 6 or "RW".

    Examples:
      rmqadmin updateTopicList -c DefaultCluster -f topics.json --dry-run
      rmqadmin updateTopicList -b 127.0.0.1:10911 -f topics.json
    """
    admin = call.admin
    entries = read_entries(filename.strip(), TOPICS)
    addrs = targets.masters(admin, broker_addr, cluster_name)

    def plan(addr: str) -> Step:
        before = admin.all_topics(addr).topic_config_table
        return plan_list(
            TOPICS,
            entries,
            addr,
            before,
            admin.create_topics,
            replace=replace,
            warn=partial(shrink_warnings, admin, addr),
        )

    line = "submit batch of topic config to {} success, please check the result later.\n"
    return change(call, plan_each(addrs, plan), lambda done: "".join(map(line.format, done)))
