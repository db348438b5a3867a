"""Completion for zsh."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rmqadmin.cli.command_tree import CommandInfo, OptionInfo
from rmqadmin.shells.words import (
    HELP,
    SHARED,
    names_kind,
    nouns,
    quoted,
    summaries,
    word_choices,
)

_ZSH = """\
#compdef rmqadmin
{head}
_rmqadmin_namesrv() {{
    local option={namesrv_option} context_option={context_option} quotes={quotes} context= file
    local addr=${{RMQADMIN_NAMESRV:-${{NAMESRV_ADDR-}}}} config=${{XDG_CONFIG_HOME:-$HOME/.config}}/rmqadmin
    local -a match mbegin mend
    if [[ $BUFFER =~ $option ]]; then
        addr=${{match[3]//${{~quotes}}/}}
    elif [[ $BUFFER =~ $context_option ]]; then
        context=$match[2] addr=
    elif [[ -z $addr ]]; then
        context=${{RMQADMIN_CONTEXT:-$(sed -n 1p ${{XDG_STATE_HOME:-$HOME/.local/state}}/rmqadmin/context 2>/dev/null)}}
    fi
    for file in contexts/$context.toml config.toml; do
        [[ -n $addr ]] || addr=$(sed -n {namesrv_setting} $config/$file 2>/dev/null)
    done
    print -r -- ${{addr:-{namesrv}}}
}}

_rmqadmin_names() {{
    local -a names
    local addr
    # _arguments puts options for compadd in front of the kind
    if [[ $argv[-1] == {contexts} ]]; then
        names=(${{XDG_CONFIG_HOME:-$HOME/.config}}/rmqadmin/contexts/[[:alnum:]]*.toml(N:t:r))
    else
        addr=$(_rmqadmin_namesrv)
        local folder=${{XDG_CACHE_HOME:-$HOME/.cache}}/rmqadmin/names/${{addr//[^[:alnum:]_.-]/_}}
        names=(${{(f)"$(cat $folder/$argv[-1] 2>/dev/null)"}})
    fi
    compadd "${{(@)argv[1,-2]}}" -a names
}}

_rmqadmin() {{
    local context state state_descr line
    typeset -A opt_args
    local -a offered
    _arguments -C -A '-*' {root} '1:command:->top' '*::argument:->rest'
    case $state in
        top)
            offered=({top})
            _describe command offered ;;
        rest)
            case ${{(L)words[1]}} in
{rest}
            esac ;;
    esac
}}

if [[ ${{zsh_eval_context[-1]}} == loadautofunc ]]; then  # from a file on fpath, at the first TAB
    _rmqadmin "$@"
else  # by eval or source
    (( $+functions[compdef] )) || {{ autoload -Uz compinit && compinit; }}
    compdef _rmqadmin rmqadmin
fi
"""


def zsh(commands: Sequence[CommandInfo], root: list[OptionInfo]) -> str:
    rest = []
    for command in commands:
        if " " not in command.entry.name:
            rest += _zsh_command(command.entry.name, command)
    for noun in nouns():
        rest += [
            f"{noun})",
            f"    _arguments -C -A '-*' '1:command:->sub' '*::argument:->{noun}'",
            "    case $state in",
            f"        sub) offered=({_zsh_described(summaries(noun))}); _describe command offered ;;",
            f"        {noun}) case ${{(L)words[1]}} in",
        ]
        for command in commands:
            if command.entry.name.startswith(f"{noun} "):
                rest += [" " * 12 + line for line in _zsh_command(command.entry.name.partition(" ")[2], command)]
        rest += ["        esac ;;", "    esac ;;"]
    return _ZSH.format(
        **SHARED,
        root=" ".join(spec for option in [*root, HELP] for spec in _zsh_specs(option)),
        top=_zsh_described(summaries()),
        rest="\n".join(" " * 16 + line for line in rest),
    )


def _zsh_command(name: str, command: CommandInfo) -> list[str]:
    specs = [spec for option in [*command.options, HELP] for spec in _zsh_specs(option)]
    kind, others = word_choices(command)
    if kind is not None:
        names = f"_rmqadmin_names {kind}"
        specs.append(f"'1:{kind}:{{{names}; compadd -- {' '.join(others)}}}'" if others else f"'1:{kind}:{names}'")
    elif others:
        specs.append(f"'1:word:({' '.join(others)})'")
    return [
        f"{name.lower()})",
        "    _arguments \\",
        *(f"        {spec} \\" for spec in specs),
        "        '*: :_default' ;;",
    ]


def _zsh_described(summaries: Iterable[tuple[str, str]]) -> str:
    return " ".join(quoted(f"{name}:{summary}") for name, summary in summaries)


def _zsh_specs(option: OptionInfo) -> list[str]:
    """One ``_arguments`` spec per spelling; each excludes the others."""
    description = option.help.replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
    kind = names_kind(option.metavar)
    if not option.takes_value:
        action = ""
    elif option.choices:
        action = f":value:({' '.join(option.choices)})"
    elif kind is not None:
        action = f":{kind}:_rmqadmin_names {kind}"
    else:
        action = ":file:_files" if option.metavar == "FILE" else ":value: "
    others = f"({' '.join(option.names)})" if len(option.names) > 1 else ""
    joins = {"--": "=", "-": ""} if action else {"--": "", "-": ""}  # --name=value as well as --name value
    return [
        quoted(f"{others}{name}{joins['--' if name.startswith('--') else '-']}[{description}]{action}")
        for name in option.names
    ]
