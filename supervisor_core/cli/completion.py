"""`supervisor completion bash|zsh|fish`: a script that completes subcommands, options and worker names.

A script comes from the parsers. Only worker names are looked up at each TAB, which is as quick as `status`.
"""

from __future__ import annotations

from supervisor_core.cli import COMMANDS, GROUPS
from supervisor_core.cli.options import ACTIONS, SUBCOMMANDS, parser_of
from supervisor_core.commands.targets import ALL, WORKER_ID

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

FILES = ("--config", "--file", "--out", "--manifest", "--journal")
"""Options that take a file."""

WORKERS = ("--worker", "--worker-id")
"""Options that take a worker."""

_TARGETS = ("target", "words", "workers_named")
"""Positional arguments that may be a worker."""

_DESCRIPTIONS = {name: text for group in GROUPS.values() for names, text in group.items() for name in names.split(", ")}


def run(options: argparse.Namespace) -> int:
    """Print the script, or the names of the workers."""
    if options.shell == "workers":
        print("\n".join(_worker_names(options.config)))
        return 0
    print({"bash": bash, "zsh": zsh, "fish": fish}[options.shell](), end="")
    return 0


def _worker_names(config: str | None) -> list[str]:
    """The configured workers and `all`. A shell may expand what it completes, so only valid ids are printed."""
    from supervisor_core.cli.status.command import read_quickly

    section = read_quickly(config).data.get("workers")
    names = [name for name in section if isinstance(name, str) and WORKER_ID.fullmatch(name)] if section else []
    return [*names, ALL]


class _Completion:
    """What may follow one subcommand."""

    def __init__(self, name: str) -> None:
        self.options: dict[str, str] = {}
        self.words: list[str] = []
        self.takes_worker = False
        for action in parser_of(name)._actions:  # noqa: SLF001 (argparse offers no other way to list them)
            help_text = "" if action.help is None or action.help.startswith("==") else action.help
            self.options |= dict.fromkeys(action.option_strings, help_text)
            if not action.option_strings and action.choices:
                self.words += map(str, action.choices)
            self.takes_worker = self.takes_worker or action.dest in _TARGETS

    @property
    def all(self) -> str:
        """Words and long options."""
        return " ".join([*self.words, *(each for each in self.options if each.startswith("--"))])


def _completions() -> Iterator[tuple[str, _Completion]]:
    for name in COMMANDS:
        yield name, _Completion(name)
    for action in ACTIONS:
        yield f"daemon {action}", _Completion(f"daemon {action}")


def bash() -> str:
    """For `source <(supervisor completion bash)`."""
    cases = [
        f"        {_pattern(name)}) words='{each.all}'{' workers=1' if each.takes_worker else ''} ;;"
        for name, each in _completions()
    ]
    return _BASH.format(
        commands=" ".join(COMMANDS), cases="\n".join(cases), files="|".join(FILES), workers="|".join(WORKERS)
    )


def zsh() -> str:
    """For `source <(supervisor completion zsh)`, or as the file `_supervisor` in a folder of `$fpath`."""
    commands = [f"        {_quoted(f'{name}:{_described(name)}')}" for name in COMMANDS]
    cases = [
        f"        {_pattern(name)}) offered=({each.all}){' workers=1' if each.takes_worker else ''} ;;"
        for name, each in _completions()
    ]
    return _ZSH.format(
        commands="\n".join(commands), cases="\n".join(cases), files="|".join(FILES), workers="|".join(WORKERS)
    )


