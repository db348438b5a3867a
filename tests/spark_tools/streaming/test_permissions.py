"""The table of permissions in docs/spark-streams.md: they are enough, and each is needed."""

from collections.abc import Callable, Iterator

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa

from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.acl import AclEntry, AclInfo, AclPolicy, UserAccount
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.errors import RefusedError
from rmqproto.wire.credentials import Credentials
from rmqreplay.sending.delivery import DeliveryError
from rmqreplay.source.live import ClusterAccess, LiveCluster
from rmqreplay.source.pulling import PullRules
from spark_tools.part_reader import read_any
from spark_tools.partitions import cluster_of, plan_live
from spark_tools.source_options import parse_read_options, parse_stream_options, parse_write_options
from spark_tools.streaming.offsets import ranges_between
from spark_tools.streaming.planner import StreamPlanner
from spark_tools.streaming.progress import GroupCommits
from spark_tools.streaming.survey import QueueSurvey
from spark_tools.tables.found_messages import live_halves, live_timers
from spark_tools.tables.positions import Values, live_offsets, live_queues
from spark_tools.writing.plan import make_plan
from spark_tools.writing.tasks import write_at_least_once
from tests.support import servers
from tests.support.auth_walk import ROOT
from tests.support.servers import Server, topic_config, until

QUEUE = MessageQueue("Orders", "broker-a", 0)
CONFIG = f"""\
authenticationEnabled=true
authorizationEnabled=true
authorizationStrictEnabled=true
initAuthenticationUser={{"username":"{ROOT.access_key}","password":"{ROOT.secret_key}"}}
"""
RIGHTS = {"Topic:Orders": ["Get", "Sub"], "Group:spark-reader": ["Sub"], "Group:spark-job": ["Sub"]}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("guarded")
    (directory / "server.conf").write_text(CONFIG)
    with servers.standalone(directory / "server", "--config", directory / "server.conf") as running:
        with AdminClient(running.namesrv_addr, ROOT) as admin:
            addr = running.broker_addr
            admin.create_topic(addr, topic_config(QUEUE.topic))
            for group in ("spark-reader", "spark-job"):
                admin.create_group(addr, SubscriptionGroupConfig(group_name=group))
            admin.send_message(addr, QUEUE, Message(QUEUE.topic, b"1"))
            admin.update_consumer_offset(addr, "spark-job", QUEUE.topic, 0, 0)
            until(lambda: QUEUE.topic in admin.topic_list())
        yield running


def user(server: Server, name: str, rights: dict[str, list[str]]) -> Credentials:
    made = Credentials(name, f"{name}-secret")
    with AdminClient(server.namesrv_addr, ROOT) as admin:
        admin.create_user(server.broker_addr, UserAccount(username=name, password=made.secret_key))
        entries = [AclEntry(resource=each, actions=actions, decision="Allow") for each, actions in rights.items()]
        admin.create_acl(server.broker_addr, AclInfo(subject=f"User:{name}", policies=[AclPolicy(entries=entries)]))
    return made


def run_stream(server: Server, credentials: Credentials) -> int:
    """The steps of a stream; how many rows it read."""
    options = parse_stream_options({
        "nameServer": server.namesrv_addr, "subscribe": QUEUE.topic, "startingOffsets": "group:spark-job",
        "maxBytesPerTrigger": "1m", "readerGroup": "spark-reader", "commitGroup": "spark-job",
        "accessKey": credentials.access_key, "secretKey": credentials.secret_key,
    })  # fmt: skip
    with cluster_of(options.read) as cluster:
        plan = StreamPlanner(QueueSurvey(cluster, options.read), options.limits, fail_on_data_loss=True)
        start = plan.initial()
        end = plan.next(start, limited=True)
        count = sum(
            batch.num_rows
            for each in ranges_between(start, end)
            for batch in read_any(each, options.read, ["topic", "body"])
        )
        GroupCommits(cluster, "spark-job").write(start.queues)
    return count


def test_the_rights_of_the_table_are_enough(guarded: Server) -> None:
    assert run_stream(guarded, user(guarded, "enough", RIGHTS)) == 1


@pytest.mark.parametrize("missing", RIGHTS)
def test_each_of_them_is_needed(guarded: Server, missing: str) -> None:
    rights = {name: actions for name, actions in RIGHTS.items() if name != missing}
    with pytest.raises(RefusedError, match=missing.partition(":")[2]):
        run_stream(guarded, user(guarded, "without-" + missing.replace(":", "-"), rights))


