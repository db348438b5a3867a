"""What a topic's route says about its queues and brokers: which can be written, and where each is."""

from collections.abc import Iterable, Sequence

from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqclient.sending import DEFAULT_TOPIC_QUEUE_NUMS
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import BrokerData, TopicRoute
from rmqproto.codes import PERM_READ, PERM_WRITE, ResponseCode
from rmqproto.errors import NotFoundError, RefusedError, UsageError
from rmqproto.java.java_numbers import whole_number
from rmqproto.names import AUTO_CREATE_TOPIC, LIGHT_QUEUE_PREFIX
from rmqproto.wording import QUEUES_TOLD_MAX, names_told


def topic_brokers(admin: AdminClient, topic: str, cluster: str | None) -> list[BrokerData]:
    """The topic's brokers, only those of the named cluster if there is one, or those of an LMQ parent topic."""
    if cluster is not None and topic.startswith(LIGHT_QUEUE_PREFIX):
        return admin.topic_route(cluster.strip()).broker_datas
    found = admin.topic_route(topic).broker_datas
    if cluster is None:
        return found
    inside = [broker for broker in found if broker.cluster == cluster.strip()]
    if not inside:
        targets.cluster(admin, cluster)  # an unknown one is an error that lists the clusters
        raise NotFoundError(f"the topic {topic} has no broker in the cluster {cluster.strip()}")
    return inside


def broker_addr_of(route: TopicRoute, broker_name: str) -> str:
    """The address of one of a route's brokers. NotFoundError, in mqadmin's words, for another name."""
    for broker in route.broker_datas:
        addr = broker.selected_addr()
        if broker.broker_name == broker_name and addr is not None:
            return addr
    names = ", ".join(sorted(broker.broker_name for broker in route.broker_datas))
    raise NotFoundError(f"The broker[{broker_name}] not exist", hint=f"The topic is on: {names}.")


def queues_to_allocate(route: TopicRoute, topic: str) -> list[MessageQueue]:
    """The queues that a topic's consumers share."""
    return sorted(
        MessageQueue(topic, queues.broker_name, queue_id)
        for queues in route.queue_datas
        if queues.perm & PERM_READ
        for queue_id in range(queues.read_queue_nums)
    )


def queues_to_send_to(admin: AdminClient, topic: str) -> list[tuple[MessageQueue, str]]:
    """``writable_queues``; a missing topic goes to a broker that makes it. RefusedError (17) if none does."""
    route = targets.find_route(admin, topic)
    if route is not None:
        return writable_queues(route, topic)
    try:
        default = admin.topic_route(AUTO_CREATE_TOPIC)
    except RefusedError as error:
        raise RefusedError(ResponseCode.TOPIC_NOT_EXIST, f"No route info of this topic: {topic}") from error
    return writable_queues(default, topic, DEFAULT_TOPIC_QUEUE_NUMS)


def writable_queues(route: TopicRoute, topic: str, queue_nums_max: int | None = None) -> list[tuple[MessageQueue, str]]:
    """Queues that take messages, with their masters' addresses. RefusedError with code 16 if there is none."""
    addrs = {broker.broker_name: broker.master_addr for broker in route.broker_datas if broker.master_addr}
    found = [
        (MessageQueue(topic, queues.broker_name, queue_id), addrs[queues.broker_name])
        for queues in route.queue_datas
        if queues.perm & PERM_WRITE and queues.broker_name in addrs
        for queue_id in range(min(queues.write_queue_nums, queue_nums_max or queues.write_queue_nums))
    ]
    if not found:
        raise RefusedError(
            ResponseCode.NO_PERMISSION,
            f"no running broker allows writing to the topic {topic}",
            hint=_closed_hint(route),
        )
    return found


def _closed_hint(route: TopicRoute) -> str:
    """Why nobody may write, as far as the route tells, and what may give it back."""
    names = sorted({queues.broker_name for queues in route.queue_datas})
    masters = {broker.broker_name for broker in route.broker_datas if broker.master_addr}
    if not masters & set(names):
        return f"None of its brokers has a master now: {', '.join(names)}."
    return (
        "Its route has no W: by the topic (updateTopicPerm), by brokerPermission, or by wipeWritePerm, which "
        f"`rmqadmin addWritePerm -b {names[0]}` takes back."
    )


def chosen_queues(texts: Iterable[str], queues: Sequence[MessageQueue]) -> set[MessageQueue]:
    """Those of ``queues`` that are named: ``QUEUE``, on every broker, or ``BROKER:QUEUE``. UsageError for another text;
    NotFoundError for a queue that is not among them."""
    return {queue for text in texts for queue in _named(text, queues)}


def _named(text: str, queues: Sequence[MessageQueue]) -> list[MessageQueue]:
    broker_name, _, number = text.rpartition(":")
    queue_id = whole_number(number)
    if queue_id is None:
        raise UsageError(f"--queue {text} is neither QUEUE nor BROKER:QUEUE")
    found = [queue for queue in queues if queue.queue_id == queue_id and broker_name in ("", queue.broker_name)]
    if not found:
        there = names_told([f"{queue.broker_name}:{queue.queue_id}" for queue in queues], QUEUES_TOLD_MAX)
        raise NotFoundError(f"--queue {text}: there is no such queue", hint=f"Its queues: {there}.")
    return found
