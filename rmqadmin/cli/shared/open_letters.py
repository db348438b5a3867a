"""``--open-dlq``: old brokers create dead-letter topics without read permission. It must be granted before the dead
letters can be redriven."""

from __future__ import annotations

import time

from rmqadmin.cli.call import Call
from rmqproto.errors import RequestTimeoutError

OPEN_WAIT_S = 30.0
"""A broker tells its name servers of a changed topic at once, and again every 30 s."""


def open_letters(call: Call, group: str) -> None:
    """Asks the user, and sets perm 6 on every broker where the group's dead letters cannot be read."""
    from rmqadmin.core.messages.dead_letters import check_group
    from rmqadmin.core.topics.topic_config import plan_perm
    from rmqproto.names import dlq_topic
    from rmqproto.perm import PERM_READ, PERM_READ_WRITE

    check_group(group)
    topic = dlq_topic(group)
    route = call.admin.topic_route(topic)
    closed = {each.broker_name for each in route.queue_datas if not each.perm & PERM_READ}
    addrs = [each.master_addr for each in route.broker_datas if each.broker_name in closed and each.master_addr]
    if not addrs:
        return
    if call.dry_run:
        call.notice(f"--dry-run: {topic} is not made readable on {', '.join(addrs)}")
        return
    call.confirm(f"This makes {topic} readable (perm 6) on {', '.join(addrs)}.", group, is_said=True)
    for addr in addrs:
        plan_perm(call.admin, addr, topic, PERM_READ_WRITE)[0].act()
    call.notice(f"{topic} is readable now (perm 6) on {', '.join(addrs)}")
    deadline = time.monotonic() + OPEN_WAIT_S
    while any(not each.perm & PERM_READ for each in call.admin.topic_route(topic).queue_datas):
        if time.monotonic() > deadline:
            raise RequestTimeoutError(f"the name server still says that {topic} cannot be read")
        time.sleep(0.1)
