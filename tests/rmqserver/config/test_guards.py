"""A protective setting is never ignored: neither at the start, whatever its source, nor over the wire."""

import logging
from pathlib import Path

import pytest

from rmqproto.errors import UsageError
from rmqserver.command_line import Options, plan
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.config.keyed_settings import Settings
from rmqserver.config.namesrv_config import NamesrvConfig

GUARDS = [("aclEnable", "true"), ("migrateAuthFromV1Enabled", "true")]
"""Refused at the start if there is no ``rocketmqHome``."""

AT_START = [
    ("tls.test.mode.enable", "false"), ("tls.test.mode.enable", "no"), ("tls.server.mode", "enforcing"),
    ("tls.enable", "true"), ("useTLS", "true"), ("tls.server.need.client.auth", "require"),
    ("tls.server.certPath", "/etc/broker.pem"), ("tls.server.authClient", "true"),
    ("tls.client.trustCertPath", "/etc/ca.pem"), ("tls.config.file", "/etc/rocketmq/tls.properties"),
    ("authenticationEnabled", "true"), ("authorizationEnabled", "true"), ("authenticationWhitelist", "10"),
    ("aclEnable", " TRUE "), ("initAuthenticationUser", '{"username":"u","password":"p"}'),
]  # fmt: skip
"""Settings for the start, which tests/rmqserver/tls and tests/rmqserver/auth test."""

PROMISES = [
    ("brokerRole", "SLAVE"),
    ("inSyncReplicas", "2"),
    ("enableControllerMode", "true"),
    ("minInSyncReplicas", "2"),
    ("allAckInSyncStateSet", "true"),
    ("duplicationEnable", "true"),
]


@pytest.mark.parametrize(
    ("role", "key", "value"),
    [(role, *guard) for role in ("standalone", "broker", "namesrv") for guard in GUARDS]
    + [(role, *promise) for role in ("standalone", "broker") for promise in PROMISES],
)
def test_the_server_does_not_start_with_it_and_says_what_to_do(
    role: str, key: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ROCKETMQ_HOME", raising=False)
    config = tmp_path / "server.conf"
    config.write_text(f"{key}={value}\n")
    for given in ({"settings": (f"{key}={value}",)}, {"config": str(config)}):
        options = Options(has_namesrv=role != "broker", has_broker=role != "namesrv", namesrv="127.0.0.1:1", **given)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match=f"^{key}=") as caught:
            plan(options)
        assert caught.value.hint or (key, value) in PROMISES


@pytest.mark.parametrize("settings", [BrokerConfig, NamesrvConfig])
@pytest.mark.parametrize(("key", "value"), GUARDS + AT_START)
def test_over_the_wire_it_is_refused_and_nothing_changes(settings: type[Settings], key: str, value: str) -> None:
    config = settings()
    before, version = config.render(), config.data_version.counter
    with pytest.raises(UsageError, match=f"^{key}[=:]"):
        config.update({"serverWorkerThreads": "9", key: value})
    assert (config.render(), config.data_version.counter) == (before, version)


@pytest.mark.parametrize(
    "line",
    [
        "authenticationEnabled=false", "aclEnable=false", "tls.server.mode=permissive", "tls.server.mode=disabled",
        "tls.test.mode.enable=true", "tls.enable=false", "inSyncReplicas=1", "tls.server.need.client.auth=none",
        "brokerRole=SYNC_MASTER",
    ],
)  # fmt: skip
def test_a_value_that_asks_for_nothing_is_no_error(line: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        BrokerConfig.from_properties(line)
    assert "unknown-setting" not in caplog.text


def test_a_password_is_not_shown() -> None:
    with pytest.raises(UsageError) as caught:
        BrokerConfig.from_properties("tls.server.keyPassword=hunter2")
    assert "hunter2" not in str(caught.value)


def test_a_key_that_nobody_knows_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        plan(Options(has_namesrv=True, has_broker=True, settings=("noSuchKey=1",), allow_unknown=True))
    assert caplog.text.count("noSuchKey") == 1
