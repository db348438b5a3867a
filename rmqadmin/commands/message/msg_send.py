"""``msg send``: sends messages from words, files and standard input, whole, split, or as JSON Lines. What can be
checked beforehand is checked before anything is sent."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import cycle
from typing import Annotated

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import TEXTS, Texts, pairs
from rmqadmin.cli.options.common_options import Value, argument, option
from rmqadmin.cli.options.message_options import MessageKeys, MessageTag
from rmqadmin.core.files import has_mark
from rmqadmin.core.messages import bodies_in
from rmqadmin.core.messages.bodies_in import STANDARD_INPUT, BodySource, Piece
from rmqadmin.core.messages.files.exported_message import ExportedMessage, queues_for
from rmqadmin.core.messages.sending import SentRow, say_if_new, sent_values
from rmqadmin.core.results import FoundRows
from rmqadmin.core.topics.routes import chosen_queues, queues_to_send_to
from rmqclient.message import Message
from rmqclient.sending import check_body, message_properties
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import RefusedError, RocketMQError, UsageError
from rmqproto.times import parse_due_time, parse_duration
from rmqproto.wording import counted

_JSONL = "--jsonl"
_CUT = {
    "--lines": bodies_in.lines,
    "--nul": bodies_in.between_nuls,
    "--sized": bodies_in.behind_sizes,
    _JSONL: bodies_in.lines,
}
_LINES = ("--lines", _JSONL)


class LeftOut:
    """Messages that are not sent: how many of them, and what is wrong with the first."""

    def __init__(self) -> None:
        self.count = 0
        self.first = ""
        self.hint: str | None = None

    def add(self, place: str, error: RocketMQError) -> None:
        self.count += 1
        if self.count == 1:
            self.first, self.hint = f"{place}: {error}", error.hint


class SentMessages(FoundRows[SentRow], frozen=True):
    """Where each message went."""

    failure: str | None = None

    def problem(self) -> str | None:
        return self.failure


def msg_send(
    call: Call,
    topic: Annotated[str, Value.TOPIC, argument("Topic name.")],
    sources: Annotated[
        list[str] | None, TEXTS, argument("Default: -, standard input.", metavar="[BODY|@FILE|-]...")
    ] = None,
    by_line: Annotated[bool, option("--lines", "Every line is a message.")] = False,
    by_nul: Annotated[bool, option("--nul", "A NUL byte ends each message.")] = False,
    by_size: Annotated[bool, option("--sized", "Each message follows its size: four bytes, big-endian.")] = False,
    as_json_lines: Annotated[bool, option(_JSONL, "Every line is a message as `msg cat -o jsonl` writes it.")] = False,
    key: MessageKeys = None,
    tags: MessageTag = None,
    properties: Annotated[Texts, option("--property", "A property of each message. Repeatable.", metavar="K=V")] = None,
    queues: Annotated[
        Texts,
        Value.NAME,
        option("--queue", "Only to this queue, whatever a line of JSON names. Repeatable.", metavar="[BROKER:]QUEUE"),
    ] = None,
    delay: Annotated[
        str | None, Value.NUMBER, option("--delay", "Deliver them after this time: 10s, 1h30m.", metavar="DURATION")
    ] = None,
    deliver_at: Annotated[str | None, Value.TIME, option("--deliver-at", "Deliver them at this time.")] = None,
    keep_going: Annotated[
        bool, option("--keep-going", "Leave out messages that cannot be sent, and count them.")
    ] = False,
) -> SentMessages:
    """A BODY is sent as it is, @FILE sends what the file holds, - reads standard input. Messages go to the queues in
    turn. All are checked before the first is sent; a pipe that goes on is checked as it comes. --jsonl reads what
    `printMsg -o jsonl` writes, --sized what `msg cat -f '%R%s'` writes.

      rmqadmin msg send OrderTopic 'order 1' 'order 2' -k ORDER-1 -c paid
      rmqadmin msg send OrderTopic 'order 3' --delay 10s
      rmqadmin msg send OrderTopic 'order 4' --dry-run
    """
    ways = {"--lines": by_line, "--nul": by_nul, "--sized": by_size, _JSONL: as_json_lines}
    said = [option for option, is_said in ways.items() if is_said]
    if len(said) > 1:
        raise UsageError(f"{' and '.join(said)} exclude each other")
    if as_json_lines and (key or tags or properties):
        raise UsageError("with --jsonl each line has its own keys, tag and properties")
    wanted = sources or [STANDARD_INPUT]
    if wanted.count(STANDARD_INPUT) > 1:
        raise UsageError("standard input can be read only once", hint="Write - once.")
    of_each = Message(
        topic, b"", tags=tags or None, keys=(key or "").split(), properties=pairs("--property", properties),
        delay_s=_delay_s(delay), deliver_at_ms=_deliver_at_ms(call, delay, deliver_at),
    )  # fmt: skip
    places: QueuePlaces = queues_to_send_to(call.admin, topic)
    if queues:
        chosen = chosen_queues(queues, [queue for queue, _ in places])
        places = [place for place in places if place[0] in chosen]
    if STANDARD_INPUT in wanted:
        call.tell_if_typed("messages" if said else "a message")
    bodies = [BodySource(name, at) for at, name in enumerate(wanted, 1)]
    turns = _Turns(places, are_chosen=bool(queues))
    sending = _Sending(call, bodies, of_each, turns, said[0] if said else None)
    sending.check(keep_going=keep_going)
    return sending.send(keep_going=keep_going)


def _delay_s(text: str | None) -> float:
    if text is None:
        return 0.0
    found_ms = parse_duration(text.strip())
    if found_ms is None or found_ms <= 0:
        raise UsageError(f"--delay {text!r} is not a duration ahead", hint="Write for example 10s or 1h30m.")
    return found_ms / 1000


def _deliver_at_ms(call: Call, delay: str | None, text: str | None) -> int:
    if text is None:
        return 0
    if delay is not None:
        raise UsageError("--delay and --deliver-at exclude each other")
    try:
        return parse_due_time(text, call.now_ms())
    except UsageError as error:
        raise UsageError(f"--deliver-at {error}", hint=error.hint) from None


QueuePlaces = Sequence[tuple[MessageQueue, str]]


class _Turns:
    """Whose turn it is, among all queues and among those that a line may go to. ``are_chosen``: by the command, so that
    lines do not choose."""

    def __init__(self, places: QueuePlaces, *, are_chosen: bool):
        self._addrs = dict(places)
        self._are_chosen = are_chosen
        self._turns: dict[tuple[MessageQueue, ...], Iterator[MessageQueue]] = {}

    def queues(self, line: ExportedMessage | None) -> tuple[MessageQueue, ...]:
        """UsageError for a line that names a queue that is not there."""
        queues = tuple(self._addrs)
        return queues if line is None or self._are_chosen else tuple(queues_for(line, queues))

    def next_of(self, queues: tuple[MessageQueue, ...]) -> tuple[MessageQueue, str]:
        """From a random one on. Otherwise messages that a script sends one by one would all go to the first queue."""
        if queues not in self._turns:
            first = random.randrange(len(queues))
            self._turns[queues] = cycle([*queues[first:], *queues[:first]])
        queue = next(self._turns[queues])
        return queue, self._addrs[queue]


class _Sending:
    """Sends the bodies of ``sources``, cut in a ``way``. ``of_each``: the fields that all messages share, unless each
    line sets its own."""

    def __init__(
        self, call: Call, sources: Sequence[BodySource], of_each: Message, turns: _Turns, way: str | None
    ):  # fmt: skip
        self._call = call
        self._sources = sources
        self._of_each = of_each
        self._turns = turns
        self._way = way
        self._cut = bodies_in.uncut if way is None else _CUT[way]
        self._unit = "line" if way in _LINES else "message"

    def check(self, *, keep_going: bool) -> None:
        """Checks what is known beforehand. UsageError if some of it cannot be sent, unless that is to be left out."""
        bad, count, marked = LeftOut(), 0, []
        for piece in self._known_pieces():
            count += 1
            try:
                self._message(piece)
            except UsageError as error:
                bad.add(self._place(piece), error)
            if self._way is None and has_mark(piece.data):
                marked.append(self._place(piece))
        if bad.count and not keep_going:
            what = (
                bad.first if count == 1 else f"{bad.count:,} of {counted(count, 'message')} cannot be sent: {bad.first}"
            )
            hint = bad.hint or ("--keep-going sends the others." if count > bad.count else None)
            raise UsageError(f"{what}; nothing was sent" if count > 1 else what, hint=hint)
        if marked:
            self._call.notice(f"{marked[0]} begins with a byte order mark, which is sent as part of the body")

    def send(self, *, keep_going: bool) -> SentMessages:
        """Sends all messages. Without ``keep_going``, up to the first that cannot be sent."""
        call, sent, bad = self._call, list[SentRow](), LeftOut()
        place = "message 1"
        try:
            for piece in (piece for source in self._sources for piece in self._cut(source.where, source.stream())):
                if not sent and not bad.count:
                    say_if_new(call.admin, self._of_each.topic, call.notice, dry_run=call.dry_run)
                place = self._place(piece)
                try:
                    message, queues = self._message(piece)
                    queue, addr = self._turns.next_of(queues)
                    result = None if call.dry_run else call.admin.send_message(addr, queue, message)
                    sent.append(SentRow(**sent_values(queue, result)))
                except (UsageError, RefusedError) as error:
                    if not keep_going:
                        raise
                    bad.add(place, error)
        except RocketMQError as error:
            if not sent and not bad.count:
                raise
            behind = _were_sent(sent, "before it ")
            return SentMessages(sent, f"{place} was not sent, nor what comes behind it: {error}; {behind}")
        except KeyboardInterrupt:
            if not call.dry_run:
                call.notice(f"interrupted: {_were_sent(sent)}")
            raise
        if bad.count:
            total = counted(bad.count + len(sent), "message")
            return SentMessages(
                sent, f"{bad.count:,} of {total} {'was' if bad.count == 1 else 'were'} not sent; the first: {bad.first}"
            )
        if not sent:
            call.notice("there was no message to send")
        return SentMessages(sent)

    def _known_pieces(self) -> Iterator[Piece]:
        for source in self._sources:
            if self._way in _LINES:
                yield from self._cut(source.where, source.known_lines())
            elif source.is_known:
                yield from self._cut(source.where, source.known())

    def _message(self, piece: Piece) -> tuple[Message, tuple[MessageQueue, ...]]:
        """The message, and the queues that it may go to. UsageError for one that no broker takes."""
        of_each, line = self._of_each, None
        if self._way == _JSONL:
            found, line = bodies_in.message_of_line(of_each.topic, piece.data)
            message = replace(found, delay_s=of_each.delay_s, deliver_at_ms=of_each.deliver_at_ms)
        else:
            message = replace(of_each, body=piece.data)
        check_body(message.body)
        message_properties(message)
        return message, self._turns.queues(line)

    def _place(self, piece: Piece) -> str:
        return piece.where if self._way is None else f"{piece.where}, {self._unit} {piece.number}"


def _were_sent(sent: Sequence[SentRow], where: str = "") -> str:
    return f"{counted(len(sent), 'message')} {where}{'was' if len(sent) == 1 else 'were'} sent"
