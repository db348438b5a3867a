"""Completion for fish."""

from __future__ import annotations

from collections.abc import Sequence

from rmqadmin.cli.command_tree import CommandInfo, OptionInfo
from rmqadmin.shells.words import (
    HELP,
    SHARED,
    names_kind,
    nouns,
    own_options,
    quoted,
    shared_options,
    summaries,
    word_choices,
)

_FISH = """\
{head}
function __rmqadmin_namesrv
    set -l config ~/.config
    set -q XDG_CONFIG_HOME; and set config $XDG_CONFIG_HOME
    set -l state ~/.local/state
    set -q XDG_STATE_HOME; and set state $XDG_STATE_HOME
    set -l addr $NAMESRV_ADDR
    test -n "$RMQADMIN_NAMESRV"; and set addr $RMQADMIN_NAMESRV
    set -l context
    set -l given (commandline -p | string replace -rf -- '.*'{namesrv_option}'.*' '$3')
    set -l named (commandline -p | string replace -rf -- '.*'{context_option}'.*' '$2')
    if test -n "$given"
        set addr (string replace -ra -- {quotes} '' $given[1])
    else if test -n "$named"
        set context $named[1]
        set addr
    else if test -z "$addr"
        set context (sed -n 1p $state/rmqadmin/context 2>/dev/null)
        test -n "$RMQADMIN_CONTEXT"; and set context $RMQADMIN_CONTEXT
    end
    for file in contexts/"$context".toml config.toml
        test -n "$addr"; or set addr (sed -n {namesrv_setting} $config/rmqadmin/$file 2>/dev/null)
    end
    test -n "$addr"; or set addr {namesrv}
    echo $addr
end

function __rmqadmin_names
    if test $argv[1] = {contexts}
        set -l config ~/.config
        set -q XDG_CONFIG_HOME; and set config $XDG_CONFIG_HOME
        for file in $config/rmqadmin/contexts/*.toml  # elsewhere, a pattern without a match is an error
            string replace -rf -- '.*/([a-zA-Z0-9][a-zA-Z0-9_.-]*)\\.toml$' '$1' $file
        end
        return
    end
    set -l base ~/.cache
    set -q XDG_CACHE_HOME; and set base $XDG_CACHE_HOME
    set -l folder (__rmqadmin_namesrv | string replace -ra -- '[^\\w.-]' _)
    cat $base/rmqadmin/names/$folder/$argv[1] 2>/dev/null
end

# Whether the command typed so far, in any case, is one of the arguments; "" stands for none yet.
function __rmqadmin_on
    set -l typed
    set -l skip no
    for word in (commandline -opc)[2..]
        if test $skip = yes
            set skip no
        else if test -z "$typed"; and contains -- $word {root_values}
            set skip yes
        else if not string match -q -- '-*' $word
            set typed (string trim -- "$typed "(string lower -- $word))
            contains -- $typed {nouns}; or break
        end
    end
    contains -- "$typed" $argv
end

complete -c rmqadmin -f
{lines}
"""


def fish(commands: Sequence[CommandInfo], root: list[OptionInfo]) -> str:
    lines = [_fish_line("", _fish_option(option)) for option in root]
    for noun in ["", *nouns()]:
        lines += [_fish_line(noun, f"-a {name} -d {quoted(summary)}") for name, summary in summaries(noun)]
    for command in commands:
        kind, others = word_choices(command)
        if kind is not None or others:
            words = " ".join([*([f"(__rmqadmin_names {kind})"] if kind else []), *others])
            lines.append(_fish_line(command.entry.name, f"-a '{words}'"))
        lines += [_fish_line(command.entry.name, _fish_option(option)) for option in own_options(command)]
    for option in shared_options(commands):
        having = [command.entry.name for command in commands if option in (*command.options, HELP)]
        lines.append(_fish_line(*(["", *having] if option is HELP else having), _fish_option(option)))
    return _FISH.format(
        **SHARED,
        root_values=" ".join(name for option in root if option.takes_value for name in option.names),
        nouns=" ".join(nouns()) or "''",
        lines="\n".join(lines),
    )


def _fish_line(*names_and_rest: str) -> str:
    *names, rest = names_and_rest
    on = " ".join(f"'{name}'" if not name or " " in name else name for name in map(str.lower, names))
    return f'complete -c rmqadmin -n "__rmqadmin_on {on}" {rest}'


def _fish_option(option: OptionInfo) -> str:
    parts = []
    for name in option.names:
        if name.startswith("--"):
            parts.append(f"-l {name[2:]}")
        else:
            parts.append(f"-s {name[1:]}" if len(name) == 2 else f"-o {name[1:]}")
    kind = names_kind(option.metavar)
    if option.choices:
        offers = " ".join(f"{choice}\\t" for choice in option.choices)  # no description: fish repeats the option's
        parts.append(f"-x -a '{offers}'")
    elif kind is not None:
        parts.append(f"-x -a '(__rmqadmin_names {kind})'")
    elif option.takes_value:
        parts.append("-r -F" if option.metavar == "FILE" else "-x")
    parts.append("-d " + "'" + option.help.replace("\\", "\\\\").replace("'", "\\'") + "'")
    return " ".join(parts)
