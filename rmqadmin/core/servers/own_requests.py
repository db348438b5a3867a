"""Requests that only rmqserver serves, and only for tests (docs/testing.md): which brokers a command means, why other
brokers refuse, and what could be lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from rmqadmin.core import targets
from rmqadmin.core.changes import Changes, FieldChange, Step, carry_out
from rmqadmin.core.system_names import is_made_by_brokers, topics_of_servers
from rmqproto.codes import ResponseCode
from rmqproto.errors import RefusedError, UsageError
from rmqproto.names import is_system_group
from rmqproto.wording import counted

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient

T = TypeVar("T")

_NAMES_MAX = 8

_HINTS: dict[int, str] = {
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: "Only rmqserver serves this, and nothing was changed: is this one of"
    " Apache's brokers?",
    ResponseCode.NO_PERMISSION: "A broker that keeps its store serves them if it was started with --test-requests on.",
    ResponseCode.QUERY_NOT_FOUND: "`rmqadmin snapshot ls` lists those that are there.",
}


def meant_brokers(admin: AdminClient, broker_addr: str | None, cluster_name: str | None) -> list[str]:
    """Like ``targets.masters``; if nothing is named, the only broker that the name server knows. With ``broker_addr``
    no server is asked, because a fault rule may make any request fail."""
    if broker_addr is None and cluster_name is None:
        info = admin.cluster_info()
        brokers = targets.by_selected_addr(targets.all_brokers(info))
        if len(brokers) == 1:
            return [*brokers]
        hint = targets.NO_BROKER_HINT
        if brokers:
            names = [f"-b {broker.broker_name}" for broker in brokers.values()]
            shown = names[:_NAMES_MAX] + ["another"] * (len(names) > _NAMES_MAX)
            clusters = " or ".join(f"-c {name}" for name in sorted(info.cluster_addr_table))
            options = f"{', '.join(shown[:-1])} or {shown[-1]}"
            hint = f"There are {counted(len(brokers), 'broker')}: add {options}; {clusters} means every master."
        raise UsageError("Missing required option: -b or -c", hint=hint)
    return targets.masters(admin, broker_addr, cluster_name)


def own_answer(ask: Callable[[], T]) -> T:
    """The result of ``ask``. RefusedError with a hint why a broker does not serve requests for tests."""
    try:
        return ask()
    except RefusedError as error:
        error.hint = _HINTS.get(error.code, error.hint)
        raise


def contents(admin: AdminClient, addr: str) -> dict[str, int]:
    """How many topics and groups users made on a broker."""
    servers = topics_of_servers(admin.cluster_info())
    topics = admin.all_topics(addr).topic_config_table
    groups = admin.all_groups(addr).subscription_group_table
    return {
        "topics": sum(not is_made_by_brokers(topic, servers) for topic in topics),
        "groups": sum(not is_system_group(group) for group in groups),
    }


def set_faults(admin: AdminClient, addrs: Sequence[str], rules: Sequence[str], *, dry_run: bool) -> Changes:
    """Makes requests fail by these rules, which replace the earlier ones."""
    steps = []
    for addr in addrs:
        before = [state.rule for state in own_answer(partial(admin.faults, addr))]
        changes = [FieldChange("rules", before, list(rules))] if before != rules else []
        act = partial(own_answer, partial(admin.set_faults, addr, rules))
        steps.append(Step(addr, "change" if changes else "keep", changes, act))
    return Changes(carry_out(steps, dry_run=dry_run))
