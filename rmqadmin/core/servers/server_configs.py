"""The settings of brokers, name servers and controllers, one row per property."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Protocol

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.changes import FieldChange, Step
from rmqadmin.core.names import did_you_mean
from rmqadmin.core.results import ResultOf, Row, doc
from rmqadmin.core.servers.broker_answers import ask_addrs
from rmqadmin.core.units import perm_of_letters
from rmqproto.codes import ResponseCode
from rmqproto.errors import NotFoundError, RefusedError, RocketMQError, UsageError
from rmqproto.ha import MASTER_ID
from rmqproto.java.java_numbers import decimal_number

_KEY_WIDTH = 50


class ConfigRow(Row, frozen=True):
    server_addr: Annotated[str, doc("the server's address", apart=True, key=True)]
    key: Annotated[str, doc("name of the property", key=True)]
    value: Annotated[str, doc("its value, as text", vital=True)]


class Listing(msgspec.Struct, frozen=True):
    """One server's properties in the order it listed them. ``heading`` is mqadmin's line above them."""

    server_addr: str
    heading: str
    values: Mapping[str, str]


class Configs(ResultOf[ConfigRow], frozen=True):
    """What servers are configured to do, property by property."""

    listings: list[Listing]
    errors: list[str] = []
    mqadmin_end: str = ""

    def rows(self) -> Sequence[ConfigRow]:
        return [
            ConfigRow(server_addr=listing.server_addr, key=key, value=listing.values[key])
            for listing in self.listings
            for key in sorted(listing.values)
        ]

    def mqadmin_text(self) -> str:
        return "".join(
            listing.heading + property_lines(listing.values, sorted(listing.values), _KEY_WIDTH) + self.mqadmin_end
            for listing in self.listings
        )

    def problem(self) -> str | None:
        return "; ".join(self.errors) or None


def replica_headings(admin: AdminClient, broker_addr: str | None, cluster_name: str | None) -> list[tuple[str, str]]:
    """The replicas of ``-b`` or ``-c``, each with mqadmin's line above it. Errors as of ``targets.replicas``."""
    targets.check_one_of(broker_addr, cluster_name)
    if cluster_name is None:
        (addr,) = targets.replicas(admin, broker_addr, None)
        return [(addr, f"============{addr}============\n")]
    found = []
    for broker in targets.cluster(admin, cluster_name):
        master = broker.master_addr or "NO_MASTER"
        for broker_id, addr in sorted(broker.broker_addrs.items()):
            whose = f"Master: {addr}" if broker_id == MASTER_ID else f"My Master: {master}=====Slave: {addr}"
            found.append((addr, f"============{whose}============\n"))
    return found


def property_lines(values: Mapping[str, Any], order: Sequence[str], width: int) -> str:
    return "".join(f"{key:{width}}=  {values[key]}\n" for key in order)


class ReadProperties(Protocol):
    """The signature of AdminClient's methods that read a server's properties."""

    def __call__(self, addr: str, /, *, with_own_defaults: bool) -> dict[str, str]: ...


def read_configs(
    wanted: Sequence[tuple[str, str]], ask: ReadProperties, *, as_mqadmin: bool, mqadmin_end: str = ""
) -> Configs:
    """Each server's properties. ``as_mqadmin``: as Apache's tool would list them, without our own properties that have
    their default values. A server that fails is reported if others answer; the first error if none does."""
    headings = dict(wanted)
    answers = ask_addrs(headings, lambda addr: ask(addr, with_own_defaults=not as_mqadmin))
    errors = [str(answer) for answer in answers.values() if isinstance(answer, RocketMQError)]
    found = [(addr, answer) for addr, answer in answers.items() if not isinstance(answer, RocketMQError)]
    return Configs([Listing(addr, headings[addr], values) for addr, values in found], errors, mqadmin_end)


class PassedOverError(RocketMQError):
    """The server answered with success and has another value."""


_BOOLEANS = ("true", "false")
_BLACK_LIST = ("configBlackList", "rocketmqHome")
"""Properties that no server lets anybody change. The value of the first names further ones."""


