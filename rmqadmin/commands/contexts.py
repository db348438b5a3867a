"""Contexts, by which clusters have names, and the settings of this program."""

import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.common_options import Confirm, OptionGroup, Value, Yes, argument, option
from rmqadmin.cli.output import diagnostics
from rmqadmin.cli.output.output_format import Color, parse_format
from rmqadmin.cli.output.terminal_guard import run_in_terminal
from rmqadmin.core.contexts.context import (
    ASKED_AT_ONCE_MAX,
    NO_CONTEXT,
    Context,
    ContextColor,
    ContextSettings,
    setting_text,
)
from rmqadmin.core.contexts.context_rows import (
    ContextChecks,
    Contexts,
    EffectiveRow,
    all_contexts,
    check_context,
    context_row,
    effective_rows,
)
from rmqadmin.core.contexts.context_store import ContextStore
from rmqadmin.core.contexts.permission import ChangePermission
from rmqadmin.core.contexts.settings import FileSettings, config_path, name_in_use
from rmqadmin.core.contexts.settings_file import read_settings
from rmqadmin.core.files import expanded, naming, program_words, read_text
from rmqadmin.core.results import FoundRows, Notice, ResultOf, Row, doc
from rmqproto.errors import NotFoundError, UsageError

OneContext = Annotated[str, Value.CONTEXT, argument("Name of the context.")]


class ContextOptions(OptionGroup, frozen=True):
    """The settings of a context, by key. None means not given."""

    namesrv_addr: Annotated[str | None, Value.ADDRESSES, option("-n", "--namesrvAddr", "Its name servers.")] = None
    cluster: Annotated[
        str | None, Value.CLUSTER, option("-c", "--cluster", "Cluster for commands that need -b or -c.")
    ] = None
    read_only: Annotated[bool | None, option("--read-only/--no-read-only", "Refuse every change without --unlock.")] = (
        None
    )
    protected: Annotated[bool | None, option("--protected/--no-protected", "Ask for its name before every change.")] = (
        None
    )
    color: Annotated[
        ContextColor | None, option("--color", "Color of its name, in questions and in the dashboard.")
    ] = None
    tls: Annotated[bool | None, option("--tls/--no-tls", "Connect to its servers over TLS.")] = None
    tls_ca: Annotated[str | None, Value.FILE, option("--tls-ca", "CA certificate of the servers.")] = None
    tls_cert: Annotated[str | None, Value.FILE, option("--tls-cert", "Client certificate.")] = None
    tls_key: Annotated[str | None, Value.FILE, option("--tls-key", "Key of the client certificate.")] = None
    tls_insecure: Annotated[
        bool | None, option("--tls-insecure/--no-tls-insecure", "Accept any server certificate.")
    ] = None
    address_map: Annotated[
        list[str] | None,
        Value.NAME,
        option(
            "--address-map",
            "Connect elsewhere than to an address that its servers advertise. Repeatable.",
            metavar="HOST[:PORT]=HOST[:PORT]",
        ),
    ] = None
    access_key: Annotated[
        str | None, option("-ak", "--access-key", "env:NAME, file:PATH or command:WORDS.", metavar="REFERENCE")
    ] = None
    secret_key: Annotated[
        str | None,
        Value.SECRET,
        option("-sk", "--secret-key", "In the same forms; never the key itself.", metavar="REFERENCE"),
    ] = None
    timeout_s: Annotated[float | None, Value.SECONDS, option("--timeout", "Longest wait for an answer.", min=0.001)] = (
        None
    )
    parallel: Annotated[
        int | None, option("--parallel", "Ask at most N servers at once.", metavar="N", min=1, max=ASKED_AT_ONCE_MAX)
    ] = None

    def values(self) -> dict[str, object]:
        """The given settings by key. Paths are made absolute."""
        given = {key: value for key, value in msgspec.structs.asdict(self).items() if value is not None}
        for key in ("tls_ca", "tls_cert", "tls_key"):
            if key in given:
                given[key] = os.path.abspath(expanded(given[key]))
        for key in ("access_key", "secret_key"):
            kind, colon, rest = given.get(key, "").partition(":")
            if kind == "file" and rest:
                given[key] = kind + colon + os.path.abspath(expanded(rest))
        if "color" in given:
            given["color"] = str(given["color"])
        return given


EDITOR_DEFAULT = "vi"

T = TypeVar("T")


def edit(text: str, path: Path, keep: Callable[[str], T], notice: Notice) -> T:
    """Opens a copy of ``text`` until ``keep`` accepts what was written, or the user gives up. ``keep`` raises
    UsageError for an invalid text. If the user gives up: UsageError that says where the text is, so nothing written is
    lost. ``path`` is the file being edited."""
    descriptor, name = tempfile.mkstemp(prefix=f"{path.stem}-", suffix=path.suffix)
    with naming(name), open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    while True:
        _open_editor(name)
        try:
            kept = keep(read_text(name))
        except UsageError as error:
            notice(str(error))
            if error.hint:
                notice(error.hint)
            if diagnostics.ask("Enter to edit it again, n to give up: ") != "":
                raise UsageError(f"{path} is unchanged", hint=f"Your text is in {name}.") from None
        else:
            os.unlink(name)
            return kept


