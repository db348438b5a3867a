"""What a command line leaves to the program: a broker by its name, an address without its port, the only cluster; and
what is said of an address that belongs to another kind of server."""

import itertools
from pathlib import Path

import pytest

from rmqadmin.cli.parsing.command_building import build_command
from rmqadmin.cli.registry import ENTRIES, find
from rmqadmin.core.contexts.context import addresses_of
from rmqadmin.core.servers.meant_brokers import broker_addr_of, broker_name_of
from rmqclient.addresses import parse_addresses, parse_namesrvs
from rmqclient.admin import AdminClient
from rmqproto.bodies.routes import BrokerData, ClusterInfo
from rmqproto.errors import ConnectError, NotFoundError, UsageError
from rmqproto.hosts import BROKER_PORT, with_port
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command
from tests.rmqadmin.conftest import Rmqadmin
from tests.support.quick import in_one_test
from tests.support.replayed import Replayed
from tests.support.servers import Fresh, Server


@in_one_test(
    ("10.0.0.1", "10.0.0.1:9876"),
    ("10.0.0.1:7", "10.0.0.1:7"),
    ("host", "host:9876"),
    ("name.server.example", "name.server.example:9876"),
    ("[::1]", "[::1]:9876"),
    ("[::1]:7", "[::1]:7"),
    ("::1", "[::1]:9876"),
    ("fe80::1:9876", "fe80::1:9876"),
    ("http://10.0.0.1", "10.0.0.1:9876"),
)
def test_a_name_server_without_a_port_has_apaches(text: str, addr: str) -> None:
    assert parse_namesrvs(f"{text};other") == [addr, "other:9876"]
    assert with_port("10.0.0.1", BROKER_PORT) == "10.0.0.1:10911"


@in_one_test("10.0.0.1:", "a b", "a/b", ":9876", "10.0.0.1:99999", "10.0.0.1:x", ";")
def test_what_is_no_address_stays_an_error(text: str) -> None:
    with pytest.raises(UsageError):
        parse_namesrvs(text)
    with pytest.raises(UsageError):
        parse_addresses("10.0.0.1")  # controllers have no port of their own


