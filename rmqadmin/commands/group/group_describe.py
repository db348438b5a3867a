"""``group describe``: shows groups with their topics, clients and settings."""

from __future__ import annotations

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.topic_options import GroupNames, topic_names
from rmqadmin.core.groups.described_groups import DescribedGroups, describe_group


def group_describe(call: Call, groups: GroupNames) -> DescribedGroups:
    """Everything about a group in one view. `group lag` shows its queues one by one, and what hinders it.

    Examples:
      rmqadmin group describe OrderGroup
      rmqadmin group describe OrderGroup --output json
    """
    return DescribedGroups([describe_group(call.admin, group, call.answers) for group in topic_names(groups)])
