"""Every screen as text, with fixed data, at the sizes of SIZES (``tests/golden/tui``), and the pictures of docs/tui.md.
RMQADMIN_WRITE_GOLDENS=1 writes both anew; review the difference of the texts before you commit it."""

from __future__ import annotations

import contextlib
import math
import os
import re
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from itertools import groupby
from pathlib import Path
from xml.etree import ElementTree

import pytest
from textual.color import Color

from rmqadmin.tui.app_base import picture_of
from rmqadmin.tui.memory.history import SAMPLES_MAX, NumberHistory, Series
from rmqadmin.tui.widgets import frame
from rmqadmin.tui.widgets.tables import rows
from tests.rmqadmin.tui.fixed import DEAD_COUNT, DLQ, GROUP, NOW_MS, TOPIC, FixedSetClient
from tests.rmqadmin.tui.forms import fill
from tests.rmqadmin.tui.opened import Driver, at_row, put_cursor, put_cursor_at, without_ages
from tests.rmqadmin.tui.painted import cut_clauses, painted, said_by_color_alone, unreadable

GOLDEN_DIR = Path(__file__).parents[2] / "golden/tui"
PICTURE_DIR = Path(__file__).parents[3] / "docs/pictures"
SIZES = ((80, 24), (120, 40), (200, 60))
_PICTURE, _TWO_PANES = (120, 28), (160, 30)
PICTURED = {
    "pulse": _PICTURE, "cluster": _PICTURE, "topics": _PICTURE, "edit_topic": _PICTURE, "group": _PICTURE,
    "over_time": _PICTURE, "reset": _PICTURE, "dead_letters": _PICTURE, "dead_letter_messages": _PICTURE,
    "workbench": _TWO_PANES, "message_json": _PICTURE,
}  # fmt: skip
STEPS_SIZE = (214, 26)
"""The size for the steps to a screen, which wait for words that a small terminal would cut."""

STABLE_S = 1.0
"""How long a screen must stay unchanged before it is written."""

BLANK_LINES_MIN = 3
"""At least this many blank lines are written as a count."""


Steps = Callable[[Driver], Awaitable[None]]
Sizes = Sequence[tuple[int, int]]


pytestmark = pytest.mark.usefixtures("utc", "ageless", "sampled")


@pytest.fixture
def ageless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows grow old behind a dialog, and queues that stand still are stuck after some seconds. Both would depend on the
    machine's speed."""
    monkeypatch.setattr(rows, "monotonic", lambda: 0.0)
    monkeypatch.setattr(frame, "elapsed", lambda _: "0 s")  # a wider age leaves less room for the rest
    monkeypatch.setattr("rmqadmin.tui.screens.group.SAMPLE_DEFAULT_S", math.inf)


@pytest.fixture
def sizes(request: pytest.FixtureRequest) -> Sizes:
    """Those at which screens are compared: in the quick tests the smallest, which has the least room."""
    return SIZES[:1] if "not slow" in request.config.option.markexpr else SIZES


class Waves(NumberHistory):
    """A fixed history that ignores new samples."""

    def __init__(self) -> None:
        super().__init__()
        other = waves()
        self._samples, self._lacking = other._samples, other._lacking

    def add(self, series: Series, at_ms: int, value: float | None, lacking: Collection[str] = ()) -> None:
        pass


@pytest.fixture
def sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces the samples since the test's start by a fixed history of ten minutes."""
    monkeypatch.setattr("rmqadmin.tui.memory.pulse_memory.NumberHistory", Waves)


async def pulse(driver: Driver) -> None:
    """The pulse after a while."""
    await driver.until_shown("192.0.2.11:10911", "several members", "1,5", f"{DEAD_COUNT}")
    sampler = driver.app.sampler
    assert sampler is not None
    await driver.until(lambda: sampler.letters_s > 0)
    await driver.press("full_stop")
    await driver.until_shown("paused")
    await driver.until(lambda: all(feed.next_s is not None for feed in sampler.feeds))


