"""A Spark session and a guarded broker that accepts only TLS. The driver and its workers sign every request, and the
key is written nowhere."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.servers import topic_config

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqclient.tls import TlsFiles
from rmqproto.bodies.acl import AclEntry, AclInfo, AclPolicy, UserAccount
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import RefusedError
from rmqproto.wire.credentials import Credentials
from rmqreplay.plans.plan import Transform
from rmqreplay.plans.request import ReplayRequest
from rmqreplay.run.entry import Runner
from rmqreplay.run.job import ReplayResult, RunOptions
from rmqreplay.source.live import ClusterAccess
from spark_tools.replay.entry import replay
from spark_tools.source_options import access_options
from tests.rmqreplay.replay_lab import wait_for_route
from tests.support import servers
from tests.support.auth_walk import ROOT
from tests.support.certificates import Authority
from tests.support.seen_processes import all_argv
from tests.support.servers import Server

pytestmark = pytest.mark.spark

JOB = Credentials("spark", "spark-Xk7/qP9z+key")
GROUP, TARGET, DEAD_COUNT = "GuardedGroup", "GuardedTarget", 20
CONFIG = f"""\
authenticationEnabled=true
authorizationEnabled=true
authorizationStrictEnabled=true
initAuthenticationUser={{"username":"{ROOT.access_key}","password":"{ROOT.secret_key}"}}
"""
RIGHTS = {f"Topic:%DLQ%{GROUP}": ["Sub", "Get"], f"Topic:{TARGET}": ["Pub", "Sub", "Get"], "Group:*": ["Sub", "Get"]}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def tls(authority: Authority) -> TlsFiles:
    return TlsFiles(ca=str(authority.cert))


@pytest.fixture(scope="module")
def guarded(authority: Authority, tls: TlsFiles, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A guarded server with dead letters, an empty topic, and a user that may only redrive the letters to that
    topic."""
    directory = tmp_path_factory.mktemp("guarded")
    signed = authority.sign("server")
    files = f"tls.server.certPath={signed.cert}\ntls.server.keyPath={signed.key}\n"
    (directory / "server.conf").write_text(f"{CONFIG}tls.server.mode=enforcing\n{files}")
    with servers.standalone(directory / "server", "--config", directory / "server.conf") as running:
        with AdminClient(running.namesrv_addr, ROOT, tls=tls.context()) as admin:
            addr = running.broker_addr
            dlq = f"%DLQ%{GROUP}"
            for topic in (dlq, TARGET):
                admin.create_topic(addr, topic_config(topic))
                wait_for_route(admin, topic)
            for number in range(DEAD_COUNT):
                message = Message(dlq, b"%d" % number, properties={"RETRY_TOPIC": "origin", "DELAY": "0"})
                admin.send_message(addr, MessageQueue(dlq, "broker-a", 0), message)
            admin.create_user(addr, UserAccount(username=JOB.access_key, password=JOB.secret_key))
            entries = [AclEntry(resource=name, actions=actions, decision="Allow") for name, actions in RIGHTS.items()]
            admin.create_acl(addr, AclInfo(subject=f"User:{JOB.access_key}", policies=[AclPolicy(entries=entries)]))
        yield running
        assert running.stop() == 0, running.log_tail()
    assert JOB.secret_key not in running.log_file.read_text()


def stored(server: Server, tls: TlsFiles) -> int:
    with AdminClient(server.namesrv_addr, ROOT, tls=tls.context()) as admin:
        return admin.max_offset(server.broker_addr, TARGET, 0)


def test_a_replay_signs_and_writes_no_key(spark, guarded: Server, tls: TlsFiles, tmp_path: Path, capfd) -> None:
    """Replays without a user and with a wrong key are refused before anything is sent."""
    for number, credentials in enumerate((None, Credentials(JOB.access_key, "guessed"))):
        with pytest.raises(RefusedError, match=r"username cannot be null|check signature failed"):
            redriven(spark, guarded, tls, tmp_path, f"refused-{number}", credentials)
    assert stored(guarded, tls) == 0
    with all_argv() as processes:
        done = redriven(spark, guarded, tls, tmp_path, "signed", JOB)
    assert (done.stored, done.audit.found, done.audit.missing, done.audit.doubled) == (DEAD_COUNT, DEAD_COUNT, 0, 0)
    assert stored(guarded, tls) == DEAD_COUNT
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.parent.name == "signed" and "plan" in path.name for path in written)
    for path in written:
        assert JOB.secret_key.encode() not in path.read_bytes(), path
    assert JOB.secret_key not in "".join(capfd.readouterr())
    assert any(b"pyspark" in argv for argv in processes), "the test looked at the list of processes"
    assert not [argv for argv in processes if JOB.secret_key.encode() in argv]


def redriven(
    spark, server: Server, tls: TlsFiles, ledger_root: Path, job: str, user: Credentials | None
) -> ReplayResult | None:
    request = ReplayRequest(
        name_server=server.namesrv_addr, dlq_group=GROUP, to=f"topic:{TARGET}", wave_messages=10, credentials=user,
        tls=tls,
        transform=Transform(set_properties={"status": "again"}),
    )  # fmt: skip
    runner = Runner(ledger_root=str(ledger_root), run=RunOptions(credentials=user, tls=tls))
    return replay(request, runner, execute=True, job=job, spark=spark).result


def test_the_format_reads_and_writes_with_a_key_that_no_plan_shows(
    spark, guarded: Server, tls: TlsFiles, capfd
) -> None:
    keys = {"nameServer": guarded.namesrv_addr, **access_options(ClusterAccess(credentials=JOB, tls=tls))}
    before = stored(guarded, tls)
    frame = spark.range(7).selectExpr("cast(id as string) as body")
    frame.write.format("rocketmq").options(**keys).option("topic", TARGET).mode("append").save()
    assert stored(guarded, tls) == before + 7
    read = spark.read.format("rocketmq").options(**keys).option("subscribe", TARGET).load()
    assert read.count() == before + 7
    read.explain("extended")
    stream = spark.readStream.format("rocketmq").options(**keys, subscribe=TARGET, startingOffsets="earliest").load()
    query = stream.writeStream.format("noop").trigger(availableNow=True).start()
    assert query.awaitTermination(200)
    assert sum(each.numInputRows for each in query.recentProgress) == before + 7
    query.explain(True)
    shown = "".join((*capfd.readouterr(), *(each.json for each in query.recentProgress)))
    assert "Plan" in shown
    assert JOB.secret_key not in shown
    unsigned = {"nameServer": guarded.namesrv_addr, "subscribe": TARGET, **access_options(ClusterAccess(tls=tls))}
    with pytest.raises(Exception, match=r"username cannot be null"):
        spark.read.format("rocketmq").options(**unsigned).load().count()
