"""Commands over TLS: against a server that takes only TLS and wants a certificate, and the errors if that fails."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.common_options import CommonOptions
from rmqadmin.core.load.lane_plans import load_plans
from rmqadmin.core.load.load_plan import LanePlan, LoadQueue
from rmqadmin.core.load.load_run import BegunLoad, LoadRun, LoadSetting
from rmqclient.admin import AdminClient
from rmqclient.blocking import BlockingClient
from rmqclient.message import Message
from rmqclient.tls import TlsFiles
from rmqproto.bodies.base import MessageQueue
from rmqproto.codes import RequestCode
from rmqproto.errors import ConnectError, UsageError
from rmqproto.hosts import split_address
from tests.rmqadmin.conftest import Ran, Rmqadmin
from tests.rmqadmin.pages.page_lines import run_lines
from tests.support.certificates import Authority, Signed
from tests.support.quick import in_one_test
from tests.support.servers import Fresh, Server, sets, standalone, topic_config, until


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def own(authority: Authority) -> Signed:
    return authority.sign("client")


@pytest.fixture(scope="module")
def secured(authority: Authority, own: Signed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that takes only TLS, and only from clients with a certificate. Its broker registers in the same way."""
    signed = authority.sign("server")
    settings = {
        "tls.server.mode": "enforcing",
        "tls.server.certPath": signed.cert,
        "tls.server.keyPath": signed.key,
        "tls.server.need.client.auth": "require",
        "tls.server.authClient": "true",
        "tls.server.trustCertPath": authority.cert,
        "tls.client.authServer": "true",
        "tls.client.trustCertPath": authority.cert,
        "tls.client.certPath": own.cert,
        "tls.client.keyPath": own.key,
    }
    with standalone(tmp_path_factory.mktemp("secured"), *sets(**settings)) as server:
        yield server


def files(authority: Authority, own: Signed) -> tuple[str, ...]:
    return ("--tls", "--tls-ca", str(authority.cert), "--tls-cert", str(own.cert), "--tls-key", str(own.key))


