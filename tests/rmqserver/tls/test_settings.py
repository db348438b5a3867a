"""Settings that switch TLS on, and combinations that would guard less than they say."""

from pathlib import Path

import pytest

from rmqproto.errors import UsageError
from rmqserver.command_line import Options, plan
from rmqserver.tls.settings import ClientAuth, KeyPair, TlsMode, TlsSettings, tls_settings
from tests.support.quick import in_one_test

CERT = {"tls.server.certPath": "/c.pem", "tls.server.keyPath": "/k.pem"}


def test_without_a_setting_tls_is_there_for_whoever_comes_with_it() -> None:
    """As Apache's servers, with a certificate that is made when it is needed."""
    for given in ({"brokerName": "a"}, {"tls.server.mode": "permissive"}):
        settings = tls_settings(given)
        assert (settings.door.mode, settings.door.key_pair) == (TlsMode.PERMISSIVE, None)
        assert (settings.door.is_asked, settings.link) == (False, None)
    asked = tls_settings({"tls.test.mode.enable": "true"}).door
    assert asked.is_asked


def test_a_given_certificate_wins_over_one_that_would_be_made() -> None:
    door = tls_settings({**CERT, "tls.test.mode.enable": "true"}).door
    assert door.key_pair == KeyPair(cert_path="/c.pem", key_path="/k.pem")


def test_it_can_be_switched_off() -> None:
    assert tls_settings({"tls.test.mode.enable": "false"}) == TlsSettings()
    assert tls_settings({"tls.server.mode": "disabled"}) == TlsSettings()
    assert tls_settings({"tls.server.mode": "disabled", **CERT}) == TlsSettings()


def test_a_certificate_switches_it_on_beside_plain_connections() -> None:
    door = tls_settings({**CERT, "tls.server.keyPassword": "hunter2"}).door
    assert door.mode is TlsMode.PERMISSIVE
    assert door.key_pair == KeyPair(cert_path="/c.pem", key_path="/k.pem", key_password="hunter2")
    assert "hunter2" not in repr(door)


def test_enforcing_takes_the_way_to_the_nameservers_along() -> None:
    """As with Apache's: ``useTLS`` is on where the mode is enforcing."""
    settings = tls_settings({**CERT, "tls.server.mode": "ENFORCING"})
    assert not settings.link.checks_server


def test_clients_are_checked_if_three_settings_agree() -> None:
    asked = {
        "tls.server.need.client.auth": "require",
        "tls.server.authClient": "true",
        "tls.server.trustCertPath": "/ca.pem",
    }
    door = tls_settings({**CERT, **asked}).door
    assert (door.client_auth, door.trust_path) == (ClientAuth.REQUIRE, "/ca.pem")


@in_one_test(
    ({"tls.server.mode": "enforcing"}, "needs a certificate"),
    ({"tls.server.mode": "enforcing", "tls.test.mode.enable": "false"}, "needs a certificate"),
    ({"tls.test.mode.enable": "no"}, "one of true, false"),
    ({"tls.server.mode": "strict"}, "one of disabled, permissive, enforcing"),
    ({"tls.server.certPath": "/c.pem"}, "tls.server.keyPath is needed"),
    ({"tls.server.keyPassword": "x"}, "tls.server.certPath is needed"),
    ({**CERT, "tls.server.authClient": "true"}, "checks nobody"),
    ({**CERT, "tls.server.trustCertPath": "/ca.pem"}, "checks nobody"),
    ({**CERT, "tls.server.need.client.auth": "require"}, "would let in every certificate"),
    ({"tls.server.need.client.auth": "always"}, "one of none, optional, require"),
    ({"tls.client.authServer": "true"}, "no effect without TLS"),
    ({"tls.client.trustCertPath": "/ca.pem"}, "no effect without TLS"),
    ({"useTLS": "true", "tls.client.trustCertPath": "/ca.pem"}, "checks nobody"),
    ({"tls.config.file": "/no/such/file"}, "No such file"),
)
def test_what_would_guard_less_than_it_says_is_refused(given: dict[str, str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        tls_settings(given)
    with pytest.raises(UsageError, match=problem):
        plan(Options(has_namesrv=True, has_broker=True, settings=[f"{key}={text}" for key, text in given.items()]))


def test_a_file_as_apache_has_it_is_read_and_what_is_given_comes_first(tmp_path: Path) -> None:
    file = tmp_path / "tls.properties"
    file.write_text("tls.server.certPath=/c.pem\ntls.server.keyPath=/k.pem\ntls.server.mode=permissive\n")
    door = tls_settings({"tls.config.file": str(file), "tls.server.mode": "enforcing"}).door
    assert door.mode is TlsMode.ENFORCING
    file.write_text("tls.sever.certPath=/c.pem\n")
    with pytest.raises(UsageError, match=r"tls\.sever\.certPath is no setting of TLS"):
        tls_settings({"tls.config.file": str(file)})


def test_the_broker_lists_whether_its_way_to_nameservers_is_tls() -> None:
    settings = ("tls.test.mode.enable=true", "tls.server.mode=enforcing")
    found = plan(Options(has_namesrv=True, has_broker=True, settings=settings))
    assert found.broker.text("useTLS") == "true"
