"""What is known about one run of a command line, before and while its command runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rmqadmin.cli.options.common_options import CommonOptions
from rmqadmin.cli.output.output_format import JSON_FORMATS, Color

if TYPE_CHECKING:
    from rmqadmin.cli.session import Session


class Invocation(msgspec.Struct):
    """What is known about this run of the program, for the error that may end it and for command lines that it runs."""

    command: str | None = None
    format_option: str | None = None
    context_option: str | None = None
    as_json: bool | None = None
    """Whether errors are shown as JSON; None: as the settings say."""
    color: Color = Color.AUTO
    with_pager: bool = True
    is_quiet: bool = False
    """Whether notices and progress are off."""
    debug: bool = False
    session: Session | None = None
    """The shell that runs this command line."""

    def choose(self, format: str | None) -> None:
        """Takes ``-o`` from before the command; None if it is not given."""
        if format is not None:
            self.format_option = format
            self.as_json = format.lower() in JSON_FORMATS

    def filled(self, options: CommonOptions) -> CommonOptions:
        """The options of the command, filled in with those given before it."""
        if not options.context:
            options = msgspec.structs.replace(options, context=self.context_option)
        return options if self.session is None else self.session.filled(options)


def invocation_of(ctx: Any) -> Invocation:
    """The invocation that a Typer context belongs to."""
    found = ctx.find_object(Invocation)
    assert isinstance(found, Invocation)
    return found