def _open_editor(name: str) -> None:
    """Opens the editor. UsageError if it cannot be started, or ends with a failure status."""
    wanted = next((one for one in ("VISUAL", "EDITOR") if os.environ.get(one, "").strip()), None)
    editor = os.environ[wanted] if wanted else EDITOR_DEFAULT
    hint = "Set VISUAL or EDITOR to the editor to start."
    try:
        status = run_in_terminal([*program_words(editor, wanted or EDITOR_DEFAULT), name])
    except UsageError as error:
        raise UsageError(str(error), hint=hint) from None
    except OSError as error:
        raise UsageError(f"{editor}: {error.strerror}", hint=hint) from None
    if status:
        raise UsageError(f"{editor} ended with status {status}", hint=f"Your text is in {name}.")


def context_ls(call: Call) -> Contexts:
    """A context names a cluster: its addresses, how to reach it, and what must not happen to it by mistake.

    rmqadmin context ls
    rmqadmin -o name context ls
    """
    found = all_contexts(ContextStore())
    if not found.found:
        call.notice("there is no context yet; to add one: rmqadmin context add NAME -n HOST:PORT")
    return found


def context_use(
    call: Call,
    name: Annotated[str, Value.CONTEXT, argument("-: the one before. none: no context.", metavar="CONTEXT|-|none")],
) -> Contexts:
    """Applies from now on, in every shell. RMQADMIN_CONTEXT chooses a context for one shell, --context for one command.

    rmqadmin context use dev
    rmqadmin context use -
    rmqadmin context use none
    """
    store = ContextStore()
    chosen = store.use(name)
    call.context_chosen(NO_CONTEXT if chosen is None else chosen.name)
    if chosen is None:
        call.notice("no context is in use now")
    return Contexts([] if chosen is None else [context_row(store, chosen)])


def context_add(
    call: Call,
    name: Annotated[str, Value.NAME, argument("Letters, digits, _ . and -.")],
    options: ContextOptions,
    use: Annotated[bool, option("--use", "Use it at once.")] = False,
    if_not_exists: Annotated[bool, option("--if-not-exists", "Keep a context of that name.")] = False,
) -> Contexts:
    """Each context has its own file. It holds no keys, only where they are.

    rmqadmin context add dev -n 127.0.0.1:9876 --use
    rmqadmin context add live -n '10.0.0.1:9876;10.0.0.2:9876' -c DefaultCluster --protected --color red
    rmqadmin context add audit -n 10.0.0.1:9876 --read-only -ak env:AUDIT_KEY -sk file:/run/secrets/audit
    """
    if options.namesrv_addr is None:
        raise UsageError(
            "Missing required option: -n/--namesrvAddr", hint="The name servers of the cluster: -n 127.0.0.1:9876."
        )
    store = ContextStore()
    is_there = if_not_exists and name in store.names()
    added = store.load(name) if is_there else store.add(name, options.values())
    if use:
        store.use(name)
        call.context_chosen(name)
    return Contexts([context_row(store, added)])


class ContextSettingRow(Row, frozen=True):
    setting: Annotated[str, doc("name of the setting, as in the file", key=True)]
    value: Annotated[str, doc("its value; of a key, where it is", vital=True)]
    line: Annotated[int | None, doc("line of the file; null for what is so without a word", wide=True)]


class ContextShownRow(Row, frozen=True):
    context: Annotated[str, doc("name of the context")]
    in_use: Annotated[bool, doc("whether commands use it that name none")]
    path: Annotated[str, doc("its file")]


class ContextShown(ResultOf[ContextSettingRow], frozen=True):
    """One context's settings."""

    context: Context
    in_use: bool

    def rows(self) -> Sequence[ContextSettingRow]:
        return [
            ContextSettingRow(setting=key, value=setting_text(value), line=self.context.lines.get(key))
            for key, value in msgspec.structs.asdict(self.context.settings).items()
            if value is not None
        ]

    def summary(self) -> ContextShownRow:
        return ContextShownRow(context=self.context.name, in_use=self.in_use, path=str(self.context.path))


def context_show(
    call: Call,
    name: Annotated[
        str | None, Value.CONTEXT, argument("Name of the context; without it, the one in force.", metavar="[CONTEXT]")
    ] = None,
) -> ContextShown:
    """Shows what the context's file says. `config show` says what is in force, and where it comes from.

    rmqadmin context show
    rmqadmin context show live
    """
    store = ContextStore()
    found = call.settings.context if name is None else store.load(name)
    if found is None:
        raise NotFoundError("no context is in use", hint="rmqadmin context use NAME, or give a name here.")
    return ContextShown(found, found.name == name_in_use(store))


