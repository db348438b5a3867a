"""Samples the cluster while the dashboard runs, whatever screen is on top, so that the log knows what changed while
nobody looked. It has its own feeds, which ask less often while no screen shows their results.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from rmqadmin.core.alerts.alert_rules import Condition
from rmqadmin.core.health.finding import SubjectKind
from rmqadmin.tui.memory.pulse_memory import PulseMemory
from rmqadmin.tui.refresh import Feed
from rmqadmin.tui.sources import brokers, groups, messages, pulse, topics
from rmqadmin.tui.sources.found import lacks_text
from rmqproto.errors import RocketMQError
from rmqproto.names import DLQ_PREFIX

if TYPE_CHECKING:
    from rmqadmin.core.alerts.alert_rules import AlertRule
    from rmqadmin.tui.memory.cluster import ClusterMemory
    from rmqadmin.tui.memory.readings import GroupState
    from rmqadmin.tui.recording.recording_file import RecordingWriter
    from rmqadmin.tui.settings import ClientMaker

UNSEEN_BROKERS_MIN_S, UNSEEN_GROUPS_MIN_S = 5.0, 30.0
"""The shortest intervals while no screen shows the results."""

SERVERS_MIN_S = 4.0
"""The shortest interval between two looks at each name server."""

GROUPS_MIN_S = 5.0
GROUPS_BUSY_RATIO = 0.05
"""The largest share of the time spent on asking for all groups: a large cluster is asked less often."""

LETTERS_ASKED_MAX = 20
"""How many dead-letter topics each round asks about, least recently asked first."""

RATES_ASKED_MAX = 20
"""How many topics whose rate an alert needs each round asks about."""

TABLES_MIN_S = 10.0
TABLES_ASKED_MAX = 20
"""How many topics and groups each round asks about for a recording, whatever screen is on top."""

PLACES_EVERY_MS = 60_000
"""How often brokers are asked for the names of their topics and groups. A new broker is asked at once."""

MEMBERS_ASKED_MAX = 4
"""How many groups have their members asked in each round: those furthest behind, then those least recently asked."""

SETS_MIN_S, WRONG_SETS_MIN_S = 60.0, 10.0
"""How often masters, slaves and controllers are asked about each other, and how often while one is wrong. They are
asked at once when a broker goes or comes."""


class Sampler:
    """The caller runs its ``feeds``. ``changed`` is called in the loop whenever there is something new."""

    def __init__(
        self,
        make_client: ClientMaker,
        memory: ClusterMemory,
        now_ms: Callable[[], int],
        interval_s: Callable[[], float],
        changed: Callable[[], None],
        alert_rules: Sequence[AlertRule] = (),
        recording: RecordingWriter | None = None,
    ):
        """``memory`` is of the servers that its clients ask. ``interval_s`` returns the dashboard's interval."""
        self.pulse = PulseMemory(now_ms, alert_rules)
        self._memory = memory
        self._interval_s = interval_s
        self._changed = changed
        self._is_seen = False
        self._groups_took_s = 0.0
        self._states: list[GroupState] = []
        """Of the groups whose members were asked last."""
        self._answering: set[str] | None = None
        """The brokers that answered last; None if none was asked yet."""
        self._placed: set[str] = set()
        self._placed_ms = 0
        self._letters_turns, self._members_turns, self._rates_turns, self._tables_turns = (_Turns() for _ in range(4))
        self.brokers_s = self.groups_s = self.letters_s = 0.0
        """``time.monotonic()`` of the latest reading of each; 0 if there is none."""
        self._now_ms = now_ms
        self._recording = recording
        self._takes: dict[str, Callable[[Feed], Coroutine[Any, Any, None]]] = {
            "brokers": self._take_brokers, "groups": self._take_groups, "name servers": self._take_name_servers,
            "members": self._take_members, "sets": self._take_sets, "tables": self._take_tables,
        }  # fmt: skip
        """How each part is read, by its name in recordings."""
        intervals_s = {
            "brokers": self._brokers_interval_s, "name servers": lambda: max(SERVERS_MIN_S, self._brokers_interval_s()),
            "members": lambda: max(self._groups_interval_s(), groups.members_interval_s(*self._states)),
            "sets": lambda: max(WRONG_SETS_MIN_S if self.pulse.is_set_wrong else SETS_MIN_S, interval_s()),
            "tables": lambda: max(TABLES_MIN_S, interval_s()),
        }  # fmt: skip
        self._feeds = {
            part: Feed(
                make_client(read_only=True), partial(self._take, part), changed,
                intervals_s.get(part, self._groups_interval_s),
            )
            for part in self._takes
        }  # fmt: skip
        for part in self._takes.keys() - {"brokers", "groups"}:
            self._feeds[part].client.answer_wait_max_s = groups.MEMBER_WAIT_MAX_S

    @property
    def feeds(self) -> list[Feed]:
        return [feed for part, feed in self._feeds.items() if part != "tables" or self._recording is not None]

    @property
    def shown_feeds(self) -> list[Feed]:
        """The feeds whose age is the age of the pulse. The members' feed is not one, because it asks a few groups at a
        time."""
        return [self._feeds["brokers"], self._feeds["groups"]]

    async def _take(self, part: str, feed: Feed) -> None:
        """Takes a reading, and records it. A step of the recording spans the time between two readings of the brokers.
        A thread packs it."""
        try:
            await self._takes[part](feed)
        finally:
            if self._recording is not None and part == "brokers":
                await asyncio.to_thread(self._recording.end_step, self._now_ms())
            elif self._recording is not None:
                self._recording.taken(self._now_ms(), part)

    @property
    def error(self) -> str | None:
        """Why the latest reading of brokers or groups failed."""
        return next((feed.error for feed in self.shown_feeds if feed.error), None)

    def show(self, is_seen: bool) -> None:
        """Tells whether a screen shows the results. If one does, the feeds ask now, and more often."""
        if is_seen and not self._is_seen:
            for feed in self.feeds:
                feed.want()
        self._is_seen = is_seen

    def pause(self, paused: bool) -> None:
        for feed in self.feeds:
            feed.pause(paused)

    # --- intervals ---------------------------------------------------------------------------------------------------

    def _brokers_interval_s(self) -> float:
        interval_s = self._interval_s()
        return interval_s if self._is_seen else max(interval_s, UNSEEN_BROKERS_MIN_S)

    def _groups_interval_s(self) -> float:
        wanted_s = max(GROUPS_MIN_S if self._is_seen else UNSEEN_GROUPS_MIN_S, self._interval_s())
        busy_s = self._groups_took_s / GROUPS_BUSY_RATIO
        if any(self._memory.gone_text(name) is None for name in self.pulse.groups.lacks):
            busy_s = min(busy_s, UNSEEN_GROUPS_MIN_S)  # waiting for a silent broker makes no work for anybody
        return max(wanted_s, busy_s)

    # --- readings ----------------------------------------------------------------------------------------------------

    async def _take_brokers(self, feed: Feed) -> None:
        try:
            seen, facts = await feed.ask(pulse.read_brokers, self._memory)
        except RocketMQError as error:
            self.pulse.brokers.take_silence(str(error))
            self._answering = set()
            raise
        self.pulse.take_brokers(seen, facts)
        self.brokers_s = time.monotonic()
        answering = {key for key, reading in facts.items() if reading.error is None}
        is_more = self.pulse.groups.lacks if self._answering is None else answering - self._answering
        if is_more:
            self._feeds["groups"].want()  # sums must include the broker that answers now
        if self._answering is not None and answering != self._answering:
            self._feeds["sets"].want()
        self._answering = answering

    async def _take_name_servers(self, feed: Feed) -> None:
        self.pulse.brokers.take_name_servers(await feed.ask(pulse.read_name_servers, self._memory))

    async def _take_groups(self, feed: Feed) -> None:
        memory = self._memory
        began_s = time.monotonic()
        lags = await feed.ask(pulse.read_lags, memory)
        self._groups_took_s = time.monotonic() - began_s
        self.pulse.take_lags(lags)
        self.pulse.take_worst(await feed.ask(pulse.read_worst, memory, lags.groups))
        self.groups_s = time.monotonic()
        feed.problems = lacks_text(lags.lacks)
        self._changed()
        known_topics, broker_names = await feed.ask(pulse.read_topic_names, memory)
        self.pulse.take_topics(known_topics, broker_names)
        wanted = self.pulse.alerts.wanted(Condition.ZERO_RATE, "topic", known_topics)
        if rated := self._rates_turns.next(wanted, RATES_ASKED_MAX):
            self.pulse.take_rows(SubjectKind.TOPIC, await feed.ask(pulse.read_topic_rows, memory, rated))
        with_letters = [topic.removeprefix(DLQ_PREFIX) for topic in known_topics if topic.startswith(DLQ_PREFIX)]
        asked = {group: DLQ_PREFIX + group for group in self._letters_turns.next(with_letters, LETTERS_ASKED_MAX)}
        self.pulse.take_letters(with_letters, await feed.ask(messages.read_depths, memory, asked))
        if not self.letters_s:
            self._feeds["members"].want()  # now there are groups
        self.letters_s = time.monotonic()
        await self._take_places(feed)

    async def _take_places(self, feed: Feed) -> None:
        """Reads which topics and groups each broker has, whatever screen is open, so that this is known when a broker
        is gone."""
        answering, now_ms = self._answering or set(), self._now_ms()
        if answering <= self._placed and now_ms - self._placed_ms < PLACES_EVERY_MS:
            return
        with suppress(RocketMQError):  # a screen that needs it also asks, and shows the error
            await feed.ask(topics.read_places, self._memory)
            await feed.ask(groups.read_places, self._memory)
            self._placed, self._placed_ms = answering, now_ms

    async def _take_members(self, feed: Feed) -> None:
        """Asks the groups one by one, so that a silent member does not hold up the groups before its own."""
        known = self.pulse.groups.lags or {}
        worst = list(self.pulse.groups.worst_lines())
        others = [group for group in known if group not in worst]
        asked = self._members_turns.next(others, MEMBERS_ASKED_MAX)
        self._states = []
        for group in [*worst, *asked]:
            if group in known:
                reading = await feed.ask(pulse.read_members, self._memory, group, known[group])
                self._states.append(reading)
                self.pulse.groups.take_members(group, reading)

    async def _take_sets(self, feed: Feed) -> None:
        """Asks masters, slaves and controllers about each other. They know of brokers that the name server has
        forgotten."""
        found = await feed.ask(brokers.read_sets, self._memory, self._now_ms())
        self.pulse.take_set_findings(found.sets, found.findings)

    async def _take_tables(self, feed: Feed) -> None:
        """Asks what the screens that are not shown would ask, for some of their rows. Only for a recording."""
        memory = self._memory
        await feed.ask(brokers.read_sets, memory, self._now_ms())
        known_topics = (await feed.ask(topics.read_topics, memory)).rows
        asked = self._tables_turns.next(list(known_topics), TABLES_ASKED_MAX)
        await feed.ask(topics.read_numbers, memory, {name: known_topics[name] for name in asked})
        known_groups = (await feed.ask(groups.read_groups, memory)).rows
        worst = [name for name in self.pulse.groups.worst_lines() if name in known_groups]
        others = [name for name in known_groups if name not in worst]
        asked = [*worst, *self._tables_turns.next(others, TABLES_ASKED_MAX)]
        await feed.ask(groups.read_numbers, memory, {name: known_groups[name] for name in asked})
        for name in worst:
            await feed.ask(groups.read_group, memory, known_groups[name])


class _Turns:
    """Whose turn it is: names that were asked the longest ago."""

    def __init__(self) -> None:
        self._asked_at: dict[str, int] = {}
        self._count = 0

    def next(self, names: Sequence[str], count: int) -> list[str]:
        """``count`` of the names, which are noted as asked now."""
        self._count += 1
        chosen = sorted(names, key=lambda name: self._asked_at.get(name, 0))[:count]
        self._asked_at.update(dict.fromkeys(chosen, self._count))
        return chosen