def test_the_commands_of_the_page_work(
    run: Rmqadmin, secured: Server, authority: Authority, own: Signed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page is ``docs/tls.md``. This server also wants a client certificate."""
    for name, path in (("RMQADMIN_TLS_CERT", own.cert), ("RMQADMIN_TLS_KEY", own.key)):
        monkeypatch.setenv(name, str(path))
    meant = {"mq.example:9876": secured.namesrv_addr, "ca.pem": str(authority.cert)}
    run_lines(run, "docs/tls.md", meant, monkeypatch)


def test_commands_reach_a_server_that_takes_tls_alone(
    run: Rmqadmin, secured: Server, authority: Authority, own: Signed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", secured.namesrv_addr)
    tls = files(authority, own)

    def is_registered() -> bool:
        ran = run("-o", "json", "clusterList", *tls, status=0)
        return bool(ran.items)

    until(is_registered)
    assert run("updateTopic", "-c", "DefaultCluster", "-t", "Secured", "--yes", *tls).status == 0
    monkeypatch.setenv("RMQADMIN_TLS", "true")
    for option, text in zip(("CA", "CERT", "KEY"), tls[2::2], strict=True):
        monkeypatch.setenv(f"RMQADMIN_TLS_{option}", text)
    ran = run("-o", "name", "topicList")
    assert "Secured" in ran.out, ran.err


def test_what_fails_is_said_and_what_helps(
    run: Rmqadmin, secured: Server, authority: Authority, own: Signed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", secured.namesrv_addr)
    stranger = Authority(tmp_path, "stranger")
    for tls, words in (
        (("--tls", "--tls-ca", str(stranger.cert)), "Give the certificate that signed the server's"),
        (("--tls", "--tls-ca", str(authority.cert)), ""),  # the error is an alert or the end of the connection
        ((), "closed"),
    ):
        ran = run("topicList", *tls)
        assert (ran.status, words in ran.err) == (3, True), ran.err
    until(lambda: "showed no certificate" in secured.log_file.read_text())
    assert run("topicList", "--tls", "--tls-insecure", *files(authority, own)[3:]).status == 0


def test_the_name_checked_is_the_advertised_one(
    run: Rmqadmin, secured: Server, authority: Authority, own: Signed
) -> None:
    """Wherever an address map has the connection go. The certificate is for localhost and 127.0.0.1."""
    for name, status in (("localhost", 0), ("broker.example", 3)):
        words = ("-n", f"{name}:1", "--address-map", f"{name}:1={secured.namesrv_addr}")
        ran = run("topicList", *words, *files(authority, own))
        assert (ran.status, "broker.example" in ran.err) == (status, status == 3), ran.err


def test_a_server_that_speaks_no_tls_is_named(server: Server, authority: Authority) -> None:
    options = CommonOptions(namesrv_addr=server.namesrv_addr, tls=True, tls_ca=str(authority.cert))
    with (
        Call("topicList", options).new_client(AdminClient, read_only=True) as admin,
        pytest.raises(ConnectError, match="no TLS with"),
    ):
        admin.call(server.namesrv_addr, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)


def test_dead_letters_are_redriven(
    run: Rmqadmin, secured: Server, authority: Authority, own: Signed, fresh: Fresh
) -> None:
    """The sender of the letters has its own connections, and so has the search for them at the target."""
    group, origin = fresh("G"), fresh("Origin")
    dlq, tls = f"%DLQ%{group}", files(authority, own)
    context = TlsFiles(ca=str(authority.cert), cert=str(own.cert), key=str(own.key)).context()
    with AdminClient(secured.namesrv_addr, tls=context) as admin:
        for topic in (dlq, origin):
            admin.create_topic(secured.broker_addr, topic_config(topic))
            until(lambda topic=topic: topic in admin.topic_list())
        for number in range(3):
            message = Message(dlq, b"%d" % number, properties={"RETRY_TOPIC": origin})
            admin.send_message(secured.broker_addr, MessageQueue(dlq, "broker-a", 0), message)
        reached = ("-n", secured.namesrv_addr, *tls)
        shown = run("-o", "json", "dlq", "show", group, *reached)
        assert len(shown.items) == 3, shown.err
        ran = run("-o", "json", "dlq", "redrive", group, "--to", "same", "--execute", "--yes", *reached, status=0)
        assert ran.document["summary"]["audited"] == 3
        assert admin.max_offset(secured.broker_addr, origin, 0) == 3


def test_a_connection_is_kept_between_requests(secured: Server, authority: Authority, own: Signed) -> None:
    """Data that the server sends unasked after a handshake used to be taken for a late answer."""
    options = CommonOptions(tls=True, tls_ca=str(authority.cert), tls_cert=str(own.cert), tls_key=str(own.key))
    context = options.settings().tls()
    assert context is not None
    with BlockingClient(tls=context) as client:
        for _ in range(3):
            client.request(secured.namesrv_addr, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    assert context.session_stats()["connect_good"] == 1


@in_one_test(
    (CommonOptions(tls_ca="ca.pem"), "need --tls"),
    (CommonOptions(tls_insecure=True), "need --tls"),
    (
        CommonOptions(tls=True, tls_ca="ca.pem", tls_insecure=True),
        "a CA certificate and insecure exclude each other",
    ),
    (CommonOptions(tls=True, tls_key="key.pem"), "a key needs its certificate"),
    (CommonOptions(tls=True, tls_ca="/no/such/ca.pem"), "No such file"),
    (CommonOptions(tls=True, tls_ca=__file__), "PEM"),
)
def test_options_that_say_nothing_together_are_refused(options: CommonOptions, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        options.settings().tls()


def test_a_variable_says_yes_or_no(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMQADMIN_TLS", "perhaps")
    with pytest.raises(UsageError, match="RMQADMIN_TLS=perhaps"):
        CommonOptions().settings().setting("tls")


@pytest.mark.slow
def test_a_load_is_made_over_tls(
    run: Rmqadmin, secured: Server, authority: Authority, own: Signed, fresh: Fresh
) -> None:
    """Every counted message is stored, even if more is under way than a socket takes at once, and can be received."""
    topic, tls = fresh("Load"), files(authority, own)

    def bench(kind: str, *words: str) -> Ran:
        more = ("--duration", "0.5", "--warm-up", "0", "-n", secured.namesrv_addr, *tls)
        ran = run("-o", "json", "bench", kind, topic, *words, *more, status=0)
        assert ran.document["summary"]["said"] is None
        return ran

    sent = bench("send", "--create", "--queues", "1", "--in-flight", "30", "--size-bytes", "100000")
    with AdminClient(secured.namesrv_addr, tls=TlsFiles(ca=tls[2], cert=tls[4], key=tls[6]).context()) as admin:
        assert admin.max_offset(secured.broker_addr, topic, 0) == sent.document["summary"]["messages"] > 0
    assert bench("consume").document["summary"]["messages"] > 0
    timed = bench("latency", "--rate", "50", "--yes")
    assert timed.document["summary"]["received"] == timed.document["summary"]["sent"] > 0


def test_a_load_trusts_only_whom_it_was_told_to(
    run: Rmqadmin, secured: Server, authority: Authority, own: Signed, tmp_path: Path
) -> None:
    """Each process of a load checks the brokers itself."""
    signed = TlsFiles(ca=str(Authority(tmp_path, "stranger").cert), cert=str(own.cert), key=str(own.key))
    host, port = split_address(secured.broker_addr)
    lanes = [LanePlan(host, port, sends=True, queues=(LoadQueue(0),))]
    plan = load_plans(
        lanes, 1, 0.0, topic="T", group="G", size_bytes=1, in_flight=1, batch_size=1, duration_s=1.0,
        warm_up_s=0.0, interval_s=1.0, timeout_s=5.0, tls=signed,
    )  # fmt: skip
    setting = LoadSetting("T", [secured.broker_addr], 1, 1, 1, 1, 1, 1)
    with pytest.raises(ConnectError, match=f"no TLS with {secured.broker_addr}"):
        list(LoadRun(lambda: BegunLoad(setting, plan), lambda: None).intervals())
