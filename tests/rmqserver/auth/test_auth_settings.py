"""Authentication and authorization settings: a setting that would guard less than it says is refused, and no error
shows a secret."""

import logging
from pathlib import Path

import pytest

from rmqproto.errors import UsageError
from rmqproto.wire.credentials import Credentials
from rmqserver.auth.auth_settings import AuthSettings, auth_settings
from rmqserver.command_line import Options, plan
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.config.controller_config import ControllerConfig
from rmqserver.config.namesrv_config import NamesrvConfig
from tests.support.quick import in_one_test

ON = {"authenticationEnabled": "true"}
ROOT = '{"username":"root","password":"hunter2"}'
INNER = '{"accessKey":"inner","secretKey":"hunter2"}'


GUARDED_NAMESRV = {"namesrvAuthEnabled": "true", "innerClientAuthenticationCredentials": INNER}


def test_without_a_setting_nobody_is_asked() -> None:
    assert auth_settings({"brokerName": "b"}) == AuthSettings()


def test_all_of_them() -> None:
    given = {
        "authenticationEnabled": " TRUE ", "authorizationEnabled": "true", "authorizationStrictEnabled": "true",
        "namesrvAuthEnabled": "true", "initAuthenticationUser": ROOT, "innerClientAuthenticationCredentials": INNER,
        "authenticationWhitelist": "105, 26", "authorizationWhitelist": "28",
        "authenticationStrategy": "org.apache.rocketmq.auth.authentication.strategy.StatefulAuthenticationStrategy",
        "statefulAuthenticationCacheExpiredSecond": "5", "statefulAuthenticationCacheMaxNum": "7",
        "authenticationProvider": "org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider",
    }  # fmt: skip
    assert auth_settings(given) == AuthSettings(
        is_authenticating=True, is_authorizing=True, is_strict=True, guards_namesrv=True,
        init_user=Credentials("root", "hunter2"), inner_client=Credentials("inner", "hunter2"),
        authentication_whitelist=frozenset({105, 26}), authorization_whitelist=frozenset({28}),
        cached_connections_max=7, cached_s=5,
    )  # fmt: skip


@in_one_test(
    ("authenticationEnabled", "yes"), ("authenticationWhitelist", "SEND_MESSAGE"), ("authorizationWhitelist", "-1"),
    ("authenticationProvider", "com.example.Mine"), ("authorizationStrategy", "com.example.Mine"),
    ("authenticationMetadataProvider", "org.apache.rocketmq.proxy.auth.ProxyAuthenticationMetadataProvider"),
    ("statefulAuthenticationCacheMaxNum", "0"), ("statefulAuthenticationCacheExpiredSecond", "soon"),
    ("initAuthenticationUser", "root:hunter2"), ("initAuthenticationUser", '{"username":"hunter2"}'),
    ("initAuthenticationUser", '{"username":"","password":"hunter2"}'), ("initAuthenticationUser", '["hunter2"]'),
    ("innerClientAuthenticationCredentials", '{"accessKey":"hunter2","secretKey":" "}'),
    ("innerClientAuthenticationCredentials", '{"accessKey":"a","secretKey":5}'),
)  # fmt: skip
def test_a_bad_value_is_said_by_its_key(key: str, value: str) -> None:
    with pytest.raises(UsageError, match=f"^{key}") as caught:
        auth_settings(ON | {key: value})
    assert "hunter2" not in f"{caught.value}{caught.value.hint}"


@pytest.mark.parametrize(
    "given",
    [{"authorizationEnabled": "true"}, ON | {"authorizationStrictEnabled": "true"}, {"namesrvAuthEnabled": "true"}],
)
def test_what_would_guard_less_than_it_says_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(UsageError) as caught:
        auth_settings(given)
    assert caught.value.hint


def settings(**given: str) -> tuple[str, ...]:
    return tuple(f"{key}={value}" for key, value in given.items())