def waves() -> NumberHistory:
    """Traffic that rises and falls, a group that falls behind, and a growing number of dead letters."""
    history = NumberHistory()
    for at in range(SAMPLES_MAX):
        wave = math.sin(at / 9) + math.sin(at / 4) / 3
        values = {
            Series("broker", "broker-a/0", "in_tps"): 1520.5 + 700 * wave,
            Series("broker", "broker-a/0", "out_tps"): 3.5 + 2 * wave,
            Series("broker", "broker-a/0", "disk_ratio"): 0.8012 - (SAMPLES_MAX - at) / 900,
            Series("broker", "broker-a/0", "put_ms"): 1.5 + (at % 40 == 0) * 4,
            Series("broker", "broker-b/0", "in_tps"): None,
            Series("group", GROUP, "lag_count"): 20 * at,
            Series("group", GROUP, "consumed"): 500 * at,
            Series("group", GROUP, "lag_ms"): 15_000 * at,
            Series("group", GROUP, "consume_tps"): 3.5 + 2 * wave,
            Series("queue", f"{GROUP}: {TOPIC}/broker-a/2", "lag_count"): 20 * at,
            Series("topic", TOPIC, "in_tps"): 1520.5 + 700 * wave,
            Series("topic", TOPIC, "out_tps"): 3.5 + 2 * wave,
            Series("dead letters", GROUP, "depth_count"): 4 * at // SAMPLES_MAX,
        }
        for series, value in values.items():
            history.add(series, NOW_MS - 2000 * (SAMPLES_MAX - at), value)
        lag = 9_462 - 20 * (SAMPLES_MAX - 1 - at)
        history.add(Series("cluster", "", "lag_count"), NOW_MS - 2000 * (SAMPLES_MAX - at), lag, ["broker-b"])
        silent = ["broker-b/0"] if at >= SAMPLES_MAX - 20 else []
        for field, value in (("in_tps", 1520.5 + 700 * wave), ("out_tps", 3.5 + 2 * wave)):
            history.add(Series("cluster", "", field), NOW_MS - 2000 * (SAMPLES_MAX - at), value, silent)
    return history


async def cluster(driver: Driver) -> None:
    await driver.press("c")
    await driver.until_shown("V5_5_0", "cannot connect")


async def broker(driver: Driver) -> None:
    await cluster(driver)
    await put_cursor(driver, "broker-a/0")
    await driver.press("enter")
    await driver.until_shown("brokerVersionDesc")


async def access(driver: Driver) -> None:
    await cluster(driver)
    await put_cursor(driver, "broker-a/0")
    await driver.press("p")
    await driver.until_shown("User:root", "4 entries")


async def topics(driver: Driver) -> None:
    await driver.press("t")
    await driver.until_shown("336,774", "3.5")
    await put_cursor(driver, "closed")


async def queues(driver: Driver) -> None:
    await topics(driver)
    await put_cursor(driver, TOPIC)
    await driver.press("enter")
    await driver.until_shown("112,258", "336,774 messages")


async def permissions(driver: Driver) -> None:
    await topics(driver)
    await driver.press("p")
    await driver.until_shown("keep")
    await driver.press("up")
    await driver.until_shown("R (4)  ", "RW (6)", "to go on")


async def edit_topic(driver: Driver) -> None:
    await topics(driver)
    await driver.press("e")
    await fill(driver, "perm", "RW")
    await driver.until_shown("perm", "RW (6)", "to go on")


async def groups(driver: Driver) -> None:
    await driver.press("g")
    await driver.until_shown("subscriptions differ", "may not consume")


async def group(driver: Driver) -> None:
    await at_row(driver, "g", GROUP, "enter")
    await driver.until_shown("owned twice", "does not answer", "never done")


async def over_time(driver: Driver) -> None:
    await groups(driver)
    await put_cursor(driver, GROUP)
    await driver.press("l")
    await driver.until_shown("arrivals over time", "lag time", "consumed/s")


async def rebalance(driver: Driver) -> None:
    await group(driver)
    await driver.press("3")
    await driver.until_shown("owned twice", "take each other's queues")


async def reset(driver: Driver) -> None:
    await group(driver)
    await driver.press("ctrl+r")
    await driver.enter("begin", into="field-to")
    await driver.until_shown("old offset", "to go on")


async def dead_letters(driver: Driver) -> None:
    await driver.press("d")
    await driver.until_shown("1h ago")


async def dead_letter_messages(driver: Driver) -> None:
    await dead_letters(driver)
    await driver.press("enter")
    await driver.until_shown("4 messages of 4")


async def workbench(driver: Driver) -> None:
    """Two letters are marked, and the one under the cursor is shown beside the list."""
    await dead_letter_messages(driver)
    await driver.pilot.resize_terminal(*_TWO_PANES)
    await put_cursor_at(driver, 1)
    await driver.press("space", "space")
    await driver.until_shown("2 marked", '"tailnum": "N13936"')


async def message_json(driver: Driver) -> None:
    await dead_letter_messages(driver)
    await put_cursor_at(driver, 3)
    await driver.press("enter")
    await driver.until_shown("route {2}")


async def message_text(driver: Driver) -> None:
    await dead_letter_messages(driver)
    await put_cursor_at(driver, 2)
    await driver.press("enter")
    await driver.until_shown("not JSON")


