import dataclasses
from pathlib import Path
from typing import Any

import pytest

from rmqproto.errors import UsageError
from rmqserver.command_line import STANDALONE_DEFAULTS, Options, ServerPlan, plan
from rmqserver.process.local_set import plan_local_set
from rmqserver.store.options import FlushMode
from tests.support.quick import in_one_test


def standalone(**more: object) -> ServerPlan:
    return plan(Options(has_namesrv=True, has_broker=True, **more))  # type: ignore[arg-type]


def test_defaults() -> None:
    made = standalone()
    assert (made.listen, made.broker.listen_port, made.namesrv.listen_port) == ("127.0.0.1", 10911, 9876)
    names = (made.broker.broker_cluster_name, made.broker.broker_name, made.broker.broker_id)
    assert names == ("DefaultCluster", "broker-a", 0)
    assert made.broker.flush_mode is FlushMode.ASYNC
    assert (made.store_dir, made.kv_path, made.advertise) == (None, None, None)


def test_a_flag_wins_over_set_and_that_over_the_file(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("listenPort=1\nbrokerName=of-file\nbrokerClusterName=of-file\nflushDiskType=SYNC_FLUSH\n")
    made = standalone(config=str(conf), settings=("listenPort=2", "brokerName=of-set"), port=3)
    assert made.broker.listen_port == 3
    assert made.broker.broker_name == "of-set"
    assert made.broker.broker_cluster_name == "of-file"
    assert made.broker.flush_mode is FlushMode.SYNC


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("flushDiskTyp", "flushDiskType"),
        ("BrokerName", "brokerName"),
        ("tls.server.mod", "tls.server.mode"),
        ("transactionTimeout", "transactionTimeOut"),
        ("transactionMsgTimeout", "transactionTimeOut"),
    ],
)
@pytest.mark.parametrize("kind", ["standalone", "namesrv", "broker", "controller"])
def test_a_setting_that_no_server_has_is_refused_with_the_nearest(key: str, near: str, kind: str) -> None:
    """It was a warning among many lines, and the server ran without what was meant."""
    options = Options(
        has_namesrv=kind in ("standalone", "namesrv"),
        has_broker=kind in ("standalone", "broker"),
        has_controller=kind == "controller",
        namesrv="h:1" if kind == "broker" else None,
        data="d" if kind == "controller" else None,
        settings=(f"{key}=x",),
    )
    with pytest.raises(UsageError, match=f"--set {key}: no server has such a setting") as told:
        plan(options)
    assert told.value.hint == f"Did you mean {near}? --allow-unknown starts all the same."
    plan(dataclasses.replace(options, allow_unknown=True))


def test_in_a_file_an_unknown_setting_stays_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("flushDiskTyp=SYNC_FLUSH\n")
    standalone(config=str(conf))
    assert "event=unknown-setting key=flushDiskTyp near=flushDiskType" in caplog.text


def test_a_setting_that_only_another_server_has_is_no_error() -> None:
    plan(Options(has_namesrv=True, has_broker=False, settings=("brokerName=b",)))


