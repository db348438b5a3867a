"""Brokers are told to clean up, to keep or read files another way, to start and to stop."""

from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import Annotated

from rmqadmin.cli.call import Call
from rmqadmin.cli.changing import change, line_each
from rmqadmin.cli.options.command_options import (
    A_BROKER,
    LONG,
    AllClusters,
    AnyCluster,
    BrokerAddr,
    ContainerAddr,
    Masters,
    Replicas,
)
from rmqadmin.cli.options.common_options import OptionGroup, Value, option
from rmqadmin.core import targets
from rmqadmin.core.changes import Changes, FieldChange, Step
from rmqadmin.core.servers.server_configs import replica_headings
from rmqproto.errors import UsageError
from rmqproto.hosts import split_address
from rmqproto.java.java_numbers import LONG_MAX, whole_number
from rmqproto.wording import counted


class CleanedBrokers(OptionGroup, frozen=True):
    """Without a broker or cluster, mqadmin means every cluster."""

    broker_addr: BrokerAddr = None
    cluster: AnyCluster = None
    all_clusters: AllClusters = False


def clean(call: Call, act: Callable[[str], None], where: CleanedBrokers, *, deletes: str | None = None) -> Changes:
    """Sends one request per broker. Asks first if it ``deletes`` something that cannot be made again. mqadmin reports
    only how the last broker went."""
    named = where.broker_addr or where.cluster
    is_all = where.all_clusters or (call.as_mqadmin and where.broker_addr is None and where.cluster is None)
    addrs = targets.everywhere(call.admin, where.broker_addr, where.cluster, all_clusters=is_all)
    if deletes is not None:
        call.confirm(f"This deletes {deletes} from {counted(len(addrs), 'broker')}.", (named or "all").strip())
    steps = [Step(addr, "clean", [], partial(act, addr)) for addr in addrs]
    return change(call, steps, lambda done: "success" if done[-1:] == addrs[-1:] != [] else "false")


def clean_expired_cq(call: Call, where: CleanedBrokers) -> Changes:
    """Brokers do this by themselves every ten seconds. Without -b and -c, mqadmin cleans up every cluster, and so does
    --output mqadmin.

      rmqadmin cleanExpiredCQ -b 127.0.0.1:10911
      rmqadmin cleanExpiredCQ -c DefaultCluster
      rmqadmin cleanExpiredCQ --all-clusters --dry-run
    """
    return clean(call, call.admin.clean_expired_consume_queues, where)


def clean_unused_topic(call: Call, where: CleanedBrokers) -> Changes:
    """Deletes the files of topics that are not in the broker's table; topics without messages stay. Without -b and -c,
    mqadmin cleans up every cluster, and so does --output mqadmin.

      rmqadmin cleanUnusedTopic -b 127.0.0.1:10911
      rmqadmin cleanUnusedTopic -c DefaultCluster
      rmqadmin cleanUnusedTopic --all-clusters --dry-run
    """
    return clean(call, call.admin.clean_unused_topics, where, deletes="the files of unknown topics")


def delete_expired_commit_log(call: Call, where: CleanedBrokers) -> Changes:
    """Deletes files older than the broker's fileReservedTime, with their messages. Brokers do this by themselves at the
    hour deleteWhen. Without -b and -c, mqadmin cleans up every cluster, and so does --output mqadmin.

      rmqadmin deleteExpiredCommitLog -b 127.0.0.1:10911
      rmqadmin deleteExpiredCommitLog -c DefaultCluster
      rmqadmin deleteExpiredCommitLog --all-clusters --dry-run
    """
    return clean(call, call.admin.delete_expired_commit_log, where, deletes="commit log files past their time")


class TimerEngine(StrEnum):
    FILES = "F"
    ROCKSDB = "R"


_NAMES = {TimerEngine.FILES: "FILE_TIME_WHEEL", TimerEngine.ROCKSDB: "ROCKSDB_TIMELINE"}


def switch_timer_engine(
    call: Call,
    engine_type: Annotated[
        TimerEngine,
        option("-e", "--engineType", "F: the wheel in files; R: RocksDB, where it is enabled.", case_sensitive=True),
    ],
    where: Masters,
) -> Changes:
    """Timers that are waiting stay where they are until they are due. Brokers before 5.5 do not know this request.

    rmqadmin switchTimerEngine -b 127.0.0.1:10911 -e F
    rmqadmin switchTimerEngine -c DefaultCluster -e F --dry-run
    """
    changes = [FieldChange("timer_engine", None, _NAMES[engine_type])]  # no request tells the present one
    act = call.admin.switch_timer_engine
    steps = [Step(addr, "change", changes, partial(act, addr, engine_type)) for addr in where.addrs(call.admin)]
    return change(call, steps, line_each(f"switchTimerEngine to {_NAMES[engine_type]} success, {{}}\n"))