def test_every_place_that_names_name_servers_takes_one_without_a_port(
    run: Rmqadmin, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """-n, both variables, contexts and the settings file."""
    assert "127.0.0.2:9876" in run("topicList", "-n", "127.0.0.2").err
    for variable in ("RMQADMIN_NAMESRV", "NAMESRV_ADDR"):
        monkeypatch.setenv(variable, "127.0.0.2")
        assert "127.0.0.2:9876" in run("topicList").err
        monkeypatch.delenv(variable)
    assert run("context", "add", "live", "-n", "127.0.0.2", "--read-only").status == 0
    assert "127.0.0.2:9876" in run("topicList", "--context", "live").err
    assert addresses_of("127.0.0.2") == addresses_of("http://127.0.0.2:9876"), "the context guards it in both forms"
    (tmp_path / "config" / "rmqadmin" / "config.toml").write_text('namesrv_addr = "127.0.0.3"\n')
    assert "127.0.0.3:9876" in run("topicList").err


BROKERS = {
    "broker-a": BrokerData(
        broker_name="broker-a", cluster="C", broker_addrs={0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}
    ),
    "node1.example": BrokerData(broker_name="node1.example", cluster="C", broker_addrs={0: "10.0.0.3:10911"}),
    "broker-b": BrokerData(broker_name="broker-b", cluster="C", broker_addrs={1: "10.0.0.4:10911"}),
}


def _answer(request: Command) -> Command | None:
    info = ClusterInfo(broker_addr_table=BROKERS, cluster_addr_table={"C": [*BROKERS]})
    return Command(code=0, body=fastjson.dumps(info)) if request.code == 106 else None


@in_one_test(
    ("broker-a", "10.0.0.1:10911"),
    (" broker-a ", "10.0.0.1:10911"),
    ("broker-a/1", "10.0.0.2:10911"),
    ("broker-b/1", "10.0.0.4:10911"),
    ("node1.example", "10.0.0.3:10911"),
    ("node2.example", "node2.example:10911"),
    ("localhost", "localhost:10911"),
    ("10.0.0.9", "10.0.0.9:10911"),
    ("[::1]", "[::1]:10911"),
    ("10.0.0.9:1", "10.0.0.9:1"),
)
def test_a_broker_is_meant_by_its_name_or_by_its_host(text: str, addr: str) -> None:
    with Replayed(answers=[_answer]) as namesrv, AdminClient(namesrv.address) as admin:
        assert broker_addr_of(admin, text) == addr


def test_a_broker_that_nobody_can_mean_is_an_error() -> None:
    with Replayed(answers=[_answer]) as namesrv, AdminClient(namesrv.address) as admin:
        for text, hint in (
            ("brokr-a", "Did you mean broker-a?"),
            ("xyz", "The name server knows: broker-a"),
            ("broker-a/7", ""),
        ):
            with pytest.raises(NotFoundError, match=f"there is no broker {text}") as raised:
                broker_addr_of(admin, text)
            assert hint in (raised.value.hint or "")
        with pytest.raises(NotFoundError, match="broker-b has no master now") as raised:
            broker_addr_of(admin, "broker-b")
        assert "broker-b/1" in (raised.value.hint or "")
        assert broker_name_of(admin, "10.0.0.2:10911") == "broker-a"
        assert broker_name_of(admin, "10.0.0.3") == "node1.example"
        assert broker_name_of(admin, "10.0.0.99:10911") == "10.0.0.99:10911"


def test_without_a_name_server_only_a_host_can_be_meant() -> None:
    with AdminClient("127.0.0.1:1") as admin:
        assert broker_addr_of(admin, "node1.example") == "node1.example:10911"
        with pytest.raises(ConnectError):
            broker_addr_of(admin, "broker-a")


def test_commands_take_a_broker_by_name_where_they_need_its_address(rmqadmin: Rmqadmin, server: Server) -> None:
    for words in (
        ("brokerStatus", "-b", "broker-a"),
        ("getBrokerConfig", "-b", "broker-a/0"),
        ("producer", "-b", "broker-a"),
        ("brokerConsumeStats", "-b", "broker-a"),
        ("user", "ls", "-b", "broker-a"),
        ("export", "topics", "-b", "broker-a"),
        ("updateTopic", "-b", "broker-a", "-t", "ByName", "--dry-run"),
    ):
        ran = rmqadmin(*words, status=0)
    ran = rmqadmin("-o", "json", "wipeWritePerm", "-b", server.broker_addr, "--dry-run")
    assert [row["broker_name"] for row in ran.items] == ["broker-a"], "and the other way round"


def test_every_option_for_an_address_takes_a_name() -> None:
    """By its place in the help: no command has one of its own."""
    for entry in ENTRIES:
        for param in build_command(entry).params:
            if param.param_type_name == "option" and param.metavar in ("HOST:PORT", "BROKER"):
                names = {"--brokerContainerAddr", "--target-name-server"}
                assert param.opts[-1] in names or _is_marked(entry.name, str(param.name)), (entry.name, param.opts)


def _is_marked(command: str, name: str) -> bool:
    from rmqadmin.cli.options.command_options import A_BROKER, A_BROKER_NAME, group_of, parameters_of
    from rmqadmin.cli.parsing.command_building import declared_parameters

    entry = find(command)
    assert entry is not None
    declared = declared_parameters(entry.load())
    groups = [parameters_of(group) for each in declared if (group := group_of(each)) is not None]
    found = {each.name: str(each.annotation) for each in (*declared, *itertools.chain(*groups))}
    return any(mark in found.get(name, "") for mark in (A_BROKER, A_BROKER_NAME))


def test_options_of_a_group_are_read_as_any_others(run: Rmqadmin) -> None:
    """A name there kept its blanks, and a list of names was taken for one."""
    assert run("context", "add", "blanks", "-n", " 127.0.0.1:1 ", "--cluster", " C1 ").status == 0
    shown = run("context", "show", "blanks", "-o", "json").out
    assert ('"C1"' in shown, " C1" in shown) == (True, False)
    ran = run("spark-replay", "--dlq", "a,b", "--to", "same")
    assert (ran.status, "takes one group" in ran.err) == (2, True)


def test_the_only_cluster_needs_no_name(rmqadmin: Rmqadmin, fresh: Fresh, tmp_path: Path) -> None:
    topic, group = fresh("OnlyTopic"), fresh("OnlyGroup")
    wanted = tmp_path / "wanted.yaml"
    wanted.write_text(f"topics: {{{topic}: {{perm: RW}}}}")
    for words in (
        ("updateTopic", "-t", topic, "-r", "2", "-w", "2"),
        ("updateSubGroup", "-g", group),
        ("updateTopicPerm", "-t", topic, "-p", "6"),
        ("diff", "-f", str(wanted)),
        ("apply", "-f", str(wanted)),
        ("export", "topics"),
        ("export", "groups"),
        ("brokerStatus",),
        ("getBrokerConfig",),
        ("haStatus",),
        ("listUser",),
        ("exportMetadata",),
        ("exportConfigs",),
        ("deleteSubGroup", "-g", group),
        ("deleteTopic", "-t", topic),
    ):
        rmqadmin(*words, status=0)


def test_of_several_clusters_or_none_the_error_names_them(run: Rmqadmin) -> None:
    def answer(request: Command) -> Command | None:
        info = ClusterInfo(broker_addr_table=BROKERS, cluster_addr_table={"C": ["broker-a"], "D": ["broker-b"]})
        return Command(code=0, body=fastjson.dumps(info)) if request.code == 106 else None

    with Replayed(answers=[answer]) as namesrv:
        for words, missing in (
            (("updateTopic", "-t", "T"), "-b or -c"),
            (("deleteTopic", "-t", "T"), "-c"),
            (("server", "reset"), "-b or -c"),
            (("getBrokerEpoch",), "-b or -c"),
        ):
            ran = run(*words, "-n", namesrv.address)
            assert (ran.status, f"Missing required option: {missing}\n" in ran.err) == (2, True), ran.err
        assert "The name server knows the clusters C, D." in run("updateTopic", "-t", "T", "-n", namesrv.address).err


@pytest.mark.parametrize(
    "words",
    [
        ("server", "reset"), ("fault", "ls"), ("fault", "clear"), ("fault", "set", "*:drop"),
        ("snapshot", "ls"), ("snapshot", "save", "s"), ("snapshot", "restore", "s"),
    ],
)  # fmt: skip
def test_of_several_brokers_the_error_says_how_each_is_named(run: Rmqadmin, words: tuple[str, ...]) -> None:
    """The only cluster is not enough here: it would reset all of its brokers. Only addresses were told."""
    with Replayed(answers=[_answer]) as namesrv:
        ran = run(*words, "-n", namesrv.address)
        assert (ran.status, "Missing required option: -b or -c" in ran.err) == (2, True)
        said = "There are 3 brokers: add -b broker-a, -b broker-b or -b node1.example; -c C means every master."
        assert said in ran.err


def test_a_server_of_another_kind_is_named(rmqadmin: Rmqadmin, server: Server) -> None:
    broker, namesrv = server.broker_addr, server.namesrv_addr
    for words in (("topicList",), ("clusterList",), ("topicStatus", "-t", "T"), ("updateTopic", "-t", "T")):
        said = rmqadmin(*words, "-n", broker).err
        assert f"{broker} is the broker broker-a, and no name server" in said, (words, said)
    for words in (("updateTopic", "-t", "T"), ("brokerStatus",), ("producer",)):
        said = rmqadmin(*words, "-b", namesrv).err
        assert f"{namesrv} is a name server, and no broker; its brokers are broker-a" in said, (words, said)
    assert f"{broker} is the broker broker-a" in rmqadmin("doctor", "--quick", "-n", broker).out


def test_the_name_servers_of_a_broker_are_said(run: Rmqadmin) -> None:
    def answer(request: Command) -> Command | None:
        text = b"brokerName=broker-z\nnamesrvAddr=10.0.0.1:9876;10.0.0.2:9876\n"
        return Command(code=0, body=text) if request.code == 26 else None

    with Replayed(answers=[answer]) as broker:
        said = run("topicList", "-n", broker.address).err
    assert "is the broker broker-z, and no name server; its name servers are 10.0.0.1:9876;10.0.0.2:9876" in said
