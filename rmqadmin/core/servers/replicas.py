"""Replicas of brokers: which broker names a command means, and what the controller knows about them."""

from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqclient.addresses import parse_addresses
from rmqproto.bodies.routes import BrokerData
from rmqproto.errors import ConnectError, NotFoundError, RequestTimeoutError, RocketMQError
from rmqproto.headers.controller import ControllerMetaAnswer


def named_brokers(admin: AdminClient, broker_name: str | None, cluster_name: str | None) -> list[BrokerData]:
    """The brokers of ``-b`` or ``-c``. UsageError unless exactly one is given. NotFoundError for an unknown one."""
    targets.check_one_of(broker_name, cluster_name)
    if cluster_name is not None:
        return targets.cluster(admin, cluster_name)
    table = admin.cluster_info().broker_addr_table
    name = (broker_name or "").strip()
    if name not in table:
        known = ", ".join(sorted(table)) or "none"
        raise NotFoundError(f"there is no broker {name}", hint=f"The name server knows: {known}.")
    return [table[name]]


def controllers_meta(admin: AdminClient, controller_addrs: str) -> ControllerMetaAnswer:
    """The metadata from the first controller that knows the leader, else from the first that answers. The first error
    if none answers."""
    answers: list[ControllerMetaAnswer] = []
    errors: list[RocketMQError] = []
    for addr in parse_addresses(controller_addrs):
        try:
            answer = admin.controller_metadata(addr)
        except (ConnectError, RequestTimeoutError) as error:
            errors.append(error)
            continue
        if answer.controller_leader_address:
            return answer
        answers.append(answer)
    if not answers:
        raise errors[0]
    return answers[0]


def leader_addr(admin: AdminClient, controller_addrs: str) -> str:
    """The address of the leading controller. NotFoundError if no controller that answers knows it."""
    found = controllers_meta(admin, controller_addrs).controller_leader_address
    if not found:
        raise NotFoundError(
            f"the controllers of {controller_addrs.strip()} have no leader now",
            hint="More than half of them have to be up.",
        )
    return found
