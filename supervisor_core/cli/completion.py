"""`supervisor completion bash|zsh|fish`: a script that completes subcommands, options, values and names.

A script comes from the parsers. Only the names of workers and teams are looked up at each TAB, as quickly as `status`.
"""

from __future__ import annotations

from supervisor_core.cli import COMMANDS, GROUPS
from supervisor_core.cli.option_types import LEVELS
from supervisor_core.cli.options import ACTIONS, SUBCOMMANDS, parser_of
from supervisor_core.commands.addresses import address_of, is_address
from supervisor_core.commands.catalog import CATALOG, FAMILIES
from supervisor_core.commands.definitions import TargetRule
from supervisor_core.commands.targets import ALL, HOST, TEAM, WORKER_ID
from supervisor_core.common.log_events import LogEvent
from supervisor_core.config.raw import state_dir_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    from supervisor_core.config.raw import RawConfig

FILES = ("--config", "--file", "--out", "--manifest", "--journal")
"""Options that take a file."""

WORKERS = ("--worker", "--worker-id")
"""Options that take a worker."""

VALUES = {"--level": " ".join(LEVELS).lower(), "--event": " ".join(each.event for each in LogEvent)}
"""Options that take one of a few words."""

SECONDS = 1.0
"""The time in which the daemon of a hub must answer: somebody waits after a TAB."""

_TARGETS = ("target", "words", "workers_named")
"""Positional arguments that may be a worker."""

_DESCRIPTIONS = {name: text for group in GROUPS.values() for names, text in group.items() for name in names.split(", ")}


def run(options: argparse.Namespace) -> int:
    """Print the script, or the names that may follow: of workers, or of targets."""
    if options.shell in ("workers", "targets"):
        from supervisor_core.cli.status.command import read_quickly

        raw = read_quickly(options.config)
        there = _elsewhere(raw)
        names = [*_names(raw, "workers"), *there]
        if options.shell == "targets":
            hosts = dict.fromkeys(HOST + address_of(each).host for each in there)
            names += [*(TEAM + name for name in _names(raw, "teams")), *hosts, ALL]
        print("\n".join(names))
        return 0
    _add_commands(options.config)
    print({"bash": bash, "zsh": zsh, "fish": fish}[options.shell](), end="")
    return 0


def _add_commands(config: str | None) -> None:
    """Put the commands of a usable configuration and of plug-ins into the catalog. Else the script has the others."""
    from contextlib import suppress

    from supervisor_core.common.errors import SupervisorError
    from supervisor_core.config.load import load_supervisor_config

    with suppress(SupervisorError):
        load_supervisor_config(config)


def _names(raw: RawConfig, section: str) -> list[str]:
    """The configured workers or teams. A shell may expand what it completes, so only valid names are printed."""
    found = raw.data.get(section)
    return [name for name in found if isinstance(name, str) and WORKER_ID.fullmatch(name)] if found else []


def _elsewhere(raw: RawConfig) -> list[str]:
    """The workers of other hosts, which the daemon of a hub knows; none without one."""
    fleet = raw.data.get("fleet")
    if not isinstance(fleet, dict) or fleet.get("role") != "hub":
        return []
    from supervisor_core.common.errors import SupervisorError
    from supervisor_core.daemon.control.client import NotRunningError, UnresponsiveError, ask

    try:
        status = ask(state_dir_of(raw), {"do": "status"}, SECONDS)
    except (SupervisorError, NotRunningError, UnresponsiveError):
        return []
    return addresses(str(each.get("id")) for each in status.get("workers") or ())


def addresses(worker_ids: Iterable[str]) -> list[str]:
    """The valid addresses of workers on other hosts."""
    return [each for each in worker_ids if is_address(each) and all(map(WORKER_ID.fullmatch, address_of(each)))]


class _Completion:
    """What may follow one subcommand."""

    def __init__(self, name: str) -> None:
        self.options: dict[str, str] = {}
        self.words: list[str] = []
        self.takes_target = False
        for action in parser_of(name)._actions:  # noqa: SLF001 (argparse offers no other way to list them)
            help_text = "" if action.help is None or action.help.startswith("==") else action.help
            self.options |= dict.fromkeys(action.option_strings, help_text)
            if not action.option_strings and action.choices:
                self.words += map(str, action.choices)
            self.takes_target = self.takes_target or action.dest in _TARGETS
        if family := FAMILIES.get(name):
            self.words += [each.name.removeprefix(f"{name} ") for each in family]
            self.takes_target = any(each.target is TargetRule.WORKERS for each in family)

    @property
    def all(self) -> str:
        """Words and long options."""
        return " ".join([*self.words, *(each for each in self.options if each.startswith("--"))])


def _commands() -> tuple[str, ...]:
    """All subcommands: those that were added after the built-in ones."""
    return (*COMMANDS, *(name for name, each in CATALOG.items() if each.extension is not None))


def _completions() -> Iterator[tuple[str, _Completion]]:
    for name in _commands():
        yield name, _Completion(name)
    for action in ACTIONS:
        yield f"daemon {action}", _Completion(f"daemon {action}")


def bash() -> str:
    """For `source <(supervisor completion bash)`."""
    cases = [
        f"        {_pattern(name)}) words='{each.all}'{' names=targets' if each.takes_target else ''} ;;"
        for name, each in _completions()
    ]
    values = [f"        {option}) words='{words}' names='' ;;" for option, words in VALUES.items()]
    return _BASH.format(
        commands=" ".join(_commands()),
        cases="\n".join(cases),
        files="|".join(FILES),
        workers="|".join(WORKERS),
        values="\n".join(values),
    )


