"""Groups of commands: the program itself, and the nouns. A group finds its commands in the registry and builds them
when they are asked for."""

import itertools
import sys
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import typer
import typer.main
from typer.core import TyperGroup

from rmqadmin.cli import registry
from rmqadmin.cli.invocation import invocation_of
from rmqadmin.cli.output import diagnostics
from rmqadmin.cli.parsing.command_building import HELP_SETTINGS, TYPER_SETTINGS, build_command
from rmqadmin.cli.parsing.mqadmin_argv import MissingValueError, add_value_hint, check_misread, pasted_hint
from rmqadmin.cli.parsing.registry_command import ask_for_all, asks_for_all
from rmqadmin.core.names import near_name
from rmqproto.errors import UsageError

WIDE_MAX = 48
_WORDS_OF_COMMAND = 3
"""Among so many words of a line, the command and its noun are looked for in any order."""
NAME_WIDTH_MAX = 40
"""The list of commands puts a longer name on a line of its own."""


class LazyGroup(TyperGroup):
    """Commands from the registry. ``noun`` is that of a noun group; empty at the top."""

    noun = ""

    @cached_property
    def _built(self) -> dict[str, Any]:
        """Commands already built, by name. A shell uses one group for all its command lines."""
        return {}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if self.noun and not args:  # a question, not an error, like `rmqadmin` alone
            args = ["--help"]
        if all(arg == "--all" or arg in HELP_SETTINGS["help_option_names"] for arg in args):
            args = ask_for_all(ctx, args)
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            option = getattr(error, "option_name", None)
            if option is None:
                raise
            if not hasattr(error, "possibilities"):  # an option of the group, which lacks its value
                canonical = next((param.opts[-1] for param in self.params if option in param.opts), option)
                raise add_value_hint(MissingValueError(canonical), ctx) from None
            raise self._misplaced(option, args) from None

    def _misplaced(self, option: str, args: Sequence[str]) -> UsageError:
        """The error for a command's option written before the command, as some other programs allow."""
        said = [f"{self.noun} {word}".strip() for word in args]
        said += [f"{one} {other}" for one, other in itertools.pairwise(said)]
        called = next((entry.name for name in said if (entry := registry.find(name)) is not None), "COMMAND")
        return UsageError(
            f"there is no option {option} before the command",
            hint=pasted_hint(option)
            or f"Options of a command follow its name: {diagnostics.PROGRAM} {called} {option} …",
        )

    def list_commands(self, ctx: Any) -> list[str]:
        if self.noun:
            return [entry.name.partition(" ")[2] for entry in registry.group_members(self.noun)]
        return registry.top_level_names()

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        name = cmd_name.lower()
        if name not in self._built:
            entry = registry.find(f"{self.noun} {name}".strip())
            if entry is not None:
                self._built[name] = build_command(entry)
            elif not self.noun and registry.group_members(name):
                self._built[name] = build_noun_group(name)
        return self._built.get(name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] == "help":  # mqadmin's way to ask for help
            if args[1:] in ([], ["--all"]):
                ask_for_all(ctx, args)
                sys.stdout.write(ctx.get_help() + "\n")
                raise typer.Exit(0)
            args = [*args[1:], "--help"]
        command = self.get_command(ctx, args[0])
        if command is None:
            if not self.noun:  # the options before the command are parsed, but _root has not been called yet
                invocation_of(ctx).choose(ctx.params.get("format"))
            raise self._unknown(ctx, *args[:_WORDS_OF_COMMAND])
        return command.name.removeprefix(f"{self.noun} "), command, args[1:]

    def _unknown(self, ctx: Any, name: str, *behind: str) -> UsageError:
        """The error for a name that is no command; ``behind``: the next words, which may be the command."""
        from rmqadmin.cli.parsing.meant_names import LIKENESS, meant_command, verb_of  # only for mistyped names

        check_misread([name])
        if self.noun:
            near = next(filter(None, (verb_of(self.noun, word.lower()) for word in (name, *behind))), None)
        else:
            near = meant_command(name, *behind)
        near = near or near_name(name, self.list_commands(ctx), LIKENESS)
        entry = registry.find(f"{self.noun} {near}".strip()) if near else None
        called = f"{diagnostics.PROGRAM} {self.noun}".strip()
        meant = entry.name if entry else _with_verbs(near) if near else None
        advice = f"Did you mean {meant}?" if meant else f"`{called} --help` lists the commands."
        advice = registry.DROPPED.get(name.lower(), advice) if not self.noun else advice
        return UsageError(f"there is no command {f'{self.noun} {name}'.strip()!r}", hint=advice)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The program's help fits one screen, unless all is asked for."""
        if self.noun or asks_for_all(ctx):
            super().format_options(ctx, formatter)
            return
        with formatter.section("Every day"):
            formatter.write_dl([(_with_verbs(name), what) for name, what in registry.DAILY.items()], col_max=WIDE_MAX)
        count = len(registry.ENTRIES)
        formatter.write_text(f"`{diagnostics.PROGRAM} --help --all`: all {count} commands, and options before them.")

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Summaries come from the registry: building every command for its help would take half a second."""
        families = {"Commands": registry.group_members(self.noun)} if self.noun else registry.FAMILIES
        for family, entries in families.items():
            with formatter.section(family):
                formatter.write_dl([(entry.name, entry.summary) for entry in entries], col_max=NAME_WIDTH_MAX)


def _with_verbs(name: str) -> str:
    """``dlq ls|show|redrive``; the name of a command as it is."""
    verbs = [entry.name.partition(" ")[2] for entry in registry.group_members(name)]
    return f"{name} {'|'.join(verbs)}" if verbs else name


def build_noun_group(noun: str) -> Any:
    group = type("NounGroup", (LazyGroup,), {"noun": noun})
    app = typer.Typer(cls=group, name=noun, help=registry.NOUN_SUMMARIES[noun], **TYPER_SETTINGS)
    app.callback()(lambda: None)
    return typer.main.get_command(app)
