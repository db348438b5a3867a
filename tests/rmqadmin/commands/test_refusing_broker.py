"""A broker that is not there, and one that refuses."""

from collections.abc import Iterator

import pytest

from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.wire.command import Command
from tests.rmqadmin.conftest import Rmqadmin
from tests.support import servers
from tests.support.replayed import Replayed
from tests.support.servers import Server

SAID = "the name server knows no broker"


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with servers.namesrv(tmp_path_factory.mktemp("alone")) as running:
        yield running


@pytest.mark.parametrize("line", ["clusterList", "topicList", "topicList -c", "consumerProgress", "dlq ls"])
def test_an_empty_list_says_why(alone: Server, run: Rmqadmin, line: str) -> None:
    ran = run(*line.split(), "-n", alone.namesrv_addr, status=0)
    (said,) = ran.err.splitlines()
    assert SAID in said
    assert len(said) <= 80, "it wraps in a usual terminal"


@pytest.mark.parametrize("line", ["group lag billing", "consumerProgress -g billing"])
def test_a_group_is_not_said_to_be_unknown(alone: Server, run: Rmqadmin, line: str) -> None:
    ran = run(*line.split(), "-n", alone.namesrv_addr, status=5, err=SAID)
    assert "offsets" not in ran.err


OF_NAMESRV = (RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.GET_BROKER_CLUSTER_INFO)


STORED = {"msgId": "7F00000100002A9F0000000000000000", "queueId": "0", "queueOffset": "0"}


def refuse(request: Command) -> Command | None:
    if request.code in OF_NAMESRV:
        return None
    return Command(code=ResponseCode.NO_PERMISSION, remark="username cannot be null.")


@pytest.mark.parametrize(
    "line",
    ["clusterList", "clusterList -m", "clusterRT -a 2", "sendMsgStatus -b broker-a -c 2", "checkMsgSendRT -t T -a 2"],
)
def test_a_refusal_by_all_has_its_own_status_and_hint(run: Rmqadmin, line: str) -> None:
    with Replayed(answers=[refuse]) as broker:
        ran = run("-o", "csv", *line.split(), "-n", broker.address)
    assert (ran.status, "broker-a" in ran.out) == (4, True)
    assert "(16 NO_PERMISSION)" in ran.err
    assert "hint: This server serves known users only" in ran.err


def test_a_refusal_of_some_is_part_of_an_answer(run: Rmqadmin) -> None:
    """The first message is one that sendMsgStatus does not show."""
    asked: list[Command] = []

    def refuse_the_third(request: Command) -> Command | None:
        if request.code not in OF_NAMESRV:
            asked.append(request)
            return Command(code=0, ext=STORED) if len(asked) <= 2 else refuse(request)
        return None

    with Replayed(answers=[refuse_the_third]) as broker:
        ran = run("sendMsgStatus", "-b", "broker-a", "-c", "2", "-n", broker.address)
    assert (ran.status, "1 of 2 messages failed" in ran.err) == (1, True), ran.err
