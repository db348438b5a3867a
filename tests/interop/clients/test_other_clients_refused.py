"""What other clients report if a broker refuses their message: the same for Apache's broker and for ours."""

import random
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from ..client import Client
from ..cluster import SETTINGS, SYSTEMS, Cluster
from ..events import Outgoing, Refused, Sent
from ..other_clients import COMMANDS, start
from ..witness import Witness

pytestmark = pytest.mark.interop

MIB = 1 << 20
MESSAGE_ILLEGAL, TOPIC_NOT_EXIST, INVALID_PARAMETER = 13, 17, 29
NO_CODE, NOT_FOUND_TOPIC_EXCEPTION = -1, 10005  # clients' own codes
STRICT = {**SETTINGS, "autoCreateTopicEnable": "false", "maxMessageSize": str(MIB)}


@pytest.fixture(scope="module", params=list(SYSTEMS))
def strict(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster that does not create topics automatically and accepts no body above 1 MiB."""
    with SYSTEMS[request.param](tmp_path_factory.mktemp(f"strict-{request.param}"), STRICT) as running:
        yield running


@pytest.fixture(scope="module")
def topic(strict: Cluster) -> str:
    with Witness(strict.namesrv_addr, strict.work / "java") as java:
        return java.create_topic("Known", queues=1)


@pytest.fixture(scope="module")
def senders(strict: Cluster, topic: str) -> Iterator[dict[str, Client]]:
    with ExitStack() as running:
        yield {name: running.enter_context(start(name, strict.namesrv_addr, strict.work / name)) for name in COMMANDS}


@pytest.mark.parametrize(
    ("name", "code", "text"),
    [
        ("go", NO_CODE, "the topic=Unknown route info not found"),
        ("node", TOPIC_NOT_EXIST, "No topic route info in name server for the topic: Unknown"),
        ("java4", NOT_FOUND_TOPIC_EXCEPTION, "No route info of this topic: Unknown"),
    ],
)
def test_a_topic_that_nobody_created_and_that_is_not_created_by_itself(
    senders: dict[str, Client], name: str, code: int, text: str
) -> None:
    [refusal] = senders[name].try_send("Unknown", [Outgoing(body=b"x")])
    assert isinstance(refusal, Refused)
    assert refusal.code == code
    assert text in refusal.error


@pytest.mark.parametrize("name", COMMANDS)
def test_a_body_that_is_too_large_is_refused_in_words_and_the_next_is_taken(
    senders: dict[str, Client], topic: str, name: str
) -> None:
    """The client compresses, and the compressed size counts."""
    compressible, too_large = bytes(2 * MIB), random.Random(1).randbytes(2 * MIB)
    taken, refusal, next_taken = senders[name].try_send(
        topic, [Outgoing(body=compressible), Outgoing(body=too_large), Outgoing(body=b"small")]
    )
    assert isinstance(taken, Sent)
    assert isinstance(refusal, Refused)
    assert refusal.code == MESSAGE_ILLEGAL
    assert f"msg body length limit {MIB}B" in refusal.error
    assert isinstance(next_taken, Sent)


@pytest.mark.parametrize("client", ["go"], indirect=True)
@pytest.mark.parametrize(
    ("illegal", "text"),
    [("ill egal", "contains illegal characters"), ("a" * 128, "is longer than topic max length: 127")],
    ids=["a space", "too long"],
)
def test_an_illegal_name_is_refused_by_the_broker(client: Client, illegal: str, text: str) -> None:
    """Java checks names itself, Node stops without a route, and Go leaves the check to the broker."""
    [refusal] = client.try_send(illegal, [Outgoing(body=b"x")])
    assert isinstance(refusal, Refused)
    assert refusal.code == INVALID_PARAMETER
    assert text in refusal.error