def test_what_tasks_would_be_refused_is_told_before_they_start(guarded: Server) -> None:
    """Spark starts a task four times."""
    reader = user(guarded, "no-group", {"Topic:Orders": ["Get", "Sub", "Pub"], "Cluster:*": ["Get"]})
    with ClusterAccess(credentials=reader).cluster(guarded.namesrv_addr) as cluster:
        options = parse_read_options({"nameServer": guarded.namesrv_addr, "subscribe": QUEUE.topic})
        survey = QueueSurvey(cluster, options)
        for ask in (
            lambda: plan_live(cluster, options),
            lambda: survey.look(None),
            lambda: make_plan(cluster, QUEUE.topic),
        ):
            with pytest.raises(RefusedError, match="permission to access Group:TOOLS_CONSUMER") as told:
                ask()
            assert "a group TOOLS_CONSUMER that may consume, and under ACL Sub on both" in str(told.value.hint)


def test_a_refused_commit_says_what_it_needs(guarded: Server) -> None:
    reader = user(guarded, "no-commit", {"Topic:Orders": ["Get", "Sub"]})
    with (
        ClusterAccess(credentials=reader).cluster(guarded.namesrv_addr) as cluster,
        pytest.raises(RefusedError, match="permission to access Group:spark-job") as told,
    ):
        GroupCommits(cluster, "spark-job").write({QUEUE: 0})
    assert told.value.hint == "commitGroup needs Sub on the topic Orders and on the group spark-job"


TABLES: dict[str, tuple[Callable[[LiveCluster], Iterator[Values]], dict[str, list[str]]]] = {
    "queues": (lambda cluster: live_queues(cluster, [QUEUE.topic]), {"Topic:Orders": ["Get"]}),
    "offsets": (lambda cluster: live_offsets(cluster, None), {"Cluster:*": ["Get"], "Group:spark-job": ["Get"]}),
    "halves": (
        lambda cluster: live_halves(cluster, PullRules()),
        {
            "Topic:RMQ_SYS_TRANS_HALF_TOPIC": ["Get"], "Topic:RMQ_SYS_TRANS_OP_HALF_TOPIC": ["Get"],
            "Group:CID_RMQ_SYS_TRANS": ["Get"],
        },
    ),
    "timers": (lambda cluster: live_timers(cluster, PullRules()), {"Topic:rmq_sys_wheel_timer": ["Get"]}),
}  # fmt: skip
"""What the manual says that each needs, besides the rights of a read."""


@pytest.mark.parametrize("table", TABLES)
def test_tables_need_rights_of_their_own(guarded: Server, table: str) -> None:
    rows, rights = TABLES[table]
    for missing in (None, *rights):
        kept = {name: actions for name, actions in {**rights, "Topic:Other": ["Get"]}.items() if name != missing}
        reader = user(guarded, f"{table}-{len(kept)}-{(missing or '').replace(':', '-').strip('*')}", kept)
        with ClusterAccess(credentials=reader).cluster(guarded.namesrv_addr) as cluster:
            if missing is None:
                list(rows(cluster))
                continue
            with pytest.raises(RefusedError, match="has no permission to access"):
                list(rows(cluster))


def test_rows_of_a_topic_that_the_user_may_not_write_are_rejected(guarded: Server) -> None:
    """It was an error in the middle of a task, which Spark repeats: the rows of other topics were stored four times."""
    with AdminClient(guarded.namesrv_addr, ROOT) as admin:
        admin.create_topic(guarded.broker_addr, topic_config("Closed"))
        until(lambda: "Closed" in admin.topic_list())
        before = admin.max_offset(guarded.broker_addr, QUEUE.topic, 0)
        writer = user(guarded, "writer", {"Topic:Orders": ["Pub", "Get"], "Topic:Closed": ["Get"]})
        given = {
            "nameServer": guarded.namesrv_addr, "accessKey": writer.access_key, "secretKey": writer.secret_key,
            "batchSize": "10",
        }  # fmt: skip
        topics = ["Closed" if number % 40 < 20 else QUEUE.topic for number in range(80)]
        batch = pa.RecordBatch.from_pydict({"topic": topics, "body": [b"%d" % number for number in range(80)]})
        options = parse_write_options(given)
        with ClusterAccess(credentials=writer).cluster(guarded.namesrv_addr) as cluster:
            sent = write_at_least_once(options, cluster, 0, iter([batch]))
            assert (sent.stored, len(sent.rejects.rows)) == (40, 40)
            assert {(row.topic, row.code) for row in sent.rejects.rows} == {("Closed", 16)}
            closed = parse_write_options(given | {"topic": "Closed"})
            with pytest.raises(DeliveryError, match="takes nothing for Closed"):  # no other rows are at stake
                write_at_least_once(closed, cluster, 0, iter([batch.select(["body"])]))
        assert admin.max_offset(guarded.broker_addr, QUEUE.topic, 0) == before + 40