def test_a_nameserver_that_nobody_could_use_is_refused() -> None:
    with pytest.raises(UsageError, match="could not register"):
        plan(Options(has_namesrv=True, has_broker=True, settings=settings(**ON, namesrvAuthEnabled="true")))
    with pytest.raises(UsageError, match="neither is set"):
        plan(Options(has_namesrv=True, has_broker=False, settings=settings(**ON)))
    plan(Options(has_namesrv=True, has_broker=False, settings=settings(**ON, initAuthenticationUser=ROOT)))


def test_the_broker_lists_what_is_on_and_no_secret(tmp_path: Path) -> None:
    config = tmp_path / "broker.conf"
    config.write_text(f"authenticationEnabled=true\ninitAuthenticationUser={ROOT}\nauthenticationWhitelist=105\n")
    broker = plan(Options(has_namesrv=True, has_broker=True, config=str(config))).broker
    listed = broker.render()
    assert "authenticationEnabled=true\n" in listed
    assert "authenticationWhitelist=105\n" in listed
    assert "hunter2" not in listed
    assert "initAuthenticationUser" not in listed
    with pytest.raises(UsageError, match=r"^authenticationEnabled: "):
        broker.update({"traceOn": "false", "authenticationEnabled": "false"})
    with pytest.raises(UsageError, match=r"^initAuthenticationUser: ") as caught:
        broker.update({"initAuthenticationUser": ROOT})
    assert "hunter2" not in str(caught.value)
    assert broker.update({"traceOn": "false", "authenticationEnabled": "true"}) == {"traceOn"}


def test_what_is_off_may_be_said_to_be_off() -> None:
    assert BrokerConfig().update({"authenticationEnabled": "false", "traceOn": "false"}) == {"traceOn"}


@pytest.mark.parametrize(
    ("listen", "on", "found"),
    [
        ("0.0.0.0", {}, {"broker": "authenticationEnabled", "namesrv": "authenticationEnabled"}),
        ("10.0.0.5", ON, {"namesrv": "namesrvAuthEnabled"}),
        ("::", ON | GUARDED_NAMESRV, {}),
        ("127.0.0.1", {}, {}),
        ("::1", {}, {}),
    ],
)
def test_who_asks_nobody_beyond_loopback_is_known(listen: str, on: dict[str, str], found: dict[str, str]) -> None:
    planned = plan(Options(has_namesrv=True, has_broker=True, listen=listen, settings=settings(**on)))
    assert planned.unasked() == found
    assert planned.namesrv.auth_enabled is (on != {} and "namesrvAuthEnabled" in on)
    assert ("namesrvAuthEnabled=true\n" in planned.namesrv.render()) is planned.namesrv.auth_enabled


def test_a_nameserver_or_a_controller_alone_asks_by_the_setting_of_all(tmp_path: Path) -> None:
    on = settings(**ON, initAuthenticationUser=ROOT)
    asking = plan(Options(has_namesrv=True, has_broker=False, listen="0.0.0.0", settings=on))
    assert (asking.unasked(), asking.namesrv and asking.namesrv.auth_enabled) == ({}, True)
    alone = {"has_namesrv": False, "has_broker": False, "has_controller": True, "data": str(tmp_path)}
    assert plan(Options(**alone, listen="0.0.0.0")).unasked() == {"controller": "authenticationEnabled"}
    guarded = plan(Options(**alone, listen="0.0.0.0", settings=on))
    assert guarded.unasked() == {}
    assert "authenticationEnabled=true\n" in (guarded.controller or ControllerConfig()).render()


def test_a_nameserver_begins_to_ask_at_its_start_alone() -> None:
    with pytest.raises(UsageError, match=r"^namesrvAuthEnabled: "):
        NamesrvConfig().update({"namesrvAuthEnabled": "true"})


def test_a_secret_on_the_command_line_is_said_without_it(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        plan(Options(has_namesrv=True, has_broker=True, settings=settings(initAuthenticationUser=ROOT)))
    assert "event=secret-on-command-line key=initAuthenticationUser" in caplog.text
    assert "hunter2" not in caplog.text
