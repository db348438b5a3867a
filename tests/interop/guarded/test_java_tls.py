"""The Java client over TLS, checking the certificate of the test's own authority, against a server of ours that accepts
nothing else."""

from pathlib import Path

import pytest

from tests.support.certificates import Authority

from ..cluster import SETTINGS
from ..events import Outgoing, Refused
from ..ours import OurRocketMQ
from ..witness import Witness

pytestmark = pytest.mark.interop

LARGE_BYTES = 3 << 20


def test_it_sends_and_consumes_and_without_its_certificate_does_not(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server, client = authority.sign("server"), authority.sign("client")
    settings = {
        **SETTINGS,
        "tls.server.mode": "enforcing",
        "tls.server.certPath": str(server.cert),
        "tls.server.keyPath": str(server.key),
        "tls.server.need.client.auth": "require",
        "tls.server.authClient": "true",
        "tls.server.trustCertPath": str(authority.cert),
        "tls.client.certPath": str(client.cert),
        "tls.client.keyPath": str(client.key),
    }
    checks = ("-Dtls.enable=true", "-Dtls.test.mode.enable=false", "-Dtls.client.authServer=true",
              f"-Dtls.client.trustCertPath={authority.cert}")  # fmt: skip
    own = (f"-Dtls.client.certPath={client.cert}", f"-Dtls.client.keyPath={client.key}")
    large = b"0123456789abcdef" * (LARGE_BYTES // 16)
    with OurRocketMQ(tmp_path / "ours", settings) as ours:
        with Witness(ours.namesrv_addr, tmp_path / "with", java_options=(*checks, *own)) as java:
            topic = java.create_topic("Secured")
            java.send(topic, [Outgoing(body=b"small"), Outgoing(body=large)])
            assert sorted(len(message.body) for message in java.read_all(topic, 2)) == [5, len(large)]
        with Witness(ours.namesrv_addr, tmp_path / "without", java_options=checks) as stranger:
            (answer,) = stranger.try_send(topic, [Outgoing(body=b"refused")])
            assert isinstance(answer, Refused)
        log = (ours.work / "rmqserver.log").read_text()
    assert "showed no certificate" in log
