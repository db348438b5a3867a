"""What a command tells a person: notices, the status line, progress."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from rmqadmin.cli.invocation import Invocation
from rmqadmin.cli.options.common_options import CommonOptions
from rmqadmin.cli.output import diagnostics
from rmqadmin.cli.output.output_format import DOCUMENTS, Color, Format

if TYPE_CHECKING:
    from rmqadmin.core.progress import CountDone


N = TypeVar("N")


class CallNotices:
    """``format`` and the options decide what is told, and whether a person can be asked."""

    def __init__(self, command: str, options: CommonOptions, format: Format, color: Color, invocation: Invocation):
        self.command = command
        self.format = format
        self.dry_run = options.dry_run
        self.invocation = invocation
        self._options = options
        self._color = color

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def notice(self, text: str) -> None:
        diagnostics.notice(text)

    def tell_if_typed(self, what: str) -> None:
        """A notice before standard input is read, if a person is to type it: otherwise the program seems to hang."""
        if sys.stdin.isatty():
            self.notice(f"type {what}; Ctrl-D at the beginning of a line ends it")

    def status(self, text: str | None) -> None:
        diagnostics.status(text)

    @contextmanager
    def counting(self, what: str) -> Iterator[CountDone]:
        """Shows how many of ``what`` are done, once a second has passed."""
        from rmqadmin.core.progress import CountDone

        progress = CountDone(self.status, what)
        try:
            yield progress
        finally:
            progress.clear()

    def without_systems_own(
        self, names: Sequence[N], is_systems: Callable[[N], bool], what: str, *, show_all: bool
    ) -> list[N]:
        """If a person looks at a table: the names that users made, with a notice about the others. Otherwise all names.
        Also for objects that have a name."""
        is_table = self.format in (Format.TABLE, Format.WIDE)
        if show_all or not is_table or not sys.stdout.isatty():
            return list(names)
        shown = [name for name in names if not is_systems(name)]
        if len(shown) < len(names):
            self.notice(f"{len(names) - len(shown)} system {what} are hidden; --all shows them")
        return shown

    @property
    def as_mqadmin(self) -> bool:
        """Whether the answer must match mqadmin's byte for byte, with all its quirks."""
        return self.format is Format.MQADMIN

    @property
    def as_document(self) -> bool:
        """Whether the answer is one document, which has room for the summary."""
        return self.format in DOCUMENTS

    @property
    def can_ask(self) -> bool:
        """Whether a person can be asked, and has not declined with an option."""
        return not self._options.yes and not self.as_mqadmin and sys.stdin.isatty()
