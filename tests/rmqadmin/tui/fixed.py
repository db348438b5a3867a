"""A cluster with two brokers, one of them silent, whose answers never change. It is for pictures of every screen."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from rmqadmin.tui.dashboard_client import DashboardClient
from rmqclient.pull import PullResult, PullStatus
from rmqproto.bodies.acl import AclEntry, AclInfo, AclPolicy, UserInfo
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import (
    ClientConnection,
    ConsumerConnection,
    SubscriptionData,
    SubscriptionGroupConfig,
    SubscriptionGroups,
)
from rmqproto.bodies.replication import (
    EpochCache,
    EpochEntry,
    HaClient,
    HaStatus,
    ReplicaIdentity,
    ReplicaSet,
    ReplicaSets,
)
from rmqproto.bodies.routes import BrokerData, ClusterInfo, QueueData, TopicConfig, TopicConfigs, TopicRoute
from rmqproto.bodies.statistics import (
    BrokerStatsData,
    ConsumeOffset,
    ConsumerRunningInfo,
    ConsumeStats,
    ConsumeStatsList,
    ProcessQueueInfo,
    StatsSnapshot,
    TopicOffset,
    TopicStats,
)
from rmqproto.codes import VERSION, RequestCode, ResponseCode
from rmqproto.errors import ConnectError, RefusedError
from rmqproto.headers.controller import ControllerMetaAnswer
from rmqproto.message import properties as props
from rmqproto.message.properties import render
from rmqproto.message.record import StoredMessage, body_crc, host_bytes
from rmqproto.names import TRACE_TOPIC
from rmqproto.wire.command import Command
from rmqproto.wire.fastjson import ObjectMap

NOW_MS = 1_388_534_400_000
"""The start of 2014, UTC, when the year of flights is over."""

NAMESRV = "192.0.2.1:9876"
ADDRS = {"broker-a": "192.0.2.10:10911", "broker-b": "192.0.2.11:10911"}
TOPIC, GROUP = "flights", "arrivals"
DLQ = f"%DLQ%{GROUP}"
QUEUE_COUNT = 3
DEAD_COUNT = 4
SILENT = "192.0.2.77@77"
_PERMS = {TOPIC: 6, "closed": 4, "订单": 6, "[/red]": 6}
_BODIES = (
    b'{"carrier": "UA", "tailnum": "N13936", "arr_delay": null, "route": {"from": "EWR", "to": "IAH"}}',
    b"not JSON: [/red] \x1b[31m \xff",
    b'["[/red]", 1.50, 12345678901234567890]',
    b"",
)


def dead_letter(number: int) -> StoredMessage:
    body = _BODIES[number]
    properties = {
        props.KEYS: ("N13936 UA1545 9430", "[/red]", "N39463", "")[number] or "NA",
        props.TAGS: "UA",
        props.UNIQUE_KEY: f"C000020A0001{number:020X}",
        props.RETRY_TOPIC: TOPIC,
        props.ORIGIN_MESSAGE_ID: f"C000020A00002A9F{number:016X}",
    }
    host = host_bytes("192.0.2.10", 10911)
    return StoredMessage(
        200 + len(body), body_crc(body), 0, 0, number, 4096 + 512 * number, 0, NOW_MS - 7_200_000 + number, host,
        NOW_MS - 3_600_000 + number * 60_000, host, 3, 0, body, DLQ, render(properties).encode(),
    )  # fmt: skip


def trace_message(message_id: str) -> StoredMessage:
    """A trace of a message that was sent, and consumed twice: by a group whose name looks like markup, and in vain."""
    at_ms = NOW_MS - 7_200_000
    records = [
        ["Pub", at_ms, "R", "flights-out", TOPIC, message_id, "UA", "k", "h", 24, 3, 0, "id", "true"],
        ["SubBefore", at_ms + 5, "R", "[/red]", "r1", message_id, 0, "k"],
        ["SubAfter", "r1", message_id, 12, "true", "k", 0],
        ["SubBefore", at_ms + 9, "R", GROUP, "r2", message_id, 2, "k"],
        ["SubAfter", "r2", message_id, 1500, "false", "k", 4],
    ]
    body = "".join("\x01".join(map(str, fields)) + "\x02" for fields in records).encode()
    properties = {props.KEYS: message_id, props.UNIQUE_KEY: "C000020A00020000000000000000000F"}
    host = host_bytes("192.0.2.50", 40000)
    return StoredMessage(
        200 + len(body), body_crc(body), 0, 0, 0, 65536, 0, at_ms, host, at_ms, host, 0, 0, body, TRACE_TOPIC,
        render(properties).encode(),
    )  # fmt: skip


class FixedClient(DashboardClient):
    """Answers what the screens ask. broker-b never answers."""

    def __init__(self, *, read_only: bool):
        super().__init__(NAMESRV, None, 5.0, read_only=read_only)

    def _only_a(self, broker_addr: str) -> None:
        if broker_addr != ADDRS["broker-a"]:
            raise ConnectError(f"cannot connect to {broker_addr}: Connection refused", address=broker_addr)

    def cluster_info(self) -> ClusterInfo:
        brokers = {
            name: BrokerData(broker_addrs={0: addr}, broker_name=name, cluster="C") for name, addr in ADDRS.items()
        }
        return ClusterInfo(broker_addr_table=brokers, cluster_addr_table={"C": list(brokers)})

    def read(self, address: str, code: int, header: Any, type: Any, *, timeout_s: float | None = None) -> Any:
        """What is asked of each name server."""
        if code == RequestCode.GET_BROKER_CLUSTER_INFO:
            return self.cluster_info()
        return super().read(address, code, header, type, timeout_s=timeout_s)

    def call_all(
        self, address: str, code: int, headers: Sequence[Any], accept: Collection[int] = (ResponseCode.SUCCESS,)
    ) -> list[Command]:
        """The routes of the topics that brokers have under their own names, which are not there."""
        return [Command(code=ResponseCode.TOPIC_NOT_EXIST) for _ in headers]

    def topic_list(self) -> list[str]:
        return [*_PERMS, DLQ, f"%RETRY%{GROUP}", "elsewhere", "TBW102"]

    def topic_route(self, topic: str) -> TopicRoute:
        if topic not in (*_PERMS, DLQ, TRACE_TOPIC):
            raise RefusedError(
                ResponseCode.TOPIC_NOT_EXIST, f"No topic route info in name server for the topic: {topic}"
            )
        nums = 1 if topic == DLQ else QUEUE_COUNT
        queues = QueueData(
            broker_name="broker-a", perm=_PERMS.get(topic, 6), read_queue_nums=nums, write_queue_nums=nums
        )
        data = BrokerData(broker_addrs={0: ADDRS["broker-a"]}, broker_name="broker-a", cluster="C")
        return TopicRoute(broker_datas=[data], queue_datas=[queues])

    def broker_runtime_info(self, broker_addr: str) -> dict[str, str]:
        self._only_a(broker_addr)
        return {
            "brokerVersionDesc": "V5_5_0", "putTps": "1520.5 1500.0 1490.0", "getTransferredTps": "3.5 3.5 3.5",
            "commitLogDiskRatio": "0.8012", "earliestMessageTimeStamp": str(NOW_MS - 86_400_000),
            "putLatency99": "1.50", "brokerActive": "true", "msgPutTotalTodayNow": "336776",
            "msgPutTotalTodayMorning": "0", "msgGetTotalTodayNow": "327346", "msgGetTotalTodayMorning": "0",
        }  # fmt: skip

    def broker_config(self, broker_addr: str, *, with_own_defaults: bool = False) -> dict[str, str]:
        self._only_a(broker_addr)
        return {"brokerName": "broker-a", "flushDiskType": "SYNC_FLUSH", "brokerPermission": "6", "aclEnable": "true"}

    def users(self, broker_addr: str) -> list[UserInfo]:
        self._only_a(broker_addr)
        return [
            UserInfo(username="[/red]", user_type="Normal", user_status="disable"),
            UserInfo(username="root", user_type="Super", user_status="enable"),
        ]

    def acls(self, broker_addr: str, *_: str | None) -> list[AclInfo]:
        entries = [
            AclEntry(actions=["Pub", "Sub"], decision="Allow", resource=f"Topic:{TOPIC}", source_ips=["192.0.2.0/24"]),
            AclEntry(actions=["All"], decision="Deny", resource="Group:*"),
        ]
        return [AclInfo(subject="User:ann", policies=[AclPolicy(entries=entries, policy_type="Custom")])]

    def all_topics(self, broker_addr: str) -> TopicConfigs:
        self._only_a(broker_addr)
        perms = {**_PERMS, DLQ: 6, f"%RETRY%{GROUP}": 6, "TBW102": 7}
        table = {
            name: TopicConfig(topic_name=name, perm=perm, read_queue_nums=QUEUE_COUNT, write_queue_nums=QUEUE_COUNT)
            for name, perm in perms.items()
        }
        table[TOPIC].attributes = {"message.type": "NORMAL"}
        return TopicConfigs(topic_config_table=table)

    def topic_stats(self, broker_addr: str, topic: str) -> TopicStats:
        nums, count = (1, DEAD_COUNT) if topic == DLQ else (QUEUE_COUNT, 112_258 if topic == TOPIC else 0)
        newest_ms = NOW_MS - 60_000 if count else 0
        ends = {
            MessageQueue(topic, "broker-a", queue_id): TopicOffset(max_offset=count, last_update_timestamp=newest_ms)
            for queue_id in range(nums)
        }
        return TopicStats(offset_table=ObjectMap(ends), topic_put_tps=1520.5 if topic == TOPIC else 0.0)

    def queues_past(self, broker_addr: str, topic: str, queue_nums: int) -> list[int]:
        return []

    def groups_of_topic(self, broker_addr: str, topic: str) -> list[str]:
        return [GROUP] if topic == TOPIC else []

    def broker_stats(self, broker_addr: str, stats_name: str, stats_key: str) -> BrokerStatsData:
        return BrokerStatsData(stats_minute=StatsSnapshot(tps=3.5))

    def earliest_store_time(self, broker_addr: str, topic: str, queue_id: int) -> int | None:
        return dead_letter(0).store_timestamp_ms

    def all_groups(self, broker_addr: str) -> SubscriptionGroups:
        self._only_a(broker_addr)
        configs = [
            SubscriptionGroupConfig(group_name=GROUP),
            SubscriptionGroupConfig(group_name="stopped", consume_enable=False),
            SubscriptionGroupConfig(group_name="TOOLS_CONSUMER"),
        ]
        return SubscriptionGroups(subscription_group_table={config.group_name: config for config in configs})

    def consume_stats(self, broker_addr: str, group: str, topic: str | None = None) -> ConsumeStats:
        if group != GROUP:
            return ConsumeStats()
        table = {
            MessageQueue(TOPIC, "broker-a", queue_id): ConsumeOffset(
                broker_offset=112_258,
                consumer_offset=112_258 - behind,
                pull_offset=112_258 - behind // 2,
                last_timestamp=NOW_MS - 400_000,
            )
            for queue_id, behind in enumerate((0, 32, 9_430))
        }
        return ConsumeStats(consume_tps=3.5, offset_table=ObjectMap(table))

    def broker_consume_stats(
        self, broker_addr: str, *, ordered: bool = False, timeout_s: float | None = None
    ) -> ConsumeStatsList:
        self._only_a(broker_addr)
        stats = {group: [self.consume_stats(broker_addr, group)] for group in (GROUP, "stopped", "TOOLS_CONSUMER")}
        return ConsumeStatsList(broker_addr=broker_addr, consume_stats_list=[stats])

    def consumer_connection(self, broker_addr: str, group: str) -> ConsumerConnection:
        if group != GROUP:
            raise RefusedError(ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{group}] not online")
        clients = ["192.0.2.50@1", "192.0.2.51@1", SILENT]
        return ConsumerConnection(
            connection_set=[
                ClientConnection(
                    client_addr=f"{one.partition('@')[0]}:40000", client_id=one, language="JAVA", version=VERSION
                )
                for one in clients
            ],
            consume_type="CONSUME_PASSIVELY",
            message_model="CLUSTERING",
            subscription_table={TOPIC: SubscriptionData(topic=TOPIC)},
        )

    def consumer_running_info(
        self, broker_addr: str, group: str, client_id: str, *, jstack: bool = False
    ) -> ConsumerRunningInfo:
        if client_id == SILENT:
            raise RefusedError(ResponseCode.CONSUME_MSG_TIMEOUT, f"consumer <{group}> <{client_id}> timed out")
        owned = MessageQueue(TOPIC, "broker-a", 0)
        queues = [owned] if client_id.startswith("192.0.2.50") else [owned, MessageQueue(TOPIC, "broker-a", 1)]
        expression = "*" if len(queues) == 1 else "UA || [/red]"
        return ConsumerRunningInfo(
            mq_table=ObjectMap({queue: ProcessQueueInfo() for queue in queues}),
            subscription_set=[SubscriptionData(topic=TOPIC, sub_string=expression)],
        )

    def pull_message(
        self,
        broker_addr: str,
        queue: MessageQueue,
        queue_offset: int,
        *,
        max_count: int | None = None,
        expression: str = "*",
        group: str = "TOOLS_CONSUMER",
    ) -> PullResult:
        if queue.topic == DLQ:
            end = min(DEAD_COUNT, queue_offset + (max_count or 32))
            found = [dead_letter(number) for number in range(queue_offset, end)]
        else:
            found = [dead_letter(0)]
        return PullResult(PullStatus.FOUND, found, queue_offset + len(found), 0, DEAD_COUNT, 0)

    def query_message(self, broker_addr: str, topic: str, key: str, **_: object) -> list[StoredMessage]:
        if topic == TRACE_TOPIC:
            return [trace_message(key)]
        return [dead_letter(1)] if key == "[/red]" and topic == DLQ else []

    def consumer_offset(self, broker_addr: str, group: str, topic: str, queue_id: int) -> int | None:
        return (112_258, 112_226, None)[queue_id]

    def topic_config(self, broker_addr: str, topic: str) -> TopicConfig:
        return self.all_topics(broker_addr).topic_config_table[topic]


SET_ADDRS = {1: "192.0.2.10:10911", 2: "192.0.2.12:10911", 3: "192.0.2.13:10911"}
CONTROLLERS = ("192.0.2.20:9878", "192.0.2.21:9878")
LOG_END = 5 << 30


class FixedSetClient(FixedClient):
    """broker-a is a set of three under two controllers, one of which never answers. Broker 2 keeps up, broker 3 does
    not."""

    def cluster_info(self) -> ClusterInfo:
        brokers = {
            "broker-a": BrokerData(
                broker_addrs={broker_id if broker_id > 1 else 0: addr for broker_id, addr in SET_ADDRS.items()},
                broker_name="broker-a",
                cluster="C",
            ),
            "broker-b": BrokerData(broker_addrs={0: ADDRS["broker-b"]}, broker_name="broker-b", cluster="C"),
        }
        return ClusterInfo(broker_addr_table=brokers, cluster_addr_table={"C": list(brokers)})

    def _only_a(self, broker_addr: str) -> None:
        if broker_addr not in SET_ADDRS.values():
            raise ConnectError(f"cannot connect to {broker_addr}: Connection refused", address=broker_addr)

    def broker_config(self, broker_addr: str, *, with_own_defaults: bool = False) -> dict[str, str]:
        config = super().broker_config(broker_addr, with_own_defaults=with_own_defaults)
        return config | {"enableControllerMode": "true", "controllerAddr": ";".join(CONTROLLERS)}

    def broker_runtime_info(self, broker_addr: str) -> dict[str, str]:
        return super().broker_runtime_info(broker_addr) | {"masterLeaseLeftMs": "8300"}

    def controller_metadata(self, controller_addr: str) -> ControllerMetaAnswer:
        if controller_addr != CONTROLLERS[0]:
            raise ConnectError(f"cannot connect to {controller_addr}: Connection refused", address=controller_addr)
        return ControllerMetaAnswer(group="group1", controller_leader_address=controller_addr, is_leader=True)

    def replica_sets(self, controller_addr: str, broker_names: Sequence[str]) -> ReplicaSets:
        one, two, three = (
            ReplicaIdentity(alive=True, broker_address=addr, broker_id=broker_id, broker_name="broker-a")
            for broker_id, addr in SET_ADDRS.items()
        )
        known = ReplicaSet(
            in_sync_replicas=[one, two], not_in_sync_replicas=[three], master_address=one.broker_address,
            master_broker_id=1, master_epoch=4, sync_state_set_epoch=9,
        )  # fmt: skip
        return ReplicaSets(replicas_info_table={"broker-a": known})

    def ha_status(self, broker_addr: str) -> HaStatus:
        self._only_a(broker_addr)
        if broker_addr == SET_ADDRS[1]:
            return HaStatus(master=True, master_commit_log_max_offset=LOG_END, in_sync_slave_nums=1)
        behind = 4096 if broker_addr == SET_ADDRS[2] else 300 << 20
        client = HaClient(last_read_timestamp=NOW_MS - 40, max_offset=LOG_END - behind, master_addr=SET_ADDRS[1])
        return HaStatus(master=False, ha_client_runtime_info=client)

    def epoch_cache(self, broker_addr: str) -> EpochCache:
        return EpochCache(epoch_list=[EpochEntry(epoch=3, start_offset=0), EpochEntry(epoch=4, start_offset=1 << 30)])

    def view_message(self, broker_addr: str, log_offset: int, topic: str | None = None) -> StoredMessage:
        found = dead_letter(0)
        return msgspec.structs.replace(
            found, store_timestamp_ms=NOW_MS - (185_000 if log_offset < LOG_END - 4096 else 40)
        )