async def message_hex(driver: Driver) -> None:
    await message_text(driver)
    await driver.press("3")
    await driver.until_shown("00000010")


async def message_properties(driver: Driver) -> None:
    await message_text(driver)
    await driver.press("4")
    await driver.until_shown("ORIGIN_MESSAGE_ID")


async def message_record(driver: Driver) -> None:
    await message_text(driver)
    await driver.press("5")
    await driver.until_shown("body CRC")


async def message_trace(driver: Driver) -> None:
    await message_text(driver)
    await driver.press("7")
    await driver.until_shown("flights-out", "failed, retry 2")


async def client(driver: Driver) -> None:
    await group(driver)
    offsets = driver.app.focused
    await driver.press("tab")
    await driver.until(lambda: driver.app.focused is not offsets)
    await put_cursor_at(driver, 1)
    await driver.press("enter")
    await driver.until_shown("1 Queues", "commits")


async def subscriptions(driver: Driver) -> None:
    await client(driver)
    await driver.press("2")
    await driver.until_shown("UA || [/red]")


async def clients(driver: Driver) -> None:
    await driver.press("colon")
    await driver.enter("clients", into="command")
    await driver.until_shown("192.0.2.77@77", "consumed/s", "?")


async def sorted_by_lag(driver: Driver) -> None:
    await groups(driver)
    await driver.press("greater_than_sign", "greater_than_sign")
    await driver.until_shown("by lag, falling")


async def with_system(driver: Driver) -> None:
    await topics(driver)
    await driver.press("z")
    await driver.until_shown("TBW102", "8 topics")


async def search(driver: Driver) -> None:
    await driver.press("s")
    await driver.enter(DLQ, into="topic")
    await driver.enter("[/red]", into="wanted")
    await driver.until_shown("1 message of")


async def keys(driver: Driver) -> None:
    await topics(driver)
    await driver.press("question_mark")
    await driver.until_shown("where the cursor is", "Page down")


async def filtered(driver: Driver) -> None:
    await topics(driver)
    await driver.press("slash")
    for character in "!/^%|sys/":  # the cursor goes to the first row that the half of it leaves
        await driver.type(character, into="filter")
    await driver.until_shown("5 of 6 topics")


SCREENS: list[Steps] = [
    pulse, cluster, broker, access, topics, queues, permissions, edit_topic, groups, group, over_time, rebalance, reset,
    dead_letters, dead_letter_messages, workbench, message_json, message_text, message_hex, message_properties,
    message_record, message_trace, client, subscriptions, clients, sorted_by_lag, with_system, search, filtered, keys,
]  # fmt: skip


ONE_OF_EACH_KIND: list[Steps] = [pulse, topics, group, over_time, message_json]
"""What the quick tests draw: parts, a list, a thing, a plot and one message."""


@pytest.mark.parametrize(
    "steps",
    [each if each in ONE_OF_EACH_KIND else pytest.param(each, marks=pytest.mark.slow) for each in SCREENS],
    ids=lambda steps: steps.__name__,
)
@pytest.mark.dashboard(size=STEPS_SIZE, now_ms=NOW_MS, interval_s=2.0)
async def test_screen(driver: Driver, steps: Steps, sizes: Sizes) -> None:
    name = steps.__name__
    await steps(driver)
    await compare(name, driver, sizes)
    await can_be_read(driver)
    assert not said_by_color_alone(driver)
    if name in PICTURED:
        await compare_picture(name, driver)


@pytest.mark.dashboard(make_client=FixedSetClient, size=STEPS_SIZE, now_ms=NOW_MS, interval_s=2.0)
async def test_masters(driver: Driver, sizes: Sizes) -> None:
    await driver.press("c")
    await driver.until_shown("broker-a")
    await driver.press("5")
    await driver.until_shown("2 of 3 are in sync", "300.0 MiB", "3m05s", "not in sync", "Changes: 0")
    await compare("masters", driver, sizes)


@pytest.mark.slow
@pytest.mark.parametrize(
    "steps",
    [pulse, topics, groups, group, edit_topic, permissions, message_json, client],
    ids=lambda each: each.__name__,
)
@pytest.mark.dashboard(size=STEPS_SIZE, now_ms=NOW_MS, interval_s=2.0)
async def test_every_text_can_be_read_in_every_theme(driver: Driver, steps: Steps) -> None:
    await steps(driver)
    for name, theme in driver.app.available_themes.items():
        if Color.parse(theme.primary).ansi is not None:
            continue
        driver.app.theme = name
        variables = driver.app.get_css_variables()
        grounds = {Color.parse(variables["panel"]), Color.parse(variables["surface"])}
        await driver.until(lambda grounds=grounds: any(ground in grounds for _, _, ground in painted(driver)))
        await can_be_read(driver)