def fish() -> str:
    """For `supervisor completion fish | source`, or as the file `supervisor.fish` in fish's folder of completions."""
    lines = [_FISH]
    for name, each in _completions():
        first, _, action = name.partition(" ")
        if action:
            seen = f"__fish_seen_subcommand_from daemon; and __fish_seen_subcommand_from {action}"
            about = SUBCOMMANDS[name].description
            missing = f"__fish_seen_subcommand_from daemon; and not __fish_seen_subcommand_from {' '.join(ACTIONS)}"
            lines.append(f"complete -c supervisor -n '{missing}' -a {action} -d {_quoted(about)}")
        else:
            seen = f"__fish_seen_subcommand_from {first}"
            lines.append(f"complete -c supervisor -n __fish_use_subcommand -a {name} -d {_quoted(_described(name))}")
            lines += [f"complete -c supervisor -n '{seen}' -a {word}" for word in each.words if first != "daemon"]
        if each.takes_worker:
            lines.append(f"complete -c supervisor -n '{seen}' -a '(__supervisor_workers)'")
        for option, text in each.options.items():
            kind = "-l" if option.startswith("--") else "-s"
            value = " -r -F" if option in FILES else " -x -a '(__supervisor_workers)'" if option in WORKERS else ""
            lines.append(f"complete -c supervisor -n '{seen}' {kind} {option.lstrip('-')}{value} -d {_quoted(text)}")
    return "\n".join(lines) + "\n"


def _described(name: str) -> str:
    return _DESCRIPTIONS.get(name) or SUBCOMMANDS[name].description


def _pattern(name: str) -> str:
    return f"'{name}'"


def _quoted(text: str) -> str:
    """In single quotes, as all three shells read them."""
    return "'" + text.replace("'", "\N{RIGHT SINGLE QUOTATION MARK}") + "'"


_BASH = """\
# Completion for bash. In ~/.bashrc: source <(supervisor completion bash)
_supervisor() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} command=${{COMP_WORDS[1]}}
    local words='' workers='' config=() i
    if (( COMP_CWORD == 1 )); then
        COMPREPLY=($(compgen -W '{commands}' -- "$current"))
        return
    fi
    if [[ $command == daemon ]] && (( COMP_CWORD > 2 )); then command="daemon ${{COMP_WORDS[2]}}"; fi
    for (( i = 2; i < COMP_CWORD - 1; i++ )); do
        [[ ${{COMP_WORDS[i]}} == --config ]] && config=(--config "${{COMP_WORDS[i+1]}}")
    done
    case $command in
{cases}
    esac
    case $before in
        {files}) return ;;
        {workers}) words='' workers=1 ;;
    esac
    if [[ $workers && $current != -* ]]; then
        words+=" $(supervisor completion workers "${{config[@]}}" 2>/dev/null)"
    fi
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _supervisor supervisor
"""

_ZSH = """\
#compdef supervisor
# Completion for zsh. In ~/.zshrc, after compinit: source <(supervisor completion zsh)
_supervisor() {{
    local command=${{words[2]}} before=${{words[CURRENT-1]}} workers='' place
    local -a names offered config
    if (( CURRENT == 2 )); then
        names=(
{commands}
        )
        _describe 'command' names
        return
    fi
    if [[ $command == daemon ]] && (( CURRENT > 3 )); then command="daemon ${{words[3]}}"; fi
    place=${{words[(i)--config]}}
    if (( place < CURRENT - 1 )); then config=(--config "${{words[place+1]}}"); fi
    case $command in
{cases}
    esac
    case $before in
        {files}) _files; return ;;
        {workers}) offered=() workers=1 ;;
    esac
    if [[ -n $workers ]]; then
        compadd -- ${{(f)"$(supervisor completion workers $config 2>/dev/null)"}}
    fi
    compadd -- $offered
}}
if [[ $funcstack[1] == _supervisor ]]; then _supervisor "$@"; else compdef _supervisor supervisor; fi
"""

_FISH = """\
# Completion for fish: supervisor completion fish | source
function __supervisor_workers
    set -l words (commandline -opc)
    set -l config
    if set -l place (contains -i -- --config $words)
        set config --config $words[(math $place + 1)]
    end
    supervisor completion workers $config 2>/dev/null
end
complete -c supervisor -f"""
