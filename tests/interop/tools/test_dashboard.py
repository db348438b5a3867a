"""The dashboard on real clusters. Its keys open every screen, for a group with a Java and a Python member and a dead
letter from a Java listener. What it does on ours alone, with every detail, is in ``tests/rmqadmin/tui``; changes are in
``test_dashboard_changes`` and ``guarded/test_dashboard_access``, lost servers in ``test_dashboard_gone``.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from rmqadmin.tui.settings import Reach
from rmqadmin.tui.widgets.tables.row_table import RowTable
from tests.rmqadmin.tui.opened import Driven, Driver, clients_of, drive, put_cursor
from tests.rmqadmin.tui.painted import said_by_color_alone, unreadable
from tests.support.python_member import PythonMember
from tests.support.servers import Fresh

from ..cluster import BROKER_NAME, CLUSTER_NAME, Cluster
from ..events import Outgoing
from ..witness import Witness, eventually

pytestmark = pytest.mark.interop

QUEUES = 4
WIDE = (190, 40)
SIZES = ((80, 24), (120, 40), (200, 60))
BAD_BODY = b'{"flight": "RM 404", "gate": {"text": "[/red]"}, "price": 10.50}'
MESSAGES = [
    Outgoing(body=b'{"n": %d}' % at, tags="Good", keys=f"order-{at}", queue_id=at % QUEUES) for at in range(2 * QUEUES)
]
BAD = Outgoing(body=BAD_BODY, tags="Bad", keys="order-bad", queue_id=1, properties={"airport": "ZRH"})
MESSAGE_COUNT = len(MESSAGES) + 1


@dataclass
class Scene:
    """``group`` has two members and has consumed all of ``topic``, except one message that is its dead letter. ``late``
    is offline and has consumed one message of each queue."""

    cluster: Cluster
    topic: str
    group: str
    late: str
    java_client_id: str
    python_client_id: str

    def drive(self, test: Driven, size: tuple[int, int] = WIDE) -> None:
        drive(clients_of(self.cluster.namesrv_addr), test, size=size, reach=Reach(["-n", self.cluster.namesrv_addr]))


@pytest.fixture(scope="module")
def scene(cluster: Cluster, _witnesses: Callable[[str], Witness], fresh: Fresh) -> Iterator[Scene]:
    java = _witnesses("JSON")
    topic = java.create_topic(fresh("a-DashboardTopic"), queues=QUEUES)
    group, late = java.create_group(fresh("a-DashboardGroup")), java.create_group(fresh("a-DashboardLate"))
    member = java.consume(group, topic, fail_tag="Bad", retry_delay_level=-1)
    java.send(topic, [*MESSAGES, BAD])
    member.until_count(MESSAGE_COUNT)
    java.read_all(f"%DLQ%{group}", 1)
    eventually(lambda: java.query_key(topic, "order-3"), 1)
    for queue_id in range(QUEUES):
        java.commit(late, topic, queue_id, 1)
    with PythonMember(cluster.namesrv_addr, group, topic) as ours:
        wanted = QUEUES // 2
        for client_id in (ours.client_id, member.client_id):
            eventually(lambda client_id=client_id: [0] * (len(java.assigned(group, topic, client_id)) == wanted), 1)  # type: ignore[misc]
        yield Scene(cluster, topic, group, late, member.client_id, ours.client_id)
        member.stop()


@pytest.fixture(autouse=True)
def state_home(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the place of undo files."""
    monkeypatch.setenv("XDG_STATE_HOME", str(cluster.work / "state"))


def line_of(driver: Driver, *texts: str) -> str:
    return next((line for line in driver.lines if all(text in line for text in texts)), "")


async def at_row(driver: Driver, screen_key: str, row: str) -> None:
    await driver.press(screen_key)
    await put_cursor(driver, row)


def test_cluster_topics_queues_and_messages(scene: Scene) -> None:
    async def test(driver: Driver) -> None:
        await driver.press("c")
        await driver.until_shown(CLUSTER_NAME, BROKER_NAME, "V5_5_0", scene.cluster.broker_addr, "active")
        await at_row(driver, "t", scene.topic)
        await driver.until(
            lambda: line_of(driver, f" {scene.topic} ").split()[1:7] == ["-", "RW", "(6)", "4", "1", str(MESSAGE_COUNT)]
        )
        await driver.press("enter")
        await driver.until_shown(f"Topics › {scene.topic}", f"{QUEUES} queues, {MESSAGE_COUNT} messages")
        await put_cursor(driver, f"{BROKER_NAME}/1")
        await driver.press("enter")
        await driver.until_shown(f"{BROKER_NAME} queue 1", "3 messages of 3", "order-1", "order-5", "order-bad")

    scene.drive(test)


def test_a_broker_without_users_says_so(scene: Scene) -> None:
    async def test(driver: Driver) -> None:
        await at_row(driver, "c", f"{BROKER_NAME}/0")
        await driver.press("p")
        await driver.until_shown("ACL 1.0 off")
        if scene.cluster.name == "apache":
            await driver.until_shown("broker-a keeps no users", "no ACL")
        else:
            await driver.until_shown("0 entries")  # it keeps users, but has none
        assert "again in" not in driver.text, "asking again would not help"

    scene.drive(test)


