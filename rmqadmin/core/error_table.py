"""What each response code means to an operator: its exit status, its meaning, and what to do.

Data, read by ``diagnostics`` (exit status, hint), by ``rmqadmin explain`` and by the manual. The names are those of
``ResponseCode`` of Apache RocketMQ 5.5.0. A code that is missing here is an ordinary refusal: exit status 1.
"""

import re

import msgspec

from rmqadmin.core.exit_codes import ExitCode
from rmqproto.codes import ResponseCode as C


class Explanation(msgspec.Struct, frozen=True):
    """``meaning`` and ``hint`` are one sentence each."""

    meaning: str
    hint: str
    exit_code: ExitCode = ExitCode.REFUSED


def _controller(meaning: str) -> Explanation:
    return Explanation(meaning, "`rmqadmin getSyncStateSet` shows the replicas as the controller sees them.")


EXPLANATIONS: dict[int, Explanation] = {
    C.SYSTEM_ERROR: Explanation(
        "The server failed, or refused for a reason that only its remark tells (ACL 1.0 refusals come with this code).",
        "Read the remark; the server's log has the rest.",
    ),
    C.SYSTEM_BUSY: Explanation(
        "The broker is overloaded and turned the request away.",
        "Try again; `rmqadmin brokerStatus` shows queue sizes and page cache waits.",
    ),
    C.REQUEST_CODE_NOT_SUPPORTED: Explanation(
        "The server does not know this request: it is older, or of another kind (name server, broker, proxy).",
        "Check the address and the version (`rmqadmin clusterList`); docs/compatibility.md: what rmqserver serves.",
    ),
    C.TRANSACTION_FAILED: Explanation(
        "The transaction could not be ended as asked.", "The broker will ask the producer again."
    ),
    C.FLUSH_DISK_TIMEOUT: Explanation(
        "The message is stored, but the broker could not flush it to disk in time.",
        "Look at the disk of the broker; the message may be lost only by a crash of the whole machine.",
    ),
    C.SLAVE_NOT_AVAILABLE: Explanation(
        "The message is stored, but no slave was there to take a copy.",
        "Look at the slave: `rmqadmin clusterList` shows whether it is there and answers.",
    ),
    C.FLUSH_SLAVE_TIMEOUT: Explanation(
        "The message is stored, but the slave did not confirm its copy in time.",
        "Look at the slave: `rmqadmin clusterList` shows whether it is there and answers.",
    ),
    C.MESSAGE_ILLEGAL: Explanation(
        "The message cannot be stored: too large, too many properties, or a topic name that is not legal.",
        "The remark names the limit.",
    ),
    C.SERVICE_NOT_AVAILABLE: Explanation(
        "The broker does not take messages now: it is starting, stopping, a slave, or its disk is full.",
        "`rmqadmin brokerStatus` shows the disk ratio and whether the broker is active.",
    ),
    C.VERSION_NOT_SUPPORTED: Explanation(
        "The server cannot do this with a client of this version.", "Upgrade the older of the two."
    ),
    C.NO_PERMISSION: Explanation(
        "Not permitted: by the ACL, by the topic's permission, or by the broker's own.",
        "Check -ak and -sk, the user's ACL, and the permission that `rmqadmin topicRoute -l` shows.",
        ExitCode.NO_PERMISSION,
    ),
    C.TOPIC_NOT_EXIST: Explanation(
        "The topic does not exist, or no broker has registered it with this name server.",
        "`rmqadmin topicList` shows what exists; a broker reports a new topic at once, and all of them every 30 s.",
        ExitCode.NOT_FOUND,
    ),
    C.TOPIC_EXIST_ALREADY: Explanation("The topic exists already.", "`rmqadmin topicRoute` shows where."),
    C.PULL_NOT_FOUND: Explanation("No message at this queue offset yet.", "Nothing to do: the consumer waits."),
    C.PULL_RETRY_IMMEDIATELY: Explanation(
        "None of the messages looked at matched the subscription.", "Nothing to do: the consumer goes on."
    ),
    C.PULL_OFFSET_MOVED: Explanation(
        "The queue offset asked for is not in the queue, or was reset.",
        "`rmqadmin topicStatus` shows the queue's limits.",
    ),
    C.QUERY_NOT_FOUND: Explanation(
        "Nothing is stored under this key.", "Check namespace, key and topic.", ExitCode.NOT_FOUND
    ),
    C.SUBSCRIPTION_PARSE_FAILED: Explanation(
        "The broker cannot read the subscription's expression.",
        "SQL92 filters need enablePropertyFilter=true on the broker.",
    ),
    C.SUBSCRIPTION_NOT_EXIST: Explanation(
        "The broker knows no subscription of this group to this topic.",
        "`rmqadmin consumerConnection` shows what the group subscribes to.",
    ),
    C.SUBSCRIPTION_NOT_LATEST: Explanation(
        "The broker knows a newer subscription of this group: its consumers do not subscribe alike.",
        "All consumers of a group must have the same subscriptions.",
    ),
    C.SUBSCRIPTION_GROUP_NOT_EXIST: Explanation(
        "The consumer group does not exist on this broker.",
        "`rmqadmin updateSubGroup` creates it; a consumer that connects does too, where the broker allows that.",
        ExitCode.NOT_FOUND,
    ),
    C.FILTER_DATA_NOT_EXIST: Explanation(
        "The broker has lost the group's filter.", "It comes back with the consumers' next heartbeat, within 30 s."
    ),
    C.FILTER_DATA_NOT_LATEST: Explanation(
        "The broker has an older filter of the group.", "It is replaced by the consumers' next heartbeat, within 30 s."
    ),
    C.INVALID_PARAMETER: Explanation("A value is not allowed.", "Change the value that the message names."),
    C.NO_BUYER_ID: Explanation("The request lacks a unit's id.", "Units are an Alibaba feature: check unitMode."),
    C.NOT_IN_CURRENT_UNIT: Explanation("The request belongs to another unit.", "Check unitMode and unitName."),
    C.CONSUMER_NOT_ONLINE: Explanation(
        "No consumer of the group is online at this broker.",
        "Offline groups: `rmqadmin consumerProgress -g GROUP -t TOPIC`, `rmqadmin resetOffset`.",
        ExitCode.NOT_FOUND,
    ),
    C.CONSUME_MSG_TIMEOUT: Explanation(
        "The consumer did not answer the broker in time.",
        "It may be busy or stuck: `rmqadmin consumerStatus -s` shows its stacks.",
    ),
    C.NO_MESSAGE: Explanation(
        "No message was found.",
        "It may have been deleted with its commit log file; `rmqadmin topicStatus` shows what is left.",
        ExitCode.NOT_FOUND,
    ),
    C.LMQ_QUOTA_EXCEEDED: Explanation(
        "The broker has as many light queues as it may, and makes no more.",
        "`rmqadmin getBrokerConfig` shows maxLmqConsumeQueueNum; enableLmqQuota=false lifts the limit.",
    ),
    C.LITE_SUBSCRIPTION_QUOTA_EXCEEDED: Explanation(
        "The broker has as many subscriptions to lite topics as it may, and takes no more.",
        "`rmqadmin getBrokerConfig` shows maxLiteSubscriptionCount.",
    ),
    C.POLLING_FULL: Explanation(
        "The broker holds as many waiting POP requests as it may, and takes no more.",
        "Try again later; `rmqadmin getBrokerConfig` shows maxPopPollingSize and popPollingSize.",
    ),
    C.POLLING_TIMEOUT: Explanation(
        "No message came while the POP request waited.", "Nothing is wrong: a consumer simply asks again."
    ),
    C.BROKER_NOT_EXIST: Explanation(
        "No broker of this name is registered.", "`rmqadmin clusterList` shows the brokers."
    ),
    C.BROKER_DISPATCH_NOT_COMPLETE: Explanation(
        "The broker has not yet built queues and index behind its commit log.", "Try again shortly."
    ),
    C.BROADCAST_CONSUMPTION: Explanation(
        "The group consumes in broadcast mode: each client keeps its own offsets, the broker has none.",
        "There is no lag to show and nothing to reset on the broker.",
    ),
    C.FLOW_CONTROL: Explanation("The broker limits this client's rate.", "Send or pull more slowly."),
    C.NOT_LEADER_FOR_QUEUE: Explanation(
        "The queue of a static topic has moved to another broker.", "Read the route again: `rmqadmin topicRoute`."
    ),
    C.ILLEGAL_OPERATION: Explanation("The operation does not fit the state of what it is for.", "Read the remark."),
    C.CONTROLLER_FENCED_MASTER_EPOCH: _controller("The request comes from an older term of the master."),
    C.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH: _controller("The request is about an older set of in-sync replicas."),
    C.CONTROLLER_INVALID_MASTER: _controller("The broker is not the master that it says it is."),
    C.CONTROLLER_INVALID_REPLICAS: _controller("A replica of the request is not known to the controller."),
    C.CONTROLLER_MASTER_NOT_AVAILABLE: _controller("The broker has no master now."),
    C.CONTROLLER_INVALID_REQUEST: Explanation("The controller cannot read the request.", "The remark says why."),
    C.CONTROLLER_BROKER_NOT_ALIVE: _controller("A replica of the request is not alive."),
    C.CONTROLLER_NOT_LEADER: Explanation(
        "This controller does not lead its group.",
        "`rmqadmin getControllerMetaData` shows the leader; without one, too few controllers are up.",
    ),
    C.CONTROLLER_BROKER_METADATA_NOT_EXIST: _controller("The controller knows no broker of this name."),
    C.CONTROLLER_INVALID_CLEAN_BROKER_METADATA: Explanation(
        "The controller does not forget these replicas.",
        "The remark says why. Apache's controllers forget living ones with -l, rmqserver's never.",
    ),
    C.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED: _controller("The broker has not registered with the controller."),
    C.CONTROLLER_MASTER_STILL_EXIST: _controller("The master lives, so that no other one is elected."),
    C.CONTROLLER_ELECT_MASTER_FAILED: _controller("No replica could be elected: none that may lead is alive."),
    C.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED: _controller("The set of in-sync replicas could not be changed."),
    C.CONTROLLER_BROKER_ID_INVALID: _controller("The broker id is taken, or is not the one that was given out."),
    C.CONTROLLER_JRAFT_INTERNAL_ERROR: Explanation("The controllers' log failed.", "Read the controllers' logs."),
    C.CONTROLLER_BROKER_LIVE_INFO_NOT_EXISTS: _controller("The controller has not heard of the broker yet."),
    C.USER_NOT_EXIST: Explanation(
        "There is no such user.", "`rmqadmin listUser` lists the users of a broker.", ExitCode.NOT_FOUND
    ),
    C.POLICY_NOT_EXIST: Explanation(
        "There is no such policy.", "`rmqadmin listAcl` lists the policies of a broker.", ExitCode.NOT_FOUND
    ),
    C.GO_AWAY: Explanation("The server asks its clients to connect anew: it is stopping.", "Try again."),
}