class ReadMode(StrEnum):
    NORMAL = "0"
    RANDOM = "1"


def set_commit_log_read_ahead_mode(
    call: Call,
    mode: Annotated[
        ReadMode, option("-m", "--commitLogReadAheadMode", "0: read ahead; 1: random access, no read-ahead.")
    ],
    where: Replicas,
) -> Changes:
    """Mode 1 spares a broker useless reads if its consumers are far behind.

    rmqadmin setCommitLogReadAheadMode -b 127.0.0.1:10911 -m 0
    rmqadmin setCommitLogReadAheadMode -c DefaultCluster -m 1 --dry-run
    """
    headings = dict(replica_headings(call.admin, where.broker_addr, where.cluster_name))
    said: dict[str, str] = {}

    def step(addr: str) -> Step:
        def act() -> None:
            said[addr] = call.admin.set_read_mode(addr, mode)

        return Step(addr, "change", [FieldChange("read_ahead_mode", None, mode.value)], act)

    line = " {}commitLog set readAhead mode rstStr{}\n"
    return change(
        call, list(map(step, headings)), lambda done: "".join(line.format(headings[addr], said[addr]) for addr in done)
    )


def reset_master_flush_offset(
    call: Call,
    broker_addr: Annotated[str, A_BROKER, Value.BROKER_ADDR, option("-b", "--brokerAddr", "The slave's address.")],
    offset: Annotated[int, LONG, option("-o", "--offset", "Commit log offset.", min=0)],
) -> Changes:
    """Helps a slave that waits for an offset which its master has lost. A master answers with success but ignores it.

    rmqadmin resetMasterFlushOffset -b 127.0.0.1:10911 -o 0
    rmqadmin resetMasterFlushOffset -b 127.0.0.1:10911 -o 0 --dry-run
    """
    addr, admin = broker_addr.strip(), call.admin
    split_address(addr)
    before = admin.ha_status(addr).ha_client_runtime_info.master_flush_offset
    changes = [FieldChange("master_flush_offset", before, offset)] if before != offset else []
    step = Step(addr, "change" if changes else "keep", changes, partial(admin.reset_master_flush_offset, addr, offset))
    return change(call, [step], lambda _done: f"reset master flush offset to {offset} success\n")


def add_broker(
    call: Call,
    container_addr: ContainerAddr,
    config_path: Annotated[
        str, Value.FILE, option("-b", "--brokerConfigPath", "Its configuration, on the container's machine.")
    ],
) -> Changes:
    """Containers are Apache's processes that hold several brokers. Waits up to 20 s for the broker to start.

    rmqadmin addBroker -c 127.0.0.1:10811 -b /etc/rocketmq/broker-b.conf --dry-run
    rmqadmin addBroker -c 127.0.0.1:10811 -b /etc/rocketmq/broker-b.conf
    """
    addr, path = container_addr.strip(), config_path.strip()
    split_address(addr)
    step = Step(addr, "create", [FieldChange("broker", None, path)], partial(call.admin.add_broker, addr, path))
    return change(call, [step], line_each("add broker to {} success\n"))


def remove_broker(
    call: Call,
    container_addr: ContainerAddr,
    broker_identity: Annotated[
        str, Value.NAME, option("-b", "--brokerIdentity", "The broker to stop.", metavar="CLUSTER:NAME:ID")
    ],
) -> Changes:
    """The broker's files stay. Waits up to 20 s for the broker to stop.

    rmqadmin removeBroker -c 127.0.0.1:10811 -b DefaultCluster:broker-b:0 --dry-run
    rmqadmin removeBroker -c 127.0.0.1:10811 -b DefaultCluster:broker-b:0 --yes
    """
    addr = container_addr.strip()
    split_address(addr)
    parts = [part.strip() for part in broker_identity.split(":")]
    broker_id = whole_number(parts[-1], LONG_MAX)
    if len(parts) != 3 or broker_id is None:
        raise UsageError(
            f"{broker_identity!r} does not name a broker", hint="Write CLUSTER:NAME:ID, with 0 for a master."
        )
    cluster, name, _ = parts
    call.confirm(f"This stops the broker {name} ({broker_id}) of the container {addr}.", name)
    changes = [FieldChange("broker", broker_identity.strip(), None)]
    step = Step(addr, "delete", changes, lambda: call.admin.remove_broker(addr, cluster, name, broker_id))
    return change(call, [step], line_each("remove broker from {} success\n"))