def test_what_members_say_of_themselves(scene: Scene) -> None:
    async def test(driver: Driver) -> None:
        for client_id in (scene.java_client_id, scene.python_client_id):
            await at_row(driver, "g", scene.group)
            await driver.press("enter")
            await driver.until_shown("Members: 2")
            await driver.press("tab")
            await driver.until(lambda: driver.app.screen.query(RowTable).last().all_count == 2)
            driver.app.screen.query(RowTable).last().move_to(client_id)
            await driver.press("enter")
            await driver.until_shown("1 Queues", f"{scene.topic} {BROKER_NAME} ", client_id)
            await driver.press("2")
            await driver.until_shown("subscription", scene.topic)
            await driver.press("3")
            await driver.until_shown("PROP_CONSUME_TYPE")
            if client_id == scene.java_client_id:
                await driver.press("b")
                await driver.until_shown("ConsumeMessageThread", "java.lang.Thread")
            await driver.press("escape", "escape")

    scene.drive(test)


def test_down_to_a_dead_letter_in_every_form(scene: Scene) -> None:
    async def test(driver: Driver) -> None:
        await at_row(driver, "d", scene.group)
        await driver.until(lambda: line_of(driver, f" {scene.group} ").split()[1:2] == ["1"])
        await driver.press("enter")
        await driver.until_shown("origin topic", scene.topic, "order-bad", "1 message of 1")
        await driver.press("enter")
        await driver.until_shown("▼ {3}", 'flight "RM 404"', 'text "[/red]"', "price 10.50", "tag Bad")
        for key, texts in {
            "2": [BAD_BODY.decode()],
            "3": ["00000000  7b 22 66 6c 69 67 68 74"],
            "4": ["RETRY_TOPIC", "ORIGIN_MESSAGE_ID", "airport", "ZRH"],
            "5": ["intact", "queue offset", f"{len(BAD_BODY)} bytes, not compressed"],
            "6": ["what became of it"],
            "7": ["tracing is off"],
        }.items():
            await driver.press(key)
            await driver.until_shown(*texts)

    scene.drive(test)


def is_told(driver: Driver, client_id: str, language: str) -> bool:
    return any(client_id in line and language in line.split() for line in driver.lines)


def test_a_group_and_which_client_has_which_queue(scene: Scene) -> None:
    async def test(driver: Driver) -> None:
        await at_row(driver, "g", scene.late)
        await driver.until(lambda: "offline" in line_of(driver, f" {scene.late} "))
        assert line_of(driver, f" {scene.late} ").split()[1] == str(MESSAGE_COUNT - QUEUES)
        await put_cursor(driver, scene.group)
        await driver.until(lambda: "balanced" in line_of(driver, f" {scene.group} "))
        await driver.until(lambda: line_of(driver, f" {scene.group} ").split()[1] == "0")
        await driver.press("enter")
        await driver.until_shown("Members: 2", "queues balanced")
        owners = [line.split()[-1] for line in driver.lines if line.split()[:1] == [scene.topic]]
        assert sorted(owners) == sorted([scene.java_client_id, scene.python_client_id] * (QUEUES // 2))
        await driver.press("2")
        languages = {scene.java_client_id: "java", scene.python_client_id: "python"}
        await driver.until(lambda: all(is_told(driver, *each) for each in languages.items()))

    scene.drive(test, size=(260, 40))


# --- at every size ---------------------------------------------------------------------------------------------------


def test_every_screen_can_be_read_at_every_size(scene: Scene) -> None:
    """Every screen has its fixed last line and enough contrast, and says nothing by color alone."""
    named = scene.group[:8], scene.topic[:8]  # ids and names may be shortened in the middle

    async def test(driver: Driver) -> None:
        await looks(driver, BROKER_NAME, "Wrong", "Changes")
        await at_row(driver, "c", f"{BROKER_NAME}/0")
        await looks(driver, "V5_5_0", "active")
        for key, seen in (("enter", "getTotalTps"), ("p", "ACL 1.0 off"), ("5", "master")):
            await driver.press(key)
            await looks(driver, seen)
            await driver.press("escape")
        await at_row(driver, "t", scene.topic)
        await looks(driver, named[1], str(MESSAGE_COUNT))
        await driver.press("enter")
        await looks(driver, f"{QUEUES} queues")
        await driver.press("m")
        await looks(driver, f"{MESSAGE_COUNT} messages of {MESSAGE_COUNT}", "order-")
        await at_row(driver, "g", scene.group)
        await looks(driver, named[0], "balanced")
        await driver.press("l")
        await looks(driver, "lag time", "consumed/s")
        await driver.press("escape", "enter")
        await looks(driver, "Members: 2", "queues balanced")
        await driver.press("3")
        await looks(driver, "every queue has its member", "Changes: ")
        await at_row(driver, "d", scene.group)
        await looks(driver, named[0])
        await driver.press("enter")
        await looks(driver, "1 message of 1", "order-bad")
        await driver.press("enter")
        await looks(driver, "flight", "RM 404")
        for key in "46":
            await driver.press(key)
            await looks(driver, "order-bad")

    scene.drive(test)


async def looks(driver: Driver, *seen: str) -> None:
    """At each size, waits for the texts, then checks the looks."""
    for size in SIZES:
        await driver.pilot.resize_terminal(*size)
        await driver.until_shown(*seen)
        await driver.until(lambda: "? Keys" in driver.text.splitlines()[-1])
        await driver.until(lambda: not unreadable(driver))
        assert not said_by_color_alone(driver)
