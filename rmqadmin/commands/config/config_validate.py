"""``config validate``: checks the settings file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from rmqadmin.cli.call import Call
from rmqadmin.cli.output.output_format import Color, parse_format
from rmqadmin.core.contexts.settings import FileSettings, config_path
from rmqadmin.core.contexts.settings_file import read_settings
from rmqadmin.core.results import Result, Row, doc
from rmqproto.errors import UsageError


class ConfigFileRow(Row, frozen=True):
    path: Annotated[str, doc("the file", key=True)]
    exists: Annotated[bool, doc("whether it is there; it need not be")]
    settings: Annotated[list[str], doc("the settings that it has")]


class ConfigFile(Result, frozen=True):
    """The file of settings."""

    row_type: ClassVar[type[Row]] = ConfigFileRow
    file: ConfigFileRow

    def rows(self) -> Sequence[ConfigFileRow]:
        return [self.file]


def config_validate(call: Call) -> ConfigFile:
    """Reports what is wrong in config.toml, with file, line and the nearest valid name; the status is then 2.
    `context validate` does this for contexts.

    Examples:
      rmqadmin config validate
    """
    path = config_path()
    try:
        found = read_settings(path, FileSettings)
    except FileNotFoundError:
        return ConfigFile(ConfigFileRow(path=str(path), exists=False, settings=[]))
    if found.settings.output is not None:
        parse_format(found.settings.output, f"{path}:{found.lines['output']}")
    if found.settings.color is not None and found.settings.color not in set(Color):
        raise UsageError(f"{path}:{found.lines['color']}: color must be one of {', '.join(Color)}")
    return ConfigFile(ConfigFileRow(path=str(path), exists=True, settings=list(found.lines)))
