"""Makes every option of the command line available as an environment variable, for images and compose files.

A variable acts like its flag, but the flag wins. It is checked like the flag, and an error names the variable.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

VARIABLE_PREFIX = "RMQSERVER_"


def variable_of(flag: str) -> str:
    """``RMQSERVER_READY_FILE`` for ``--ready-file``."""
    return VARIABLE_PREFIX + flag.removeprefix("--").replace("-", "_").upper()


class EnvironmentParser(argparse.ArgumentParser):
    """A parser of commands (``add_command``) whose options may come from the environment (``parse``)."""

    def __init__(self, *args: Any, **kwargs: Any):
        self.options: list[argparse.Action] = []
        """Those that have a variable."""
        self._by_variable: dict[str, argparse.Action] = {}
        self._lists: set[str] = set()
        self._commands: dict[str, EnvironmentParser] = {}
        self._adder: argparse._SubParsersAction[EnvironmentParser] | None = None
        super().__init__(*args, **kwargs)

    def add_argument(self, *names: Any, **kwargs: Any) -> argparse.Action:
        action = super().add_argument(*names, **kwargs)
        kind = kwargs.get("action")
        if action.option_strings and kind not in ("help", "version"):
            variable = variable_of(action.option_strings[-1])
            self._by_variable[variable] = action
            if kind == "append":
                self._lists.add(variable)
            action.help = f"{action.help} [{variable}]"
            self.options.append(action)
        return action

    def add_command(self, name: str, help: str) -> EnvironmentParser:
        if self._adder is None:
            self._adder = self.add_subparsers(dest="command", required=True, metavar="COMMAND")
        command = self._commands[name] = self._adder.add_parser(name, help=help, allow_abbrev=False)
        return command

    def error(self, message: str) -> NoReturn:
        """Says of a word that looks like an option why it is none."""
        if not message.isascii():
            from rmqproto.misread_words import misread_word  # only for words beyond ASCII

            said = misread_word(word.strip("',") for word in message.split(" "))
            message = message if said is None else f"{message}: {said}"
        super().error(message)

    @property
    def options_by_command(self) -> dict[str, list[argparse.Action]]:
        return {name: command.options for name, command in self._commands.items()}

    def parse(self, argv: Sequence[str], environment: Mapping[str, str]) -> argparse.Namespace:
        """As ``parse_args``. Options from the environment come before those of ``argv``, so the latter win."""
        command = self._commands.get(argv[0]) if argv else None
        if command is None:
            return self.parse_args(argv)
        found = self.parse_args([argv[0], *command._arguments_of(environment), *argv[1:]])
        for action in command.options:
            value = getattr(found, action.dest)
            if isinstance(value, str) and not value.strip():  # as of --data "$DIR", which was meant to do something
                command.error(f"argument {action.option_strings[-1]}: it has no value")
        return found

    def _arguments_of(self, environment: Mapping[str, str]) -> Iterator[str]:
        """An option that may be given several times has one value a line. An empty variable is ignored: compose files
        set one for options that they leave open."""
        for variable, action in self._by_variable.items():
            text = environment.get(variable, "").strip()
            if action.nargs == 0:
                if text.lower() not in ("", "true", "false"):
                    self.error(f"{variable}: {text} is neither true nor false")
                if text.lower() == "true":
                    yield action.option_strings[-1]
                continue
            for value in text.splitlines() if variable in self._lists else filter(None, [text]):
                self._check(variable, value, action)
                yield f"{action.option_strings[-1]}={value}"

    def _check(self, variable: str, value: str, action: argparse.Action) -> None:
        try:
            if callable(action.type):
                action.type(value)
        except argparse.ArgumentTypeError as error:
            self.error(f"{variable}: {error}")
        if action.choices is not None and value not in action.choices:
            self.error(f"{variable}: {value} is not one of {', '.join(action.choices)}")
