"""Where contexts are kept: one file each, ``contexts/NAME.toml`` in the configuration directory. A file of two lines in
the state directory holds the context in use and the one before it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmqadmin.core.contexts.context import NAME_FORM, NO_CONTEXT, Context, ContextSettings, check_name
from rmqadmin.core.files import alone_in, config_dir, state_dir, write_private
from rmqadmin.core.names import did_you_mean
from rmqproto.errors import NotFoundError, RocketMQError, UsageError

if TYPE_CHECKING:
    from rmqadmin.core.contexts.settings_file import SettingsText

PREVIOUS = "-"
"""``context use -``: the context that was in use before."""

_HEAD = "# A context of rmqadmin. `rmqadmin context validate {name}` checks this file; it holds no keys."
_SUFFIX = ".toml"


class ContextStore:
    """The saved contexts. Every method that reads a context raises NotFoundError if there is none of that name, and
    UsageError, with file and line, if its file is invalid."""

    def __init__(self) -> None:
        self.folder = config_dir() / "contexts"
        self.in_use_path = state_dir() / "context"

    # --- reading -----------------------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """The names in order, even those of invalid files."""
        try:
            found = [path.stem for path in self.folder.iterdir() if path.suffix == _SUFFIX]
        except FileNotFoundError:
            return []
        return sorted(name for name in found if re.fullmatch(NAME_FORM, name))

    def path(self, name: str) -> Path:
        check_name(name)
        return self.folder / f"{name}{_SUFFIX}"

    def load(self, name: str) -> Context:
        path = self.path(name)
        from rmqadmin.core.contexts.settings_file import read_settings  # only for users with contexts

        try:
            return _checked(name, path, read_settings(path, ContextSettings))
        except FileNotFoundError:
            raise NotFoundError(f"there is no context {name}", hint=self._advice(name)) from None
        except UsageError as error:
            error.hint = f"{error.hint or ''} `rmqadmin context edit {name}` opens the file.".strip()
            raise

    def _advice(self, name: str) -> str:
        return did_you_mean(name, self.names()) or "`rmqadmin context ls` lists them."

    def named(self, name: str) -> Context | None:
        """The context that a flag names; None for ``none``."""
        return None if name == NO_CONTEXT else self.load(name)

    def load_all(self, tell: Callable[[RocketMQError], None]) -> list[Context]:
        """The contexts whose files are valid; ``tell`` takes the errors of the others."""
        found = []
        for name in self.names():
            try:
                found.append(self.load(name))
            except RocketMQError as error:
                tell(error)
        return found

    # --- the one in use ----------------------------------------------------------------------------------------------

    def name_in_use(self) -> str | None:
        return self._chosen()[0]

    def in_use(self) -> Context | None:
        name = self.name_in_use()
        if name is None:
            return None
        try:
            return self.load(name)
        except NotFoundError as error:
            hint = f"Choose another: rmqadmin context use NAME, or {NO_CONTEXT}."
            raise NotFoundError(f"{error}, and it is in use", hint=hint) from None

    def use(self, name: str) -> Context | None:
        """Puts a context into use from now on: by name, PREVIOUS or NO_CONTEXT."""
        with alone_in(self.folder):
            now, before = self._chosen()
            if name == PREVIOUS:
                if before is None:
                    raise NotFoundError("no other context was in use before", hint="rmqadmin context use NAME")
                name = before
            chosen = self.named(name)
            if name != (now or NO_CONTEXT):
                self._write_chosen(name, now)
            return chosen

    def _chosen(self) -> tuple[str | None, str | None]:
        """The context in use and the one before it; None for no context."""
        try:
            lines = self.in_use_path.read_text(encoding="utf-8").splitlines()
        except (FileNotFoundError, NotADirectoryError):
            lines = []
        except OSError as error:  # what it says of the servers that may be changed must not be passed over
            hint = "Set XDG_STATE_HOME to a directory that can be read, or name the context: --context NAME, or none."
            raise UsageError(f"cannot read {self.in_use_path}: {error.strerror}", hint=hint) from None
        except UnicodeDecodeError as error:
            raise UsageError(f"{self.in_use_path}: {error}", hint="Remove the file.") from None
        names = [line if re.fullmatch(NAME_FORM, line) else None for line in lines[:2]]
        now, before, *_ = [*names, None, None]
        return None if now == NO_CONTEXT else now, before

    def _write_chosen(self, name: str, before: str | None) -> None:
        _write(self.in_use_path, f"{name}\n{before or NO_CONTEXT}\n")

    # --- changing ----------------------------------------------------------------------------------------------------

    def add(self, name: str, values: Mapping[str, Any]) -> Context:
        """Adds a context. UsageError if there is one of that name."""
        import tomlkit  # 30 ms; only to change contexts

        document = tomlkit.document()
        document.add(tomlkit.comment(_HEAD.format(name=name).removeprefix("# ")))
        document.update({key: value for key, value in values.items() if value is not None})
        return self.replace_text(name, tomlkit.dumps(document), is_new=True)

    def change(self, name: str, values: Mapping[str, Any], unset: frozenset[str] = frozenset()) -> Context:
        """Sets the settings in ``values`` and removes those in ``unset``. Other settings stay, as do those with the
        value None, comments and the order of lines."""
        import tomlkit

        with alone_in(self.folder):
            self.load(name)
            document = tomlkit.parse(self.read_text(name))
            document.update({key: value for key, value in values.items() if value is not None})
            for key in unset & document.keys():
                document.remove(key)
            return self.replace_text(name, tomlkit.dumps(document))

    def read_text(self, name: str) -> str:
        """The text for a person to edit, whether valid or not. UsageError if it cannot be read."""
        try:
            return self.path(name).read_text(encoding="utf-8-sig")
        except FileNotFoundError:
            raise NotFoundError(f"there is no context {name}", hint=self._advice(name)) from None
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{self.path(name)}: {error}") from None

    def remove(self, name: str) -> None:
        """Removes a context. If it was in use, no context is in use afterwards."""
        with alone_in(self.folder):
            now, before = self._chosen()
            try:
                self.path(name).unlink()
            except FileNotFoundError:
                raise NotFoundError(f"there is no context {name}", hint=self._advice(name)) from None
            except OSError as error:
                raise UsageError(f"{self.path(name)}: {error.strerror}") from None
            if name in (now, before):
                self._write_chosen(NO_CONTEXT if name == now else now or NO_CONTEXT, None if name == before else before)

    def replace_text(self, name: str, text: str, *, is_new: bool = False) -> Context:
        """Saves the text of a context. If it is invalid, or ``is_new`` and there is one: UsageError, and nothing is
        changed."""
        from rmqadmin.core.contexts.settings_file import parse_settings

        path = self.path(name)
        changed = _checked(name, path, parse_settings(text, path, ContextSettings))
        try:
            _write(path, text, is_new=is_new)
        except FileExistsError:
            raise UsageError(
                f"there is a context {name} already",
                hint=f"`rmqadmin context edit {name}` changes it. With --if-not-exists this is not an error.",
            ) from None
        return changed


def _checked(name: str, path: Path, found: SettingsText[ContextSettings]) -> Context:
    if found.settings.namesrv_addr is None:
        raise UsageError(f"{path}: namesrv_addr is missing", hint='For example: namesrv_addr = "127.0.0.1:9876".')
    return Context(name, path, found.settings, found.lines)


def _write(path: Path, text: str, *, is_new: bool = False) -> None:
    """Writes a context file. FileExistsError is passed on."""
    try:
        write_private(path, text, is_new=is_new)
    except FileExistsError:
        raise
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
