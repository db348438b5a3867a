"""``context validate``: every check, and its text when it fails."""

from collections.abc import Callable

import pytest

from rmqadmin.core.contexts.context_store import ContextStore
from tests.rmqadmin.conftest import CLUSTER, Ran, Rmqadmin
from tests.support.certificates import Authority
from tests.support.servers import Server

Add = Callable[..., None]


@pytest.fixture
def add(run: Rmqadmin, server: Server) -> Add:
    """``add("-c", "X")``: adds a context ``live`` of the shared server."""

    def make(*args: str, addr: str = server.namesrv_addr) -> None:
        assert run("context", "add", "live", "-n", addr, *args).status == 0

    return make


def checks(ran: Ran) -> dict[str, tuple[bool, str]]:
    return {item["check"]: (item["ok"], item["detail"]) for item in ran.items}


def test_a_context_that_works_says_what_was_looked_at(run: Rmqadmin, add: Add, server: Server) -> None:
    add("-c", CLUSTER)
    ran = run("-o", "json", "context", "validate", "live", "--connect", status=0)
    found = checks(ran)
    assert all(ok for ok, _ in found.values())
    assert list(found) == [
        "file", "mode of the file", "keys", "TLS", f"name server {server.namesrv_addr}", f"cluster {CLUSTER}",
        f"broker {server.broker_addr}",
    ]  # fmt: skip
    assert found["file"][1] == f"2 settings in {ContextStore().path('live')}"
    assert found[f"cluster {CLUSTER}"][1] == "1 broker"


def test_nobody_is_asked_without_connect(run: Rmqadmin, add: Add) -> None:
    add(addr="127.0.0.1:1")
    assert run("context", "validate").status == 0


def test_a_name_server_that_is_down_is_told_from_one_that_is_up(run: Rmqadmin, add: Add, server: Server) -> None:
    add(addr=f"127.0.0.1:1;{server.namesrv_addr}")
    ran = run("-o", "json", "context", "validate", "--connect", status=1, err="1 of 7 checks failed: live: ")
    found = checks(ran)
    assert [check for check, (ok, _) in found.items() if not ok] == ["name server 127.0.0.1:1"]
    assert found[f"broker {server.broker_addr}"][0]  # the other name server knows this broker


@pytest.mark.parametrize(
    ("args", "check", "said"),
    [
        (("-c", "Nowhere"), "cluster Nowhere", "there is no cluster Nowhere"),
        (("-ak", "env:NOT_THERE", "-sk", "env:NOT_THERE"), "keys", "the environment has no NOT_THERE"),
        (("-ak", "env:HOME"), "keys", "the secret_key is missing"),
        (("--tls", "--tls-ca", "/no/such.pem"), "TLS", "/no/such.pem: No such file"),
    ],
)
def test_what_fails_is_said_and_no_server_is_asked_with_half_of_it(
    run: Rmqadmin, add: Add, args: tuple[str, ...], check: str, said: str
) -> None:
    add(*args)
    ran = run("-o", "json", "context", "validate", "--connect", status=1)
    (failed,) = [item for item in ran.items if not item["ok"]]
    assert (failed["check"], said in failed["detail"]) == (check, True), failed
    assert not any(item["check"].startswith("broker") for item in ran.items)


def test_a_certificate_and_a_key_that_do_not_fit(
    run: Rmqadmin, add: Add, tmp_path_factory: pytest.TempPathFactory
) -> None:
    authority = Authority(tmp_path_factory.mktemp("authority"))
    one, other = authority.sign("one"), authority.sign("other")
    add("--tls", "--tls-ca", str(authority.cert), "--tls-cert", str(one.cert), "--tls-key", str(one.key))
    assert checks(run("-o", "json", "context", "validate"))["TLS"] == (True, "the files fit")
    assert run("context", "edit", "live", "--tls-key", str(other.key)).status == 0
    ran = run("-o", "json", "context", "validate")
    assert (ran.status, checks(ran)["TLS"][0]) == (1, False)


def test_a_broken_file_is_a_row_and_the_others_are_still_looked_at(run: Rmqadmin, add: Add) -> None:
    add()
    path = ContextStore().add("broken", {"namesrv_addr": "h:1"}).path
    path.write_text("nonsense")
    ran = run("-o", "json", "context", "validate", status=1)
    assert [(item["context"], item["check"]) for item in ran.items if not item["ok"]] == [("broken", "file")]
    assert len([item for item in ran.items if item["context"] == "live"]) == 4
    assert run("context", "validate", "nowhere").status == 5


def test_a_file_that_others_can_write_is_told(run: Rmqadmin, add: Add) -> None:
    add()
    ContextStore().path("live").chmod(0o666)
    found = checks(run("-o", "json", "context", "validate"))
    assert found["mode of the file"] == (False, "others can write it")
