"""A change that ends badly keeps its way back, unless certainly nothing was changed."""

import shlex
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from rmqadmin.core.offsets import reset_undo
from rmqclient.admin import AdminClient
from rmqclient.blocking import BlockingClient
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import ConnectError, NotConnectedError, RefusedError, RequestTimeoutError, RocketMQError
from tests.rmqadmin.conftest import CLUSTER, Rmqadmin, filled
from tests.support.quick import first_is_quick
from tests.support.servers import Fresh, Server

BROKE = ConnectError("the connection broke")
SILENT = RequestTimeoutError("no answer in time")
STOPPED = KeyboardInterrupt()
CRASHED = RefusedError(ResponseCode.SYSTEM_ERROR, "java.lang.NullPointerException")
AWAY = NotConnectedError("cannot connect")
FORBIDDEN = RefusedError(ResponseCode.NO_PERMISSION, "no permission")

TOLD = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
READ_BACK = RequestCode.QUERY_CONSUMER_OFFSET

Fault = Callable[..., AbstractContextManager[None]]


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> Fault:
    """``with fault(code, error, after=code)``: answers to requests of this code are lost, from the first request
    ``after`` on; before that, everything works. With ``unsent`` the requests are lost, too."""

    @contextmanager
    def faulty(code: RequestCode, error: BaseException, after: RequestCode, *, unsent: bool = False) -> Iterator[None]:
        real = BlockingClient.request
        seen: set[int] = set()

        def request(self: BlockingClient, address: str, asked: int, *args: Any, **named: Any) -> Any:
            seen.add(asked)
            if asked != code or after not in seen:
                return real(self, address, asked, *args, **named)
            if not unsent:
                real(self, address, asked, *args, **named)
            if isinstance(error, RocketMQError):
                error.hint = None  # that of an earlier test
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(BlockingClient, "request", request)
            yield

    return faulty


@pytest.fixture
def topic(server: Server, fresh: Fresh) -> str:
    """A topic of two queues with two messages each."""
    return filled(server, fresh("BackTopic"), 2, 2)


@pytest.fixture
def group(rmqadmin: Rmqadmin, server: Server, fresh: Fresh, topic: str) -> str:
    """It stands at 1 in both queues."""
    name = fresh("BackGroup")
    assert rmqadmin("updateSubGroup", "-c", CLUSTER, "-g", name).status == 0
    with AdminClient(server.namesrv_addr) as admin:
        for queue_id in (0, 1):
            admin.update_consumer_offset(server.broker_addr, name, topic, queue_id, 1)
    return name


def stands(server: Server, group: str, topic: str) -> list[int | None]:
    with AdminClient(server.namesrv_addr) as admin:
        return [admin.consumer_offset(server.broker_addr, group, topic, queue_id) for queue_id in (0, 1)]


def way_back(text: str) -> list[str]:
    """The command that a text names."""
    (line,) = [line for line in text.splitlines() if "undo" in line]
    return shlex.split(line[line.index("rmqadmin ") :])[1:]


RESETS = [
    ["resetOffset", "--to", "end"], ["resetOffset", "--to", "+1"], ["resetOffsetByTime", "-s", "-1"],
    ["skipAccumulatedMessage"],
]  # fmt: skip


@pytest.mark.parametrize("command", first_is_quick(RESETS), ids=" ".join)
@pytest.mark.parametrize(
    ("code", "error", "status"),
    [
        (TOLD, SILENT, 6), (TOLD, BROKE, 3), (TOLD, STOPPED, 130), (TOLD, CRASHED, 1),
        (READ_BACK, SILENT, 1), (READ_BACK, BROKE, 1), (READ_BACK, STOPPED, 130),
    ],
)  # fmt: skip
def test_a_reset_that_may_have_been_done_names_its_undo_file(
    rmqadmin: Rmqadmin, server: Server, group: str, topic: str, fault: Fault,
    command: list[str], code: RequestCode, error: BaseException, status: int,
) -> None:  # fmt: skip
    """The undo file was deleted as if nothing had been changed, also if only reading back failed; after Ctrl-C it was
    not named."""
    with fault(code, error, after=TOLD):
        ran = rmqadmin(*command, "-g", group, "-t", topic)
    assert ran.status == status
    assert stands(server, group, topic)[0] == 2
    assert rmqadmin(*way_back(ran.err), "--yes").status == 0
    assert stands(server, group, topic) == [1, 1]


@pytest.mark.parametrize(("error", "status"), [(AWAY, 3), (FORBIDDEN, 4)])
def test_a_reset_that_was_certainly_not_done_leaves_no_undo_file(
    rmqadmin: Rmqadmin, group: str, topic: str, fault: Fault, error: BaseException, status: int
) -> None:
    with fault(TOLD, error, after=TOLD, unsent=True):
        ran = rmqadmin("resetOffset", "-g", group, "-t", topic, "--to", "end")
    assert ran.status == status
    assert "--undo" not in ran.err
    assert list(reset_undo.undo_dir().iterdir()) == []