def zsh() -> str:
    """For `source <(supervisor completion zsh)`, or as the file `_supervisor` in a folder of `$fpath`."""
    commands = [f"        {_quoted(f'{name}:{_described(name)}')}" for name in _commands()]
    cases = [
        f"        {_pattern(name)}) offered=({each.all}){' names=targets' if each.takes_target else ''} ;;"
        for name, each in _completions()
    ]
    values = [f"        {option}) offered=({words}) names='' ;;" for option, words in VALUES.items()]
    return _ZSH.format(
        commands="\n".join(commands),
        cases="\n".join(cases),
        files="|".join(FILES),
        workers="|".join(WORKERS),
        values="\n".join(values),
    )


def fish() -> str:
    """For `supervisor completion fish | source`, or as the file `supervisor.fish` in fish's folder of completions."""
    lines = [_FISH]
    for name, each in _completions():
        first, _, action = name.partition(" ")
        seen = f"__supervisor_is {name}"
        if action:
            about = SUBCOMMANDS[name].description
            lines.append(f"complete -c supervisor -n '__supervisor_at daemon' -a {action} -d {_quoted(about)}")
        else:
            lines.append(f"complete -c supervisor -n __supervisor_at -a {name} -d {_quoted(_described(name))}")
            lines += [f"complete -c supervisor -n '{seen}' -a {word}" for word in each.words if first != "daemon"]
        if each.takes_target:
            lines.append(f"complete -c supervisor -n '{seen}' -a '(__supervisor_names targets)'")
        for option, text in each.options.items():
            kind = "-l" if option.startswith("--") else "-s"
            value = " -r -F" if option in FILES else _fish_value(option)
            lines.append(f"complete -c supervisor -n '{seen}' {kind} {option.lstrip('-')}{value} -d {_quoted(text)}")
    return "\n".join(lines) + "\n"


def _fish_value(option: str) -> str:
    if option in WORKERS:
        return " -x -a '(__supervisor_names workers)'"
    return f" -x -a '{VALUES[option]}'" if option in VALUES else ""


def _described(name: str) -> str:
    known = _DESCRIPTIONS.get(name)
    return known or (SUBCOMMANDS[name].description if name in SUBCOMMANDS else CATALOG[name].summary)


def _pattern(name: str) -> str:
    return f"'{name}'"


def _quoted(text: str) -> str:
    """In single quotes, as all three shells read them."""
    return "'" + text.replace("'", "\N{RIGHT SINGLE QUOTATION MARK}") + "'"


_BASH = """\
# Completion for bash. In ~/.bashrc: source <(supervisor completion bash)
_supervisor() {{
    local line=${{COMP_LINE:0:COMP_POINT}} typed last i words='' names='' config=()
    read -ra typed <<< "$line"  # not COMP_WORDS, in which team:NAME is three words
    [[ $line == *[[:space:]] ]] && typed+=('')
    (( last = ${{#typed[@]}} - 1 ))
    local current=${{typed[last]}} before=${{typed[last-1]}} command=${{typed[1]}}
    if (( last == 1 )); then
        COMPREPLY=($(compgen -W '{commands}' -- "$current"))
        return
    fi
    if [[ $command == daemon ]] && (( last > 2 )); then command="daemon ${{typed[2]}}"; fi
    for (( i = 2; i < last - 1; i++ )); do
        [[ ${{typed[i]}} == --config ]] && config=(--config "${{typed[i+1]}}")
    done
    case $command in
{cases}
    esac
    case $before in
        {files}) return ;;
        {workers}) words='' names=workers ;;
{values}
    esac
    if [[ $names && $current != -* ]]; then
        words+=" $(supervisor completion $names "${{config[@]}}" 2>/dev/null)"
    fi
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    if [[ $current == *:* && $COMP_WORDBREAKS == *:* ]]; then  # bash replaces what stands behind the colon
        COMPREPLY=("${{COMPREPLY[@]#"${{current%"${{current##*:}}"}}"}}")
    fi
}}
complete -o default -F _supervisor supervisor
"""

_ZSH = """\
#compdef supervisor
# Completion for zsh. In ~/.zshrc, after compinit: source <(supervisor completion zsh)
_supervisor() {{
    local command=${{words[2]}} before=${{words[CURRENT-1]}} names='' place
    local -a commands offered config
    if (( CURRENT == 2 )); then
        commands=(
{commands}
        )
        _describe 'command' commands
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
        {workers}) offered=() names=workers ;;
{values}
    esac
    if [[ -n $names ]]; then
        compadd -- ${{(f)"$(supervisor completion $names $config 2>/dev/null)"}}
    fi
    compadd -- $offered
}}
if [[ $funcstack[1] == _supervisor ]]; then _supervisor "$@"; else compdef _supervisor supervisor; fi
"""

_FISH = """\
# Completion for fish: supervisor completion fish | source
function __supervisor_is
    set -l words (commandline -opc)
    test "$words[2]" = "$argv[1]"; and test -z "$argv[2]" -o "$words[3]" = "$argv[2]"
end
function __supervisor_at
    test (count (commandline -opc)) -eq (math 1 + (count $argv)); and __supervisor_is $argv
end
function __supervisor_names
    set -l words (commandline -opc)
    set -l config
    if set -l place (contains -i -- --config $words)
        set config --config $words[(math $place + 1)]
    end
    supervisor completion $argv[1] $config 2>/dev/null
end
complete -c supervisor -f"""