def _is_same(value: str, wanted: str) -> bool:
    """Whether both are one value: a server writes ``TRUE``, ``048`` and, of a fraction, ``1`` in its own way."""
    number = decimal_number(wanted)
    return value.lower() == wanted.lower() or (number is not None and decimal_number(value) == number)


def plan_property(
    name: str,
    addr: str,
    key: str,
    value: str,
    *,
    read: ReadProperties,
    write: Callable[[str, Mapping[str, str]], None],
    is_checked: bool,
    listing: str,
    undo: list[str],
) -> Step:
    """Plans one property of one server. It is read back afterwards, because servers report success for properties that
    they do not know or understand. Without ``is_checked`` it is not, as in mqadmin. ``listing`` is the command that
    shows the properties, ``undo`` the words of the command that sets them, without property and value. NotFoundError if
    the server has no such property, UsageError for a word in place of true or false: Apache's servers take it for
    false."""

    now = read(addr, with_own_defaults=True)
    before = now.get(key)
    if before is None and is_checked:
        meant = did_you_mean(key, now)
        lists = f"`{listing}` lists them."
        raise NotFoundError(f"the {name} has no property {key}", hint=f"{meant} {lists}" if meant else lists)
    if is_checked and before in _BOOLEANS and value.lower() not in _BOOLEANS:
        raise UsageError(f"{key} is true or false, and not {value!r}")
    changes = [FieldChange(key, before, value)] if before != value else []

    def act() -> None:
        write(addr, {key: value})
        after = read(addr, with_own_defaults=True).get(key) if is_checked and changes else None
        if after is not None and not _is_same(after, value):
            said = "stays" if after == before else "is now"
            raise PassedOverError(f"the {name} does not take {value!r} for {key}: it {said} {after!r}")

    back = None if before is None else [[*undo, "-k", key, "-v", before]]
    foretold = None
    if key in {*_BLACK_LIST, *now.get(_BLACK_LIST[0], "").split(";")}:
        foretold = RefusedError(ResponseCode.NO_PERMISSION, "Can not update config in black list.", address=addr)
    return Step(addr, "change" if changes else "keep", changes, act, back, foretold=foretold)


_PERMISSION = "brokerPermission"
"""A perm, written with the same letters as a topic's."""


def plan_broker_property(admin: AdminClient, addr: str, key: str, value: str, *, is_checked: bool = True) -> Step:
    """``plan_property`` for one broker."""
    if key == _PERMISSION and (perm := perm_of_letters(value)) is not None:
        value = str(perm)
    step = plan_property(
        f"broker {addr}", addr, key, value,
        read=admin.broker_config, write=admin.update_broker_config, is_checked=is_checked,
        listing=f"rmqadmin getBrokerConfig -b {addr}", undo=["updateBrokerConfig", "-b", addr],
    )  # fmt: skip
    back = [partial(plan_broker_property, addr=addr, key=key, value=change.before) for change in step.changes]
    return msgspec.structs.replace(step, plan_back=lambda admin: [plan(admin) for plan in back])


