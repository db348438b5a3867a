"""``skipAccumulatedMessage``: moves a group to the end."""

from __future__ import annotations

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import Group, IgnoredForce, LmqParent, Topic
from rmqadmin.core.offsets.reset import END, Goal
from rmqadmin.core.offsets.reset_plan import Resets, act, plan_queues, say_if_unknown


def skip_accumulated_message(
    call: Call,
    group: Group,
    topic: Topic,
    force: IgnoredForce = None,
    cluster: LmqParent = None,
) -> Resets:
    """The group skips every message that is stored now. It may be online or offline.

    Examples:
      rmqadmin skipAccumulatedMessage -g OrderGroup -t OrderTopic --dry-run
      rmqadmin skipAccumulatedMessage -g OrderGroup -t OrderTopic --yes
    """
    group, topic = group.strip(), topic.strip()
    goal = Goal(edge=END)
    route = call.admin.topic_route((cluster or topic).strip())
    planned = Resets(group, topic, plan_queues(call.admin, route, group, topic, goal), mqadmin_head="")
    say_if_unknown(call.admin, group, planned.queues, call.notice)
    return call.ask_and_act(
        planned,
        planned.question("to the end of every queue"),
        group,
        lambda: act(call.admin, planned, goal, call.now_ms(), call.notice),
    )
