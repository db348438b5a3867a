"""Apache's own integration tests of TLS, the released classes, against our server."""

import subprocess
from pathlib import Path

import pytest

from tests.support.certificates import Authority

from ..apache import HERE, VERSION, compile_java, jars, java_command, maven_jars
from ..cache import built
from ..cluster import SETTINGS
from ..ours import OurRocketMQ

pytestmark = pytest.mark.interop

SOURCES = HERE / "apache_tests"
TIMEOUT_S = 500
"""Each test waits two minutes before it gives up on its messages."""

ATTEMPTS = 3


def class_path() -> str:
    """Our class that replaces one of theirs, followed by Apache's tests and the jars that they need beside the
    release."""
    theirs = maven_jars(f"tests-{VERSION}", SOURCES / "pom.xml", f"-Drocketmq.version={VERSION}")
    sources = sorted(SOURCES.glob("*.java"))
    own = built(f"classes-tests-{VERSION}", sources, lambda folder: compile_java(sources, folder, jars(), theirs))
    return f"{own}:{theirs}/*"


def run(ours: OurRocketMQ, work: Path, *tests: str, options: tuple[str, ...] = ()) -> str:
    """The output of JUnit."""
    where = (f"-Dnamesrv={ours.namesrv_addr}", f"-Dbroker={ours.broker_addr}")
    names = [f"org.apache.rocketmq.test.tls.{test}" for test in tests]
    command = java_command(work, "org.junit.runner.JUnitCore", *names, options=(*where, *options), before=class_path())
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S).stdout


def passes(ours: OurRocketMQ, work: Path, *tests: str, options: tuple[str, ...] = ()) -> None:
    """Runs the tests up to ATTEMPTS times: each sends as soon as its consumer has started. The consumer asks where its
    group was, learns that it has no offset, and asks for the end of the queue. It never gets messages that are sent in
    between, from either broker."""
    for attempt in range(ATTEMPTS):
        said = run(ours, work / f"attempt-{attempt}", *tests, options=options)
        if f"OK ({len(tests)} test" in said:
            return
    pytest.fail(said)


@pytest.fixture
def certificate(tmp_path: Path) -> dict[str, str]:
    server = Authority(tmp_path).sign("server")
    return {**SETTINGS, "tls.server.certPath": str(server.cert), "tls.server.keyPath": str(server.key)}


def test_tls_and_plain_clients_together(certificate: dict[str, str], tmp_path: Path) -> None:
    """TLS clients alone, and pairs in which only one client uses TLS."""
    with OurRocketMQ(tmp_path / "ours", certificate) as ours:
        passes(ours, tmp_path, "TlsIT", "TlsMixIT", "TlsMix2IT")


def test_where_nothing_but_tls_is_taken(certificate: dict[str, str], tmp_path: Path) -> None:
    """A test with TLS off in half of its clients fails."""
    enforcing = certificate | {"tls.server.mode": "enforcing"}
    with OurRocketMQ(tmp_path / "ours", enforcing) as ours:
        passes(ours, tmp_path, "TlsIT", options=("-Dtls.enable=true",))
        assert "FAILURES!!!" in run(ours, tmp_path, "TlsMixIT")