MEANINGS = {
    "aclEnable": "whether ACL 1.0 is enforced; true or false",
    "authenticationEnabled": "whether clients must say who they are; true or false",
    "authorizationEnabled": "whether it is checked what clients may do; true or false",
    "autoCreateSubscriptionGroup": "whether a group comes to be by itself when it consumes; true or false",
    "autoCreateTopicEnable": "whether a topic comes to be by itself when it is sent to; true or false",
    "brokerName": "name of the broker and of its slaves; it counts at the start",
    "brokerPermission": "what the broker permits: R (4), W (2) or RW (6)",
    "brokerRole": "ASYNC_MASTER, SYNC_MASTER (waits for slaves) or SLAVE",
    "cleanFileForciblyEnable": "whether old files go when the disk is full, whatever their age; true or false",
    "clearRetryTopicWhenDeleteTopic": "whether deleting a topic deletes the retry topics of its groups; true or false",
    "defaultTopicQueueNums": "queues of a topic that comes to be by itself",
    "deleteWhen": "hours of the day at which old files are deleted: 04, or 04;16",
    "diskMaxUsedSpaceRatio": "percent of the disk from which on files that are old enough are deleted at any hour",
    "enableControllerMode": "whether controllers say who is master; it counts at the start",
    "enablePropertyFilter": "whether consumers may filter by SQL92; true or false",
    "fileReservedTime": "hours that messages are kept: files that are older are deleted, with what is in them",
    "flushDiskType": "when a send is answered: ASYNC_FLUSH at once, SYNC_FLUSH when it is on the disk",
    "flushIntervalCommitLog": "ms between two flushes of the commit log, with ASYNC_FLUSH",
    "forwardToMasterEnable": "whether a slave of a set passes on to its master what that alone takes; true or false",
    "haTransferBatchSize": "bytes that a slave is sent at once",
    "inSyncReplicas": "brokers that must have a message before its send is answered, the master included",
    "listenPort": "port of the broker; it counts at the start",
    "litePullMessageEnable": "whether lite pull consumers are served; true or false",
    "longPollingEnable": "whether a pull that finds nothing waits for messages; true or false",
    "mappedFileSizeCommitLog": "bytes of one file of the commit log; it counts for new files",
    "masterLeaseEnable": "whether a master that hears no controller refuses messages; true or false",
    "maxConnectionsPerAddress": "connections of one address; 0: no limit",
    "maxErrorRateOfBloomFilter": "percent of messages that the filter by SQL92 may look at in vain",
    "maxMessageSize": "bytes that a message may have at most",
    "maxPullRatePerTopic": "pulls and pops a second from one topic: 1000;orders=50; 0: no limit",
    "maxReceivedBytesPerConnection": "bytes of requests that wait on one connection; 0: one frame",
    "maxRequestRatePerUser": "requests a second of one user: 1000;app=50; 0: no limit",
    "maxRequestsInFlightPerConnection": "requests of one connection that wait for answers; 0: no limit",
    "maxSendRatePerTopic": "sends a second to one topic: 1000;orders=50; 0: no limit",
    "maxTransferBytesOnMessageInMemory": "bytes that one pull gets at most",
    "maxTransferCountOnMessageInMemory": "messages that one pull gets at most",
    "maxUnreadBytesPerConnection": "bytes of answers that one connection may leave unread",
    "messageDelayLevel": "how long each delay level waits, which retries follow too: 1s 5s 10s …",
    "messageIndexEnable": "whether messages are indexed, to be found by key; true or false",
    "minInSyncReplicas": "brokers in sync below which sends are refused",
    "msgTraceTopicName": "topic into which clients write traces",
    "namesrvAddr": "name servers that the broker tells of itself: host:port;host:port",
    "notifyConsumerIdsChangedEnable": "whether members of a group are told when others come or go; true or false",
    "offsetCheckInSlave": "whether a slave checks the offsets of pulls; true or false",
    "popInflightMessageThreshold": "messages of one queue and group that may be popped and not acknowledged",
    "rejectTransactionMessage": "whether transactions are refused; true or false",
    "slaveReadEnable": "whether consumers far behind are sent to a slave; true or false",
    "slaveTimeout": "ms that a send waits for slaves (SYNC_MASTER)",
    "syncFlushTimeout": "ms that a send waits for the disk (SYNC_FLUSH)",
    "timerMaxDelaySec": "seconds that a timed message may be delayed at most",
    "timerWheelEnable": "whether timed messages are delivered; true or false",
    "traceOn": "whether the broker takes part in message traces; true or false",
    "traceTopicEnable": "whether the topic of traces is made at the start; true or false",
    "transactionCheckInterval": "ms between two rounds in which producers are asked about open transactions",
    "transactionCheckMax": "times that a producer is asked before its message is given up",
    "transactionTimeOut": "ms after which a producer is asked about an open transaction",
    "autoCreateTopicOnAllBrokers": "whether all brokers of a cluster get a topic that a send makes; true or false",
    "grpcServerPort": "a port for clients of gRPC beside the broker's own, which takes them as well",
    "uniqueKeyCheckMillis": "ms in which a message with the unique key of another is taken for that one; 0: never",
    "useServerSideResetOffset": "whether the broker itself moves groups that are reset; true or false",
    "waitTimeMillsInSendQueue": "ms that a send may wait for its turn before it is refused as too busy",
}
"""Meanings by Apache's names, and of all properties that only our broker has. Apache's manual of the broker explains
the others."""
