"""Makes brokers clean up: which brokers, the question to the user, and mqadmin's one word of output."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rmqadmin.cli.call import Call
from rmqadmin.core import targets
from rmqadmin.core.changes import Changes, Step, carry_out
from rmqproto.wording import counted


def clean(
    call: Call,
    act: Callable[[str], None],
    broker_addr: str | None,
    cluster: str | None,
    *,
    all_clusters: bool,
    deletes: str | None = None,
) -> Changes:
    """Sends one request per broker. Asks first if it ``deletes`` something that cannot be made again. Without a broker
    or cluster, mqadmin means every cluster; it reports only how the last broker went."""
    is_all = all_clusters or (call.as_mqadmin and broker_addr is None and cluster is None)
    addrs = targets.everywhere(call.admin, broker_addr, cluster, all_clusters=is_all)
    if deletes is not None and not call.dry_run:
        call.confirm(
            f"This deletes {deletes} from {counted(len(addrs), 'broker')}.", (broker_addr or cluster or "all").strip()
        )
    rows = carry_out([Step(addr, "clean", [], partial(act, addr)) for addr in addrs], dry_run=call.dry_run)
    return Changes(rows, None if call.dry_run else "success" if rows and rows[-1].done else "false")