def test_a_standalone_serves_people_who_develop_and_others_have_apaches_defaults(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerName=b\n")

    def served(made: ServerPlan) -> tuple[bool, bool]:
        return made.broker.enable_property_filter, made.broker.recall_message_enable

    assert served(standalone()) == (True, True)
    assert served(standalone(settings=("enablePropertyFilter=false",))) == (False, True)
    assert served(standalone(config=str(conf))) == (False, False)
    assert served(plan(Options(has_namesrv=False, has_broker=True, namesrv="h:1"))) == (False, False)
    made, replicas = plan_local_set(Options(has_namesrv=True, has_broker=True, replicas=3))
    assert made.broker is None
    assert {f"--set={key}={value}" for key, value in STANDALONE_DEFAULTS.items()} <= {*replicas.arguments}


CONF = (
    "brokerClusterName = C \nbrokerName=broker-z\t \nbrokerIP1=10.0.0.1  \nbindAddress=127.0.0.1\t\n"
    "storePathRootDir={} \n"
)


@pytest.mark.parametrize(
    "data",
    [
        CONF.encode(),
        CONF.replace("\n", "\r\n").encode(),
        b"\xef\xbb\xbf" + CONF.encode(),
        ("# 集群\n" + CONF + "# 存储路径\n").encode("gbk"),
        b"\xef\xbb\xbf# \xe9\x9b\x86\n" + CONF.replace("brokerName=broker-z", "brokerName : broker\\\n   -z").encode(),
    ],
    ids=["blanks", "crlf", "mark", "gbk", "java"],
)  # fmt: skip
def test_a_file_is_read_as_java_reads_it(tmp_path: Path, data: bytes) -> None:
    """brokerIP1, bindAddress and storePathRootDir were read before the blanks behind them were taken off: a traceback,
    or a store in a directory whose name ends in a blank."""
    store = str(tmp_path / "store")
    conf = tmp_path / "broker.conf"
    conf.write_bytes(data.replace(b"{}", store.encode()))
    made = standalone(config=str(conf))
    assert (made.broker.broker_cluster_name, made.broker.broker_name[:7]) == ("C", "broker-")
    assert (made.listen, made.advertise, made.store_dir) == ("127.0.0.1", ("10.0.0.1", None), store)


def test_a_file_in_utf_16_or_of_zeros_is_refused(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_bytes("brokerName=b\n".encode("utf-16"))
    with pytest.raises(UsageError, match="looks like UTF-16: save it as UTF-8"):
        standalone(config=str(conf))
    conf.write_bytes(bytes(20))
    with pytest.raises(UsageError, match="nothing but zeros"):
        standalone(config=str(conf))


@pytest.mark.parametrize("key", ["brokerName", "brokerClusterName", "brokerIP1", "listenPort", "messageDelayLevel"])
def test_a_setting_without_a_value_is_refused(key: str) -> None:
    for value in ("", " "):
        with pytest.raises(UsageError, match=f"{key}= has no value") as told:
            standalone(settings=(f"{key}={value}",))
        assert told.value.hint.startswith("leave it out for the default, ")


@pytest.mark.parametrize(
    "key",
    ["storePathRootDir", "storePathCommitLog", "bindAddress", "authenticationEnabled", "aclEnable",
     "initAuthenticationUser", "tls.server.certPath", "tls.server.mode", "tls.config.file"],
)  # fmt: skip
def test_a_path_or_a_guard_without_a_value_is_refused(key: str, tmp_path: Path) -> None:
    """``storePathRootDir=`` served a temporary store, and ``authenticationEnabled=`` whoever came."""
    conf = tmp_path / "broker.conf"
    conf.write_text(f"{key}=\n")
    for made in (lambda: standalone(settings=(f"{key}= ",)), lambda: standalone(config=str(conf))):
        with pytest.raises(UsageError, match=f"{key}= has no value"):
            made()


def test_a_file_that_holds_nothing_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    conf = tmp_path / "broker.conf"
    for text in ("", "\n# brokerName=b\n"):
        caplog.clear()
        conf.write_text(text)
        standalone(config=str(conf))
        assert f"event=config-empty file={conf}" in caplog.text


def test_a_path_below_a_directory_that_is_gone_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for options in (
        Options(has_namesrv=True, has_broker=True, data="store"),
        Options(has_namesrv=False, has_broker=False, has_controller=True, data="store"),
    ):
        with pytest.raises(UsageError, match="store is a path below the current directory, and there is none"):
            plan(options)


@pytest.mark.parametrize("namesrv", [";", "", " ; ;", ";;"])
def test_nameservers_that_name_none_are_refused(namesrv: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker registered nowhere, without a word."""
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    with pytest.raises(UsageError, match="a broker needs a nameserver"):
        plan(Options(has_namesrv=False, has_broker=True, namesrv=namesrv))


@in_one_test(
    ({}, FlushMode.ASYNC),
    ({"data": "d"}, FlushMode.SYNC),
    ({"settings": ("storePathRootDir=d",)}, FlushMode.SYNC),
    ({"data": "d", "settings": ("flushDiskType=ASYNC_FLUSH",)}, FlushMode.ASYNC),
    ({"data": "d", "flush": "async"}, FlushMode.ASYNC),
    ({"flush": "sync", "settings": ("flushDiskType=ASYNC_FLUSH",)}, FlushMode.SYNC),
)
def test_who_keeps_a_store_wants_it_flushed(more: dict[str, object], mode: FlushMode) -> None:
    made = standalone(**more)
    assert made.broker.flush_mode is mode


def test_the_store_is_where_apaches_keys_say(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    made = standalone(settings=(f"storePathRootDir={store}", f"storePathCommitLog={store}/commitlog"))
    assert made.store_dir == store
    assert made.kv_path == f"{store}/namesrv/kvConfig.json"
    assert f"storePathCommitLog={store}/commitlog\n" in made.broker.render()
    with pytest.raises(UsageError, match="storePathCommitLog"):
        standalone(settings=(f"storePathRootDir={store}", "storePathCommitLog=/elsewhere"))


def test_settings_of_the_nameserver_reach_it_in_one_process() -> None:
    made = standalone(settings=("orderMessageEnable=true", "kvConfigPath=/kv.json"), namesrv_port=7)
    assert made.namesrv.order_message_enable
    assert made.namesrv.listen_port == 7
    assert made.kv_path == "/kv.json"


def test_each_role_alone() -> None:
    made = plan(Options(has_namesrv=True, has_broker=False, port=5, data="d"))
    assert made.broker is None
    assert made.namesrv.listen_port == 5
    assert made.kv_path == "d/kvConfig.json"
    made = plan(Options(has_namesrv=False, has_broker=True, namesrv="a:1;b:2", settings=("namesrvAddr=c:3",)))
    assert made.namesrv is None
    assert made.broker.namesrv_addresses == ("a:1", "b:2")


def test_a_broker_alone_needs_a_nameserver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    with pytest.raises(UsageError, match="needs a nameserver"):
        plan(Options(has_namesrv=False, has_broker=True))
    monkeypatch.setenv("NAMESRV_ADDR", "a:1")
    made = plan(Options(has_namesrv=False, has_broker=True))
    assert made.broker.namesrv_addresses == ("a:1",)
    # A test that brings its own nameserver does not need the variable.
    made = standalone()
    assert made.broker.namesrv_addresses == ()


@in_one_test(
    ("auto", None),
    ("broker.example", ("broker.example", None)),
    ("broker.example:10911", ("broker.example", 10911)),
    ("10.0.0.1:80", ("10.0.0.1", 80)),
    ("fd00::1", ("fd00::1", None)),
    ("[fd00::1]", ("fd00::1", None)),
    ("[fd00::1]:80", ("fd00::1", 80)),
)
def test_advertise(text: str, advertise: tuple[str, int | None] | None) -> None:
    assert standalone(advertise=text).advertise == advertise


def test_apaches_key_advertises_too_unless_a_flag_says_otherwise() -> None:
    assert standalone(settings=("brokerIP1=10.0.0.1",)).advertise == ("10.0.0.1", None)
    assert standalone(settings=("brokerIP1=10.0.0.1",), advertise="auto").advertise is None


@in_one_test(
    {"settings": ("traceOn",)},
    {"settings": ("=1",)},
    {"settings": ("listenPort=x",)},
    {"config": "/no/such/file"},
    {"advertise": "host:99999"},
    {"advertise": ":1"},
)
def test_what_cannot_be_is_a_usage_error(more: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        standalone(**more)


@pytest.mark.parametrize("port", ["99999", "65536", "0", "9" * 5000])
@pytest.mark.parametrize(
    "options",
    [
        {"namesrv": "host:PORT"}, {"namesrv": "ns1:9876;[::1]:PORT"}, {"advertise": "host:PORT"},
        {"settings": ["namesrvAddr=host:PORT"]}, {"settings": ["controllerAddr=host:PORT"]},
        {"settings": ["brokerIP1=host:PORT"]},
    ],
)  # fmt: skip
def test_a_port_that_nothing_can_listen_on_is_refused_at_the_start(options: dict[str, Any], port: str) -> None:
    """A broker with ``--namesrv host:99999`` said that it was ready, and registered nowhere, for ever."""
    given = {key: _with_port(value, port) for key, value in options.items()}
    with pytest.raises(UsageError, match=f"{port[:5]}.*is not a port from 1 to 65535"):
        plan(Options(has_namesrv="namesrv" not in given, has_broker=True, **given))


def _with_port(value: str | list[str], port: str) -> str | list[str]:
    return [text.replace("PORT", port) for text in value] if isinstance(value, list) else value.replace("PORT", port)


def test_the_port_of_a_peer_of_a_controller_is_checked(tmp_path: Path) -> None:
    asked = Options(
        has_namesrv=False, has_broker=False, has_controller=True, data=str(tmp_path), port=0,
        settings=["controllerDLegerPeers=n0-host:99999"],
    )  # fmt: skip
    with pytest.raises(UsageError, match="'99999' is not a port"):
        plan(asked)


@pytest.mark.parametrize(
    "options",
    [{"listen": "127.0.0.1:10911"}, {"settings": ["bindAddress=host:1"]}, {"settings": ["brokerIP2=10.0.0.1:5"]},
     {"settings": ["metricsPromExporterHost=0.0.0.0:5557"]}],
)  # fmt: skip
def test_a_host_where_its_port_is_another_setting_has_none(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="must be a host without a port"):
        plan(Options(has_namesrv=True, has_broker=True, **options))


@pytest.mark.parametrize("listen", ["::", "::1", "fe80::1%eth0", "0.0.0.0", "localhost"])
def test_a_host_may_be_an_address_of_ipv6(listen: str) -> None:
    assert plan(Options(has_namesrv=True, has_broker=True, listen=listen)).listen == listen