_HINTS_BY_REMARK: dict[int, list[tuple[str, str]]] = {
    C.SYSTEM_ERROR: [
        (r"^-?\d+@\S+ is not exist", "`rmqadmin topicStatus` shows which queues a topic has."),
        (
            r"^An system error occurred|MetadataProvider is not configured",
            "It keeps no users and ACLs, or not where it could: authenticationMetadataProvider and "
            "authorizationMetadataProvider in its settings say where, and need a restart.",
        ),
        (r"only for controllerMode", "Only brokers under a controller have epochs (docs/controller.md)."),
    ],
    C.INVALID_PARAMETER: [
        (r"conflict with system topic", "Brokers need this topic: it can be neither made nor deleted."),
        (r"Topic .*type not match", "It is no parent of lite topics: those have the attribute message.type=LITE."),
        (
            r"Group .*is not a LITE group",
            "`rmqadmin updateSubGroup` binds one to its parent topic: --attributes +lite.bind.topic=TOPIC.",
        ),
    ],
    C.SYSTEM_BUSY: [
        (
            r"^\[REJECTREQUEST\]",
            "Try again; `rmqadmin brokerStatus` shows page cache waits. Slaves with slaveReadEnable=false say it, too.",
        ),
    ],
    C.NO_PERMISSION: [
        (r"config in black list", "Only the server's file of settings changes this property, at its start."),
        (r"retry topic is not allowed to set mode", "Set the mode of the topic itself: its retries follow."),
        (
            r"username cannot be null",
            "This server serves known users only: give -ak and -sk, or use a context that refers to keys.",
        ),
        (r"User:.* is not found", "Check -ak: this server has no such user."),
        (r"check signature failed", "Check -sk: it is not this user's password."),
        (
            r"has no permission to access",
            "Asked by an administrator, `rmqadmin acl can` says which entry decides, `rmqadmin acl grant` adds one.",
        ),
        (r"The subject is null", "The subject is User: and a name, such as User:alice."),
        (r"The subject .*is not exist", "`rmqadmin listUser` lists the users: only those that exist have an ACL."),
        (r"The acl is not exist", "`rmqadmin listAcl` lists the users that have one."),
        (
            r"The resource is null",
            "A resource is Topic:, Group:, Cluster: or Namespace: and a name or the beginning of one: Topic:order*.",
        ),
        (r"The actions (is empty|can not be Any)", "Actions: All, Pub, Sub, Create, Update, Delete, Get, List."),
        (r"The source ip is ", "Source IPs are addresses and networks, such as 10.0.0.1,10.1.0.0/16."),
    ],
}
"""Brokers answer with one code who may not ask and what they cannot read; where only the remark tells, it selects the
hint."""


def hint_of(response_code: int, remark: str | None) -> str | None:
    """What to do about a refusal. None for an unknown code."""
    for pattern, hint in _HINTS_BY_REMARK.get(response_code, ()):
        if re.search(pattern, remark or ""):
            return hint
    explanation = EXPLANATIONS.get(response_code)
    return explanation.hint if explanation else None


_IS_MISSING = re.compile(r"\bis not exist(ed)?\b")
"""How remarks of Apache's servers say that something does not exist, under codes that mean other things, such as
NO_PERMISSION for a user."""


def exit_code_of(response_code: int, remark: str | None = None) -> ExitCode:
    """The exit status for a refusal."""
    if _IS_MISSING.search(remark or ""):
        return ExitCode.NOT_FOUND
    explanation = EXPLANATIONS.get(response_code)
    return explanation.exit_code if explanation else ExitCode.REFUSED
