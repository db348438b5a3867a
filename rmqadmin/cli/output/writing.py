"""The only writer of standard output: it shows one result, each part as it comes."""

import codecs
import select
import sys
from collections.abc import Iterator

from rmqadmin.cli.output import diagnostics
from rmqadmin.cli.output.asked_columns import AS_USUAL, Look
from rmqadmin.cli.output.output_format import wants_color
from rmqadmin.cli.output.rendering import pieces, table_view
from rmqadmin.core.results import Result
from rmqadmin.core.terminal_text import printable
from rmqproto.errors import UsageError


def write(
    result: Result,
    command: str,
    look: Look,
    *,
    one_line: bool = False,
    with_pager: bool = False,
    before: Result | None = None,
) -> None:
    """Writes a result to standard output, each part as it comes. ``one_line``: a JSON document takes one line, for
    ``--watch``. ``with_pager``: output longer than the terminal goes through a pager. ``before``: the answer before
    this one; a table that is redrawn in place shows what has changed since."""
    on_terminal = sys.stdout.isatty()
    raw = result.raw()
    if raw is not None and look.picked is not None:
        raise UsageError("bytes have no fields", hint="Leave out --json, or the option that asks for the bytes.")
    if raw is not None and look.asked != AS_USUAL:
        raise UsageError("bytes have no columns", hint="Leave out --columns and --no-header, or what asks for bytes.")
    if raw is not None and not on_terminal:
        _write_bytes(raw)
        return
    view = table_view(look.format, wants_color(look.color, sys.stdout), sys.stdout if on_terminal else None)
    if not diagnostics.draws_in_place(sys.stdout):
        before = None
    if raw is not None:
        texts = _escaped(raw)
    elif look.picked is not None:
        texts = look.picked.texts(result, is_pretty=on_terminal and not one_line)
    else:
        texts = pieces(result, command, look.format, view, one_line=one_line, asked=look.asked, before=before)
    if with_pager and on_terminal and not result.is_live():
        from rmqadmin.cli.output.pager import page

        page(texts)
        return
    for text in texts:
        sys.stdout.write(text)
        sys.stdout.flush()
        if not text:
            _check_reader()


def _check_reader() -> None:
    """BrokenPipeError if the reader of standard output went away. A write would notice, but `--follow` into `head` may
    write nothing for a long time."""
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):  # not a file
        return
    if any(event & select.POLLERR for _, event in poll.poll(0)):
        raise BrokenPipeError


def _write_bytes(parts: Iterator[bytes]) -> None:
    sys.stdout.flush()
    for part in parts:
        sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()
        if not part:
            _check_reader()


def _escaped(parts: Iterator[bytes]) -> Iterator[str]:
    """The parts made safe for a terminal, so that their bytes cannot control it."""
    decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    for part in parts:
        lines = decoder.decode(part).split("\n")
        yield "\n".join(printable(line.replace("\t", "    ")) for line in lines)
    yield printable(decoder.decode(b"", final=True))
