"""Which server a user means: a broker by an address without its port, or by a name where an address is needed, or the
other way round; another of several name servers; the leader of controllers."""

import ipaddress
from collections.abc import Collection
from contextlib import suppress

from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqclient.addresses import parse_addresses
from rmqproto.bodies.routes import BrokerData, ClusterInfo, TopicList
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import ConnectError, NotFoundError, RefusedError, RequestTimeoutError, RocketMQError
from rmqproto.headers.controller import ControllerMetaAnswer
from rmqproto.hosts import BROKER_PORT, with_port

_HINT_WAIT_MAX_S = 1.0
"""The longest wait for what only a hint needs."""


def broker_addr_of(admin: AdminClient, text: str) -> str:
    """The address of ``HOST:PORT``, ``HOST``, ``[IPV6]``, ``NAME`` (its master) or ``NAME/ID``. A host without a dot
    is taken for a name. NotFoundError for an unknown name, and for a broker that has no master now. No server is asked
    for what cannot be a name."""
    text = text.strip()
    addr = with_port(text, BROKER_PORT)
    if (addr == text and "/" not in text) or _is_ip(text):
        return addr
    try:
        table = admin.cluster_info().broker_addr_table
    except ConnectError:
        if _is_host(text):
            return addr
        raise
    if text in table:
        broker = table[text]
        if broker.master_addr is None:
            others = ", ".join(f"{text}/{number}" for number in sorted(broker.broker_addrs))
            raise NotFoundError(f"the broker {text} has no master now", hint=f"Name one of its replicas: {others}.")
        return broker.master_addr
    name, _, number = text.rpartition("/")
    found = table[name].broker_addrs.get(int(number)) if name in table and number.isdecimal() else None
    if found is not None:
        return found
    if _is_host(text):
        return addr
    missing = targets.not_there("broker", text, table)
    if addr != text:
        missing.hint = f"{missing.hint} A host is written with its port: {addr}."
    raise missing


def broker_name_of(admin: AdminClient, text: str) -> str:
    """The name of the broker at an address; any other text as it is."""
    text = text.strip()
    addr = with_port(text, BROKER_PORT) if _is_ip(text) else text
    if ":" not in addr:
        return text
    brokers = admin.cluster_info().broker_addr_table.values()
    return next((one.broker_name for one in brokers if addr in one.broker_addrs.values()), text)


def kind_of_server(admin: AdminClient, error: RefusedError) -> str | None:
    """For a server that does not know a request: that it is a broker where a name server is needed, or the other way
    round, and what to write instead. None if it is neither, or does not answer."""
    addr = error.address
    if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED or not addr:
        return None
    if addr in admin.namesrv_addrs:
        with suppress(RocketMQError):
            config = admin.broker_config(addr)
            namesrvs = config.get("namesrvAddr", "")
            there = f"its name servers are {namesrvs}: -n '{namesrvs}'" if namesrvs else "name its name server: -n"
            return f"{addr} is the broker {config['brokerName']}, and no name server; {there}."
    with suppress(RocketMQError):
        info = admin.read(addr, RequestCode.GET_BROKER_CLUSTER_INFO, None, ClusterInfo)
        known = sorted(info.broker_addr_table)
        brokers = f"its brokers are {', '.join(known)}: -b {known[0]} -n {addr}" if known else "it knows no broker"
        return f"{addr} is a name server, and no broker; {brokers}."
    return None


def known_elsewhere(admin: AdminClient, names: Collection[str]) -> str | None:
    """What to say if another name server knows a topic of these names, or any topic if there are none, and the one that
    was asked does not; None if no other does. Brokers register topics of their clusters' names. Name servers that stand
    before the one that was asked did not answer, and are not asked again."""
    code, wait_s = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, min(admin.timeout_s, _HINT_WAIT_MAX_S)
    for addr in admin.namesrv_addrs[admin.namesrv_addrs.index(admin.current_namesrv) + 1 :]:
        with suppress(RocketMQError):
            known = admin.read(addr, code, None, TopicList, timeout_s=wait_s).topic_list
            if any(not names or topic in names for topic in known):
                what = "it" if names else "some"
                asked = admin.current_namesrv
                return f"{addr} knows {what}, and {asked} was asked: `rmqadmin doctor` compares the name servers."
    return None


def _is_host(text: str) -> bool:
    return "." in text or text.lower() == "localhost"


def _is_ip(text: str) -> bool:
    with suppress(ValueError):
        return bool(ipaddress.ip_address(text.strip("[]")))
    return False


def named_brokers(admin: AdminClient, broker_name: str | None, cluster_name: str | None) -> list[BrokerData]:
    """The brokers of ``-b`` or ``-c``. UsageError unless exactly one is given. NotFoundError for an unknown one."""
    targets.check_one_of(broker_name, cluster_name)
    if cluster_name is not None:
        return targets.cluster(admin, cluster_name)
    table = admin.cluster_info().broker_addr_table
    name = (broker_name or "").strip()
    if name not in table:
        raise targets.not_there("broker", name, table)
    return [table[name]]


def controllers_meta(admin: AdminClient, controller_addrs: str) -> ControllerMetaAnswer:
    """What the first controller says that knows the leader, else the first that answers, else the first error."""
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