def test_a_reset_that_was_told_names_every_queue_whose_offset_could_not_be_read_back(
    rmqadmin: Rmqadmin, group: str, topic: str, fault: Fault
) -> None:
    with fault(READ_BACK, SILENT, after=TOLD):
        ran = rmqadmin("-o", "json", "resetOffset", "-g", group, "-t", topic, "--to", "end")
    assert [row["done"] for row in ran.items] == [False, False]
    assert all("could not be read back: no answer in time" in row["error"] for row in ran.items)
    assert Path(ran.document["summary"]["undo_file"]).exists()


def test_an_undo_and_a_clone_name_their_way_back_as_well(
    rmqadmin: Rmqadmin, server: Server, group: str, topic: str, fault: Fault, fresh: Fresh
) -> None:
    other = fresh("BackGroup")
    assert rmqadmin("updateSubGroup", "-c", CLUSTER, "-g", other).status == 0
    assert rmqadmin("resetOffset", "-g", other, "-t", topic, "--to", "begin").status == 0
    with fault(TOLD, STOPPED, after=TOLD):
        ran = rmqadmin("cloneGroupOffset", "-s", group, "-d", other, "-t", topic)
    assert ran.status == 130
    assert stands(server, other, topic) == [1, 0]
    with fault(TOLD, SILENT, after=TOLD):
        undone = rmqadmin(*way_back(ran.err), "--yes")
    assert undone.status == 6
    assert stands(server, other, topic)[0] == 0
    assert rmqadmin(*way_back(undone.err), "--yes").status == 0
    assert stands(server, other, topic) == [1, 0]


# --- topics and groups -----------------------------------------------------------------------------------------------


def read_queue_nums(server: Server, topic: str) -> int:
    with AdminClient(server.namesrv_addr) as admin:
        return admin.topic_config(server.broker_addr, topic).read_queue_nums


MANIFEST = "topics:\n  {topic}: {{readQueueNums: 4, writeQueueNums: 4}}\n"


@pytest.mark.parametrize("command", ["apply", "updateTopic"])
@pytest.mark.parametrize(("error", "status"), [(SILENT, 6), (BROKE, 3), (STOPPED, 130), (CRASHED, 1)])
def test_a_configuration_that_may_have_been_changed_can_be_changed_back(
    rmqadmin: Rmqadmin, server: Server, topic: str, fault: Fault, tmp_path: Path,
    command: str, error: BaseException, status: int,
) -> None:  # fmt: skip
    """`apply` deleted its undo file, and updateTopic wrote none."""
    file = tmp_path / "wanted.yaml"
    file.write_text(MANIFEST.format(topic=topic))
    words = {
        "apply": ["apply", "-f", str(file), "--yes"],
        "updateTopic": ["updateTopic", "-t", topic, "-r", "4", "-w", "4"],
    }
    code = RequestCode.UPDATE_AND_CREATE_TOPIC
    with fault(code, error, after=code):
        ran = rmqadmin(*words[command], "-c", CLUSTER)
    assert ran.status == status
    assert read_queue_nums(server, topic) == 4
    assert rmqadmin(*way_back(ran.err), "--yes", "-c", CLUSTER).status == 0
    assert read_queue_nums(server, topic) == 2


@pytest.mark.parametrize(("error", "status"), [(AWAY, 3), (FORBIDDEN, 4)])
def test_a_configuration_that_certainly_was_not_changed_has_no_way_back(
    rmqadmin: Rmqadmin, topic: str, fault: Fault, tmp_path: Path, error: RocketMQError, status: int
) -> None:
    file = tmp_path / "wanted.yaml"
    file.write_text(MANIFEST.format(topic=topic))
    code = RequestCode.UPDATE_AND_CREATE_TOPIC
    with fault(code, error, after=code, unsent=True):
        ran = rmqadmin("apply", "-f", str(file), "--yes", "-c", CLUSTER)
    assert ran.status == status
    assert "undo" not in ran.err
    assert not reset_undo.undo_dir().exists() or list(reset_undo.undo_dir().iterdir()) == []


def test_a_write_permission_that_may_be_gone_names_the_command_that_gives_it_back(
    rmqadmin: Rmqadmin, fault: Fault
) -> None:
    code = RequestCode.WIPE_WRITE_PERM_OF_BROKER
    with fault(code, STOPPED, after=code):
        ran = rmqadmin("wipeWritePerm", "-b", "broker-a")
    assert ran.status == 1
    assert "interrupted: whether it was done is unknown" in ran.out
    assert rmqadmin(*way_back(ran.err)).status == 0
