"""Changes one property of a broker's configuration, and explains the properties that are changed most."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqadmin.core.changes import Step
from rmqadmin.core.servers.server_configs import plan_property
from rmqadmin.core.topics.perms import perm_of_letters

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient

_PERMISSION = "brokerPermission"
"""A perm, written with the same letters as a topic's."""


def plan_broker_property(admin: AdminClient, addr: str, key: str, value: str, *, is_checked: bool = True) -> Step:
    """``plan_property`` for one broker."""
    if key == _PERMISSION and (perm := perm_of_letters(value)) is not None:
        value = str(perm)
    return plan_property(
        f"broker {addr}", addr, key, value,
        read=admin.broker_config, write=admin.update_broker_config, is_checked=is_checked,
        listing=f"rmqadmin getBrokerConfig -b {addr}", undo=["updateBrokerConfig", "-b", addr],
    )  # fmt: skip


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