@pytest.mark.slow
@pytest.mark.dashboard(size=STEPS_SIZE, now_ms=NOW_MS, interval_s=2.0, read_only=True)
async def test_read_only(driver: Driver, sizes: Sizes) -> None:
    await topics(driver)
    await compare("read_only", driver, sizes)


def writes() -> bool:
    return bool(os.environ.get("RMQADMIN_WRITE_GOLDENS"))


async def can_be_read(driver: Driver) -> None:
    """Waits until the colours are readable: a cursor in an input blinks."""
    with contextlib.suppress(AssertionError):  # the assertion below shows the difference
        await driver.until(lambda: not unreadable(driver))
    assert not unreadable(driver), driver.app.theme


async def compare(name: str, driver: Driver, sizes: Sizes) -> None:
    """Waits until the screen equals the golden one at each size: answers and lines may still be on their way."""
    path = GOLDEN_DIR / f"{name}.txt"
    if writes():
        texts = []
        for size in SIZES:
            await driver.pilot.resize_terminal(*size)
            texts.append(await stable(driver))
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(map(section, SIZES, texts)))
    golden = path.read_text()
    for size in sizes:
        await driver.pilot.resize_terminal(*size)
        with contextlib.suppress(AssertionError):  # the assertion below shows the difference
            await driver.until(lambda size=size: section(size, golden_text(driver)) in golden)
        shown = section(size, golden_text(driver))
        assert shown in golden, f"shown instead:\n{shown}"
        assert not cut_clauses(driver)


async def stable(driver: Driver) -> str:
    """The screen once it has not changed for a while."""
    text, since_s = "", time.monotonic()
    while time.monotonic() - since_s < STABLE_S:
        await driver.pilot.pause(0.05)
        if golden_text(driver) != text:
            text, since_s = golden_text(driver), time.monotonic()
    return text


def section(size: tuple[int, int], text: str) -> str:
    return f"--- {size[0]} x {size[1]}\n{text}"


def golden_text(driver: Driver) -> str:
    lines: list[str] = []
    for is_blank, run in groupby(without_ages(driver.text).splitlines(), lambda line: not line):
        found = list(run)
        lines += [f"({len(found)} blank lines)"] if is_blank and len(found) >= BLANK_LINES_MIN else found
    return "".join(line + "\n" for line in lines)


@pytest.mark.parametrize("path", sorted(GOLDEN_DIR.glob("*.txt")), ids=lambda path: path.stem)
def test_how_to_learn_the_keys_is_always_said(path: Path) -> None:
    """At 80 x 24 the line of keys used to end before them. Dialogs and inputs have their own keys."""
    last_lines = [one.splitlines()[-1] for one in re.split("^--- .*\n", path.read_text(), flags=re.MULTILINE)[1:]]
    assert len(last_lines) == len(SIZES)
    if not last_lines[0].endswith(("Inherit", "esc  Close", "esc Close", "esc No filter")):
        assert all("? Keys" in line for line in last_lines), last_lines


BASE_KEYS = {"⏎ Open", "? Keys", "/ Filter", "esc Back", "q Quit"}


@pytest.mark.parametrize("path", sorted(GOLDEN_DIR.glob("*.txt")), ids=lambda path: path.stem)
def test_the_four_keys_of_a_screen_that_come_first_fit_at_80_columns(path: Path) -> None:
    narrow, *_, wide = (
        re.split("  +", one.splitlines()[-1]) for one in re.split("^--- .*\n", path.read_text(), flags=re.MULTILINE)[1:]
    )
    own = [key for key in wide if key not in BASE_KEYS]
    assert own[:4] == [key for key in narrow if key in own][:4]


# --- pictures --------------------------------------------------------------------------------------------------------


async def compare_picture(name: str, driver: Driver) -> None:
    """The manual's picture shows the same as the screen."""
    await driver.pilot.resize_terminal(*PICTURED[name])
    path = PICTURE_DIR / f"tui-{name.replace('_', '-')}.svg"
    if writes():
        await stable(driver)
        path.write_text(picture_of(driver.app))
    picture = without_blanks("".join(ElementTree.fromstring(path.read_text()).itertext()))
    with contextlib.suppress(AssertionError):
        await driver.until(lambda: without_blanks(driver.text) in picture)
    assert without_blanks(driver.text) in picture


def without_blanks(text: str) -> str:
    return "".join(without_ages(text.replace("\xa0", " ")).split())
