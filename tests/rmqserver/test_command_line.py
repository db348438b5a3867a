from __future__ import annotations

from pathlib import Path

import pytest

from rmqproto.errors import UsageError
from rmqserver.command_line import Options, ServerPlan, plan
from rmqserver.store.options import FlushMode


def standalone(**more: object) -> ServerPlan:
    return plan(Options(has_namesrv=True, has_broker=True, **more))  # type: ignore[arg-type]


def test_defaults() -> None:
    made = standalone()
    assert made.broker is not None
    assert made.namesrv is not None
    assert (made.listen, made.broker.listen_port, made.namesrv.listen_port) == ("127.0.0.1", 10911, 9876)
    names = (made.broker.broker_cluster_name, made.broker.broker_name, made.broker.broker_id)
    assert names == ("DefaultCluster", "broker-a", 0)
    assert made.broker.flush_mode is FlushMode.ASYNC
    assert (made.store_dir, made.kv_path, made.advertise) == (None, None, None)


def test_a_flag_wins_over_set_and_that_over_the_file(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("listenPort=1\nbrokerName=of-file\nbrokerClusterName=of-file\nflushDiskType=SYNC_FLUSH\n")
    made = standalone(config=str(conf), settings=("listenPort=2", "brokerName=of-set"), port=3)
    assert made.broker is not None
    assert made.broker.listen_port == 3
    assert made.broker.broker_name == "of-set"
    assert made.broker.broker_cluster_name == "of-file"
    assert made.broker.flush_mode is FlushMode.SYNC


@pytest.mark.parametrize(
    ("more", "mode"),
    [
        ({}, FlushMode.ASYNC),
        ({"data": "d"}, FlushMode.SYNC),
        ({"settings": ("storePathRootDir=d",)}, FlushMode.SYNC),
        ({"data": "d", "settings": ("flushDiskType=ASYNC_FLUSH",)}, FlushMode.ASYNC),
        ({"data": "d", "flush": "async"}, FlushMode.ASYNC),
        ({"flush": "sync", "settings": ("flushDiskType=ASYNC_FLUSH",)}, FlushMode.SYNC),
    ],
)
def test_who_keeps_a_store_wants_it_flushed(more: dict[str, object], mode: FlushMode) -> None:
    made = standalone(**more)
    assert made.broker is not None
    assert made.broker.flush_mode is mode


def test_the_store_is_where_apaches_keys_say(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    made = standalone(settings=(f"storePathRootDir={store}", f"storePathCommitLog={store}/commitlog"))
    assert made.store_dir == store
    assert made.kv_path == f"{store}/namesrv/kvConfig.json"
    assert made.broker is not None
    assert f"storePathCommitLog={store}/commitlog\n" in made.broker.render()
    with pytest.raises(UsageError, match="storePathCommitLog"):
        standalone(settings=(f"storePathRootDir={store}", "storePathCommitLog=/elsewhere"))


def test_settings_of_the_nameserver_reach_it_in_one_process() -> None:
    made = standalone(settings=("orderMessageEnable=true", "kvConfigPath=/kv.json"), namesrv_port=7)
    assert made.namesrv is not None
    assert made.namesrv.order_message_enable
    assert made.namesrv.listen_port == 7
    assert made.kv_path == "/kv.json"


def test_each_role_alone() -> None:
    made = plan(Options(has_namesrv=True, has_broker=False, port=5, data="d"))
    assert made.broker is None
    assert made.namesrv is not None
    assert made.namesrv.listen_port == 5
    assert made.kv_path == "d/kvConfig.json"
    made = plan(Options(has_namesrv=False, has_broker=True, namesrv="a:1;b:2", settings=("namesrvAddr=c:3",)))
    assert made.namesrv is None
    assert made.broker is not None
    assert made.broker.namesrv_addresses == ("a:1", "b:2")


def test_a_broker_alone_needs_a_nameserver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    with pytest.raises(UsageError, match="needs a nameserver"):
        plan(Options(has_namesrv=False, has_broker=True))
    monkeypatch.setenv("NAMESRV_ADDR", "a:1")
    made = plan(Options(has_namesrv=False, has_broker=True))
    assert made.broker is not None
    assert made.broker.namesrv_addresses == ("a:1",)
    # A test that brings its own nameserver does not need the variable.
    made = standalone()
    assert made.broker is not None
    assert made.broker.namesrv_addresses == ()


@pytest.mark.parametrize(
    ("text", "advertise"),
    [
        ("auto", None),
        ("broker.example", ("broker.example", None)),
        ("broker.example:10911", ("broker.example", 10911)),
        ("10.0.0.1:80", ("10.0.0.1", 80)),
        ("fd00::1", ("fd00::1", None)),
        ("[fd00::1]", ("fd00::1", None)),
        ("[fd00::1]:80", ("fd00::1", 80)),
    ],
)
def test_advertise(text: str, advertise: tuple[str, int | None] | None) -> None:
    assert standalone(advertise=text).advertise == advertise


def test_apaches_key_advertises_too_unless_a_flag_says_otherwise() -> None:
    assert standalone(settings=("brokerIP1=10.0.0.1",)).advertise == ("10.0.0.1", None)
    assert standalone(settings=("brokerIP1=10.0.0.1",), advertise="auto").advertise is None


@pytest.mark.parametrize(
    "more",
    [
        {"settings": ("traceOn",)},
        {"settings": ("=1",)},
        {"settings": ("listenPort=x",)},
        {"config": "/no/such/file"},
        {"advertise": "host:99999"},
        {"advertise": ":1"},
    ],
)
def test_what_cannot_be_is_a_usage_error(more: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        standalone(**more)
