"""Searches the messages of a topic for what has no index: tags, properties, text in bodies, members of JSON.

A question is ``tag:``, ``key:``, ``prop:NAME=``, ``body:`` or ``json:PATH=``, followed by the wanted value: text
(anywhere in a body) or a ``/regular expression/``; ``!`` before either negates it. ``sql92:`` is followed by an
expression over the properties.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator

from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.messages.queue_reading import QueuePlace, QueuePull, all_queues, compiled_sql92, places_of, pulls
from rmqadmin.tui.filters import parse_filter
from rmqadmin.tui.sources.messages import WINDOW_SIZE_MAX_BYTES, key_of
from rmqproto.errors import ProtocolError, RocketMQError, UsageError
from rmqproto.filters.message_conditions import Path, document_of, parse_path, text_at
from rmqproto.message import properties as props
from rmqproto.times import TimeRange

SCAN_WINDOW = "-1h..now"
"""The time range searched by default."""

SCAN_MAX_S = 15.0
MATCHES_MAX = 200
STEP_S = 0.2
"""How long one step may take. The screen shows the progress after each step."""

Matches = Callable[[FoundMessage], bool]

_SPELLINGS = (
    "tag:, key:, prop:NAME=, body: or json:PATH=, each with text, /regular expression/ or ! and either; or sql92:"
)


def parse_question(text: str) -> Matches | None:
    """The condition on a message. None for an id or key, which an index finds. UsageError for an incomplete
    question."""
    kind, colon, rest = text.partition(":")
    if kind == "sql92" and colon:
        accepts = compiled_sql92(rest, "sql92")
        return lambda message: accepts(message.properties)
    if not colon or kind not in ("tag", "key", "prop", "body", "json"):
        return None
    name, wanted = "", rest
    if kind in ("prop", "json"):
        name, equals, wanted = rest.partition("=")
        if not name or not equals:
            raise UsageError(f"{text!r} has no value to look for", hint=f"Write {_SPELLINGS}.")
    if not wanted.removeprefix("!"):
        raise UsageError(f"{text!r} has no value to look for", hint=f"Write {_SPELLINGS}.")
    passes = _passes(wanted, is_exact=kind != "body")
    match kind:
        case "tag":
            return lambda message: passes([message.properties.get(props.TAGS, "")])
        case "key":
            return lambda message: passes(message.properties.get(props.KEYS, "").split(" "))
        case "prop":
            return lambda message: passes([message.properties[name]] if name in message.properties else [])
        case "body":
            return lambda message: passes([message.stored.plain_body().decode("utf-8", "backslashreplace")])
        case _:
            path = parse_path(name if name.startswith("$") else f"$.{name}")
            return lambda message: passes(_member(message.stored.plain_body(), path))


def _passes(wanted: str, *, is_exact: bool) -> Callable[[list[str]], bool]:
    """A test whether any of some texts matches; with ``!``, whether none does."""
    inverse = wanted.startswith("!")
    plain = wanted.removeprefix("!")
    one: Callable[[str], bool] | None = None
    if not is_exact or plain.startswith("/"):
        one = parse_filter(plain)
    is_wanted = one or (lambda text: text == plain)
    return lambda texts: any(map(is_wanted, texts)) is not inverse


def _member(body: bytes, path: Path) -> list[str]:
    text = text_at(document_of(body), path)
    return [] if text is None else [text]


class Scan:
    """One search, in steps. ``stopped`` says why it does not go on; ``go_on`` resumes it if there is more to search.
    Only one thread may call ``step``; any thread may call ``stop``. It stops at ``matches_max`` matches, MATCHES_MAX if
    None."""

    def __init__(self, topic: str, matches: Matches, between: TimeRange, *, matches_max: int | None = None):
        self.scanned_count = self.matched_count = self.unreadable_count = 0
        self.found: dict[str, FoundMessage] = {}
        self.stopped: str | None = None
        self.is_finished = False
        self.problems: list[str] = []
        self._topic, self._matches, self._between = topic, matches, between
        self._queues: deque[tuple[QueuePlace, Iterator[QueuePull]]] | None = None
        self._size_bytes = 0
        self._time_left_s = SCAN_MAX_S
        self._matches_max = self._shown_max = MATCHES_MAX if matches_max is None else matches_max

    def summary(self) -> str:
        state = f"stopped because {self.stopped}" if self.stopped else "looking on …"
        unreadable = f", {self.unreadable_count:,} bodies could not be unpacked" if self.unreadable_count else ""
        return f"scanned {self.scanned_count:,}, matched {self.matched_count:,}{unreadable}, {state}"

    def stop(self, reason: str) -> None:
        self.stopped = self.stopped or reason

    def go_on(self) -> None:
        """Resumes the search, with the full limits of time and matches again."""
        if not self.is_finished:
            self.stopped, self._time_left_s = None, SCAN_MAX_S
            self._shown_max = self.matched_count + self._matches_max
            self._size_bytes = 0

    def step(self, admin: AdminClient) -> None:
        """Searches for STEP_S at most, queues in turn, so that the first finds come from all of them. A queue that
        fails is skipped and becomes a problem. Raises errors of the route and of the queues' ends."""
        began_s = time.monotonic()
        if self._queues is None:
            queues = all_queues(admin, admin.topic_route(self._topic), self._topic)
            places = places_of(admin, queues, self._between)
            self._queues = deque((place, pulls(admin, place, is_exact=True)) for place in places)
        left = self._queues
        while left and self.stopped is None and time.monotonic() < began_s + STEP_S:
            place, rest = left.popleft()
            try:
                pulled = next(rest, None)
            except RocketMQError as error:
                self.problems.append(f"{place.queue.broker_name} queue {place.queue.queue_id}: {error}")
                continue
            for message in [] if pulled is None else pulled.messages:
                self._look_at(message)
            if pulled is not None and pulled.next_offset < place.end_offset:
                left.append((place, rest))
        self._time_left_s -= time.monotonic() - began_s
        if not left:
            self.is_finished = True
            self.stopped = "the rest could not be read" if self.problems else "the window was read"
        elif self._time_left_s <= 0:
            self.stop(f"{SCAN_MAX_S:.0f} s are over")

    def _look_at(self, message: FoundMessage) -> None:
        self.scanned_count += 1
        try:
            if not self._matches(message):
                return
        except ProtocolError:  # unknown compression
            self.unreadable_count += 1
            return
        self.matched_count += 1
        self.found[key_of(message)] = message
        self._size_bytes += message.stored.size_bytes
        if self.matched_count >= self._shown_max:
            self.stop(f"{self.matched_count:,} matched")
        elif self._size_bytes >= WINDOW_SIZE_MAX_BYTES:
            self.stop(f"what matched takes more than {WINDOW_SIZE_MAX_BYTES >> 20} MiB")
