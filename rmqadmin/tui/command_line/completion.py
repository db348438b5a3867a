"""Completes the line after ``:`` with places of the dashboard, and with what `rmqadmin shell` offers."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from rmqadmin.cli.prompt.candidates import Candidate, LineSoFar, Offer, named, offer, read_words
from rmqadmin.cli.prompt.line import TypedWord, parse_line
from rmqadmin.cli.prompt.live_names import WAIT_S, OnceAsked, read_names
from rmqadmin.cli.shells.words import CONTEXT_NAMES
from rmqadmin.core.contexts.context_store import ContextStore
from rmqadmin.tui.command_line.understood import FILE_NAMES, PLACES
from rmqadmin.tui.dashboard_client import DashboardClient


class KnownNames:
    """Names of the cluster, as ``OnceAsked``; none if the servers do not answer."""

    def __init__(self, make_client: Callable[[], DashboardClient]):
        self._make_client = make_client
        self._asked = OnceAsked()

    def of(self, kind: str, line: LineSoFar) -> list[str]:
        return self._asked.of((kind,), lambda: self._read(kind, line)) or []

    def _read(self, kind: str, line: LineSoFar) -> list[str]:
        if kind == CONTEXT_NAMES:
            return ContextStore().names()
        if kind == FILE_NAMES:
            return []
        with self._make_client() as client:
            client.begin(WAIT_S)
            return read_names(client, kind, line)


def offered(text: str, names: KnownNames) -> Offer:
    """The candidates for ``text``. Called in a thread, because it may ask the cluster."""
    found = offer(text, names.of)
    words = parse_line(text).words
    is_begun = bool(words) and not text[-1:].isspace()
    done, begun = (words[:-1], words[-1].text) if is_begun else (words, "")
    start = words[-1].start if is_begun else len(text)
    mine: list[Candidate] = []
    if not done:
        mine = [
            Candidate(word, place.help, " " if place.names else "")
            for word, place in PLACES.items()
            if word.startswith(begun.lower())
        ]
    elif len(done) == 1 and (place := PLACES.get(done[0].text.lower())) is not None and place.names is not None:
        mine = [
            msgspec.structs.replace(one, behind="")
            for one in named(place.names, LineSoFar(), names.of, begun, TypedWord("", start))
        ]
    if done and _is_only_a_place(done[0].text):
        return Offer(start, mine)
    if not mine:
        return found
    others = found.candidates if found.start == start else ()
    known = {one.text for one in mine}
    return Offer(start, [*mine, *(one for one in others if one.text not in known)])


def _is_only_a_place(word: str) -> bool:
    """Whether ``word`` is a place and begins no command. The shell does not know such a word, and would offer any
    command after it."""
    known = read_words([word])
    return word.lower() in PLACES and not known.noun and known.command is None
