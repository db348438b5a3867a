"""Completion for bash."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rmqadmin.cli.command_tree import CommandInfo, OptionInfo
from rmqadmin.shells.words import (
    HELP,
    SHARED,
    names_kind,
    names_of,
    nouns,
    own_options,
    shared_options,
    summaries,
    word_choices,
)

_BASH = """\
{head}
_rmqadmin_namesrv() {{
    local option={namesrv_option} context_option={context_option} quotes={quotes} context= file
    local addr=${{RMQADMIN_NAMESRV:-${{NAMESRV_ADDR-}}}} config=${{XDG_CONFIG_HOME:-$HOME/.config}}/rmqadmin
    # the whole line, because bash cuts an address into words
    if [[ ${{COMP_LINE-}} =~ $option ]]; then
        addr=${{BASH_REMATCH[3]//$quotes/}}
    elif [[ ${{COMP_LINE-}} =~ $context_option ]]; then
        context=${{BASH_REMATCH[2]}} addr=
    elif [[ -z $addr ]]; then
        file=${{XDG_STATE_HOME:-$HOME/.local/state}}/rmqadmin/context
        context=${{RMQADMIN_CONTEXT:-$(sed -n 1p "$file" 2>/dev/null)}}
    fi
    for file in "contexts/$context.toml" config.toml; do
        [[ -n $addr ]] || addr=$(sed -n {namesrv_setting} "$config/$file" 2>/dev/null)
    done
    echo "${{addr:-{namesrv}}}"
}}

_rmqadmin_names() {{
    local addr file
    if [[ $1 == {contexts} ]]; then
        for file in "${{XDG_CONFIG_HOME:-$HOME/.config}}"/rmqadmin/contexts/[[:alnum:]]*.toml; do
            file=${{file##*/}}
            [[ $file =~ ^[a-zA-Z0-9_.-]+$ ]] && echo "${{file%.toml}}"
        done
        return
    fi
    addr=$(_rmqadmin_namesrv)
    cat "${{XDG_CACHE_HOME:-$HOME/.cache}}/rmqadmin/names/${{addr//[^[:alnum:]_.-]/_}}/$1" 2>/dev/null
}}

_rmqadmin() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} command= words= i
    # bash cuts --output=json into three words
    if [[ $cur == "=" ]]; then cur=; elif [[ $prev == "=" ]]; then prev=${{COMP_WORDS[COMP_CWORD-2]}}; fi
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${{COMP_WORDS[i]}} in
            {root_values}) [[ -z $command ]] && ((i++)) ;;
            -*) ;;
            *)
                command=${{command:+$command }}${{COMP_WORDS[i],,}}
                case $command in {nouns}) ;; *) break ;; esac ;;
        esac
    done
    case $command:$prev in
{value_cases}
    esac
    case $command in
{word_cases}
    esac
    if [[ $cur != -* ]]; then  # names, where there are any; options follow a dash
        local name names=
        for name in $words; do [[ $name == -* ]] || names+=" $name"; done
        words=${{names:-$words}}
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}}
complete -F _rmqadmin rmqadmin
"""


def bash(commands: Sequence[CommandInfo], root: list[OptionInfo]) -> str:
    value_cases = _bash_value_cases('""', root)
    word_cases = [f'        "") words="{names_of([*root, HELP])} {" ".join(name for name, _ in summaries())}" ;;']
    for noun in nouns():
        members = " ".join(name for name, _ in summaries(noun))
        word_cases.append(f'        {noun}) words="{members} -h --help" ;;')
    for command in commands:
        name = f'"{command.entry.name.lower()}"'
        value_cases += _bash_value_cases(name, own_options(command))
        kind, others = word_choices(command)
        first = [*([f"$(_rmqadmin_names {kind})"] if kind else []), *others]
        word_cases.append(f'        {name}) words="{" ".join([*first, names_of([*command.options, HELP])])}" ;;')
    value_cases += _bash_value_cases("*", shared_options(commands))
    return _BASH.format(
        **SHARED,
        root_values="|".join(name for option in root if option.takes_value for name in option.names),
        nouns="|".join(nouns()) or '""',
        value_cases="\n".join(value_cases),
        word_cases="\n".join(word_cases),
    )


def _bash_value_cases(command: str, options: Iterable[OptionInfo]) -> list[str]:
    """What follows an option that takes a value: choices, remembered names, files, or nothing."""
    lines = []
    for option in options:
        if not option.takes_value or option.names[-1] == "--watch":  # may stand alone: an option can follow
            continue
        kind = names_kind(option.metavar)
        if option.choices:
            words = f'compgen -W "{" ".join(option.choices)}" -- "$cur"'
        elif kind is not None:
            words = f'compgen -W "$(_rmqadmin_names {kind})" -- "$cur"'
        else:
            words = 'compgen -f -- "$cur"' if option.metavar == "FILE" else ":"
        pattern = "|".join(f"{command}:{name}" for name in option.names)
        lines.append(f"        {pattern}) mapfile -t COMPREPLY < <({words}); return ;;")
    return lines
