"""A broker that advertises an address that only its own network has, and is reached through a map."""

import pytest

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.common_options import CommonOptions
from rmqadmin.tui.dashboard_client import DashboardClient
from rmqadmin.tui.settings import ClientMaker
from rmqclient.addresses import parse_address_map
from rmqproto.errors import UsageError
from rmqproto.hosts import split_address
from rmqreplay.sending.target import ReplayTarget, read_fences
from rmqreplay.source.live import ClusterAccess
from spark_tools.part_reader import read_any
from spark_tools.partitions import plan_read
from spark_tools.schema import columns
from spark_tools.source_options import access_options, parse_read_options
from tests.rmqadmin.conftest import Rmqadmin
from tests.rmqadmin.tui.opened import Driver, drive
from tests.support.servers import Server, of_module, until

FAR = "10.255.255.1"
MAP = f"{FAR}=127.0.0.1"


far = of_module("--advertise", FAR)


@pytest.fixture
def reach(run: Rmqadmin, far: Server, monkeypatch: pytest.MonkeyPatch) -> Rmqadmin:
    monkeypatch.setenv("NAMESRV_ADDR", far.namesrv_addr)
    monkeypatch.setenv("RMQADMIN_ADDRESS_MAP", MAP)
    until(lambda: bool(run("-o", "json", "clusterList").items))
    return run


def addr_of(reach: Rmqadmin) -> str:
    (row,) = reach("-o", "json", "clusterList").items
    return str(row["broker_addr"])


def test_commands_go_where_the_map_says_and_show_what_is_advertised(reach: Rmqadmin, far: Server) -> None:
    (row,) = reach("-o", "json", "clusterList").items
    assert split_address(row["broker_addr"])[0] == FAR
    assert row["version"], "only the broker itself knows it"
    for words in (
        ("updateTopic", "-b", row["broker_addr"], "-t", "Mapped", "-r", "1", "-w", "1", "--yes"),
        ("topicList",),
        ("sendMessage", "-t", "Mapped", "-p", "hello"),
        ("topicStatus", "-t", "Mapped"),
    ):
        reach(*words, status=0)
    found = {(each["check"], each["severity"]) for each in reach("-o", "json", "doctor", "--all").items}
    assert ("reachable", "ok") in found


def test_every_way_with_connections_of_its_own_follows_the_map(
    reach: Rmqadmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A load, and a redrive, whose sender and search connect for themselves."""
    addr = addr_of(reach)
    reach("-o", "json", "bench", "send", "MappedLoad", "--create", "--duration", "0.2", "--warm-up", "0", status=0)
    for topic in ("%DLQ%MappedGroup", "MappedOrigin"):
        reach("updateTopic", "-b", addr, "-t", topic, "-r", "1", "-w", "1", "-p", "6", "--yes", status=0)
    reach("msg", "send", "%DLQ%MappedGroup", "x", "--property", "RETRY_TOPIC=MappedOrigin", status=0)
    ran = reach("-o", "json", "dlq", "redrive", "MappedGroup", "--to", "same", "--execute", "--yes", status=0)
    assert ran.document["summary"]["audited"] == 1


def test_a_read_of_spark_follows_the_map(reach: Rmqadmin, far: Server) -> None:
    """Where the read is planned and, in each task, where it is done."""
    reach("updateTopic", "-b", addr_of(reach), "-t", "MappedRead", "-r", "1", "-w", "1", "--yes", status=0)
    reach("msg", "send", "MappedRead", "1", "2", "3", status=0)
    given = {"nameServer": far.namesrv_addr, "subscribe": "MappedRead"}
    options = parse_read_options({**given, **access_options(ClusterAccess(address_map=parse_address_map([MAP])))})
    (part,) = plan_read(options).parts
    names = [column.name for column in columns()]
    assert sum(batch.num_rows for batch in read_any(part, options, names)) == 3
    with pytest.raises(UsageError, match="option addressMap: 'x' maps no address"):
        parse_read_options({**given, "addressMap": "x"})


def test_the_search_of_a_replay_that_goes_on_follows_the_map(reach: Rmqadmin, far: Server) -> None:
    """It does not use the connections that sent."""
    reach("updateTopic", "-b", addr_of(reach), "-t", "MappedTarget", "-r", "1", "-w", "1", "--yes", status=0)
    access = ClusterAccess(address_map=parse_address_map([MAP]))
    with access.cluster(far.namesrv_addr) as cluster:
        fences = read_fences(cluster, ["MappedTarget"])
    target = ReplayTarget(far.namesrv_addr, fences, "job", access, keep_order=False, send_timeout_s=5.0)
    assert (len(fences), target.look()) == (1, set())
    target.close()


@pytest.mark.slow
def test_the_dashboard_follows_the_map(far: Server, bare_environment: None) -> None:
    call = Call("tui", CommonOptions(namesrv_addr=far.namesrv_addr, address_map=[MAP]))

    def make(*, read_only: bool) -> DashboardClient:
        return call.new_client(DashboardClient, read_only=read_only)

    maker: ClientMaker = make

    async def test(driver: Driver) -> None:
        await driver.until_shown("all is well: 1 broker")

    drive(maker, test)


def test_a_flag_comes_before_the_environment_and_that_before_the_context(
    run: Rmqadmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    def said(*words: str) -> tuple[str, str]:
        items = run("-o", "json", "config", "show", "--origin", *words).items
        (row,) = [each for each in items if each["setting"] == "address_map"]
        return row["value"], row["origin"]

    assert said() == (None, "default")
    assert run("context", "add", "live", "-n", "h:1", "--address-map", "a=b", "--address-map", "c=d:1").status == 0
    monkeypatch.setenv("RMQADMIN_CONTEXT", "live")
    assert said() == ("a=b,c=d:1", "context")
    monkeypatch.setenv("RMQADMIN_ADDRESS_MAP", "e=f, g=h")
    assert said() == ("e=f,g=h", "environment")
    assert said("--address-map", "i=j") == ("i=j", "flag")


def test_a_bad_map_is_refused_with_its_source(run: Rmqadmin, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = run("topicList", "-n", "h:1", "--address-map", "a")
    assert (ran.status, "--address-map: 'a' maps no address" in ran.err) == (2, True), ran.err
    ran = run("context", "add", "live", "-n", "h:1", "--address-map", "a=b:x")
    assert (ran.status, "live.toml:3: 'a=b:x' maps no address" in ran.err) == (2, True), ran.err
    monkeypatch.setenv("RMQADMIN_ADDRESS_MAP", "a=b,a=c")
    with pytest.raises(UsageError, match="RMQADMIN_ADDRESS_MAP: two rules"):
        CommonOptions().settings().address_map()


def test_the_same_program_started_again_has_the_map() -> None:
    call = Call("tui", CommonOptions(address_map=["a=b", "c=d"]))
    assert call.reach()[1]["RMQADMIN_ADDRESS_MAP"] == "a=b,c=d"