def context_edit(
    call: Call,
    name: OneContext,
    options: ContextOptions,
    unset: Annotated[
        list[str] | None, Value.NAME, option("--unset", "Remove this setting. Repeatable.", metavar="SETTING")
    ] = None,
) -> Contexts:
    """Comments stay. Without options, opens the file in $VISUAL or $EDITOR, and keeps the result if it is valid.

    rmqadmin context edit live --color magenta --timeout 10
    rmqadmin context edit live --no-protected --unset color
    """
    store, values = ContextStore(), options.values()
    taken = frozenset(unset or ())
    for key in taken:
        if key not in ContextSettings.__struct_fields__:
            there = ", ".join(ContextSettings.__struct_fields__)
            raise UsageError(f"--unset {key}: there is no such setting", hint=f"There are: {there}.")
    if values or taken:
        changed = store.change(name, values, taken)
    else:
        text = store.read_text(name)
        if not sys.stdin.isatty():
            raise UsageError("an editor needs a terminal", hint="`rmqadmin context edit --help` lists the options.")
        changed = edit(text, store.path(name), lambda written: store.replace_text(name, written), call.notice)
    return Contexts([context_row(store, changed)])


def context_validate(
    call: Call,
    names: Annotated[list[str] | None, Value.CONTEXT, argument("Default: all of them.", metavar="[CONTEXT]...")] = None,
    connect: Annotated[bool, option("--connect", "Also ask every name server and broker.")] = False,
) -> ContextChecks:
    """Checks the file, where the keys are, and whether certificates and keys match. With --connect, also checks whether
    all name servers answer, whether the cluster exists, and whether each broker can be reached at the address it
    advertises. Exit status 1 if anything fails.

      rmqadmin context validate
      rmqadmin context validate live --connect
    """
    store = ContextStore()
    wanted = names or store.names()
    if not wanted:
        call.notice("there is no context yet")
    return ContextChecks([row for name in wanted for row in check_context(store, name, connect=connect)])


class RemovedContextRow(Row, frozen=True):
    context: Annotated[str, doc("name of the context that is gone", key=True)]
    path: Annotated[str, doc("the file that it was kept in")]


class RemovedContext(FoundRows[RemovedContextRow], frozen=True):
    """The context that was removed."""


def context_rm(call: Call, name: OneContext, confirm: Confirm = None, yes: Yes = False) -> RemovedContext:
    """Removes its file; nothing happens to its cluster. If it was in use, no context is in use afterwards. On a
    terminal its name must be typed; that of a protected context also with --yes, or given with --confirm.

      rmqadmin context rm dev --yes
    """
    store = ContextStore()
    context = None
    with suppress(UsageError):  # an invalid file protects nothing, and can be removed
        context = store.load(name)
    if context is not None and context.settings.protected:
        ChangePermission(lambda _: [context], is_unlocked=True, confirmed=confirm, ask_name=call.ask_name).check()
    elif not yes and name in store.names():
        call.confirm_local(f"This removes {store.path(name)}.", name, is_said=confirm == name)
    was_in_use = name == store.name_in_use()
    store.remove(name)
    if was_in_use:
        call.context_chosen(NO_CONTEXT)
        call.notice("no context is in use now")
    return RemovedContext([RemovedContextRow(context=name, path=str(store.path(name)))])


class EffectiveConfig(FoundRows[EffectiveRow], frozen=True):
    """The settings in force."""


def config_show(
    call: Call,
    origin: Annotated[bool, option("--origin", "Also show where each setting comes from.")] = False,
) -> EffectiveConfig:
    """Shows the settings that a command with the same options would use. Options come first, then the environment, then
    the context, then the settings file (config.toml). Keys are not shown, only where they are.

      rmqadmin config show --origin
      rmqadmin config show --origin --context live --timeout 20
    """
    return EffectiveConfig(effective_rows(call.settings, with_origin=origin))


class ConfigFileRow(Row, frozen=True):
    path: Annotated[str, doc("the file", key=True)]
    exists: Annotated[bool, doc("whether it is there; it need not be")]
    settings: Annotated[list[str], doc("the settings that it has")]


class ConfigFile(FoundRows[ConfigFileRow], frozen=True):
    """The file of settings."""


def config_validate(call: Call) -> ConfigFile:
    """Reports what is wrong in config.toml, with file, line and the nearest valid name; the status is then 2.
    `context validate` does this for contexts.

      rmqadmin config validate
    """
    path = config_path()
    try:
        found = read_settings(path, FileSettings)
    except FileNotFoundError:
        return ConfigFile([ConfigFileRow(path=str(path), exists=False, settings=[])])
    if found.settings.output is not None:
        parse_format(found.settings.output, f"{path}:{found.lines['output']}")
    if found.settings.color is not None and found.settings.color not in set(Color):
        raise UsageError(f"{path}:{found.lines['color']}: color must be one of {', '.join(Color)}")
    return ConfigFile([ConfigFileRow(path=str(path), exists=True, settings=list(found.lines))])
