"""Where values come from: the command line, variables, the script, files; the strongest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..errors import ConfigError, UsageError, Where, nearest
from ..frameworks.reading import Found, find_workload
from ..inventory import yamltree
from ..slurm import options as sbatch
from .commandline import CommandLine
from .options import OWN, PLANNING, VARIABLES, variable
from .script import Script, sn_lines
from .settings import Settings, of_component

_PLANNING = {option.name for option in PLANNING}
_MOST_BYTES = 2**16


def planning_settings(
    line: CommandLine,
    env: Mapping[str, str],
    script: Script,
    site: Sequence[tuple[str, str]],
    folder: Path,
) -> Settings:
    """Return the planning values, each with its origin.

    ``folder`` is where the job starts, and paths in its script.

    Command line, SN_* variables, ``#SN`` lines, what the script itself trains, the user's
    config, the site's policy: of equal ones the first counts. Raises ``ConfigError`` and
    ``UsageError`` with the place of what cannot be read.
    """
    found = Settings()
    for name, value in line.own.items():
        if name in _PLANNING:
            found.add(name, value, "command line")
    _add_variables(found, env)
    for name, value, where in _directives(script):
        found.add(name, value, str(where))
    read = find_workload(script.text, script.origin, line.arguments, folder, env)
    found.read = frozenset(read.values.keys() - found.values.keys())
    found.notes += (*_unread(env), *_overruled(found, read, script))
    for name, value in read.values.items():
        found.add(name, value, read.origins[name])
    found.notes += read.notes
    for name, value, where in _user_config(env):
        found.add(name, value, str(where))
    for name, value in site:
        found.add(name, value, "the site's policy")
    return found


def variables(env: Mapping[str, str]) -> Settings:
    """Return the planning values of SN_* variables alone."""
    found = Settings()
    _add_variables(found, env)
    return found


def _add_variables(found: Settings, env: Mapping[str, str]) -> None:
    for name in sorted(_PLANNING):
        origin = variable(name)
        # sn-launch tells a rank the batch of its job by the same name.
        if env.get(origin) and not (name == "global-batch" and "SN_SAMPLES" in env):
            found.add(name, env[origin], origin)


def _unread(env: Mapping[str, str]) -> list[str]:
    """Return a note for each SN_* variable that is none of ours."""
    mine = {variable(name): name for name in _PLANNING}
    acting = {variable(option.name): option.name for option in OWN if option.name not in _PLANNING}
    found = []
    for name in sorted(env):
        if not name.startswith("SN_") or name in VARIABLES or name in mine:
            continue
        if name in acting:
            hint = f"write --{acting[name]} on the command line"
        else:
            hint = nearest(name, mine)
        found.append(f"{name} is not read: no planning option has this variable; {hint}")
    return found


def _overruled(found: Settings, read: Found, script: Script) -> list[str]:
    """Return a note for each value that the script trains with and the plan does not."""
    # A model has many names; the words of the plan bring these.
    silent = {"model"} | ({"precision", "global-batch"} if "{plan}" in script.text else set())
    if _open_trainer(found, read, script):
        silent.add("framework")
    return [
        f"{found.said(name)} is planned, the script itself says {value} ({read.origins[name]}): "
        "make them agree"
        for name, value in read.values.items()
        if name not in silent and found.values.get(name, value) != value
    ]


def _open_trainer(found: Settings, read: Found, script: Script) -> bool:
    """Say whether the plan's words alone decide what the script's Trainer stands on."""
    asked = (found.values.get("framework"), read.values.get("framework"))
    return (
        asked == ("hf-fsdp", "hf") and "{plan}" in script.text and "--deepspeed" not in script.text
    )


def _directives(script: Script) -> list[tuple[str, str, Where]]:
    found: list[tuple[str, str, Where]] = []
    words = sn_lines(script)
    while words:
        word, where = words.pop(0)
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or name not in _PLANNING:
            hint = nearest(name.lstrip("-"), _PLANNING)
            raise ConfigError.one(where, f"#SN takes planning options only, got {word!r:.80}", hint)
        if not equals:
            if not words or words[0][1] != where:
                raise ConfigError.one(where, f"#SN: --{name} needs a value")
            value = words.pop(0)[0]
        found.append((name, value, where))
    # Of two lines the later one counts, as with #SBATCH.
    return found[::-1]


def _user_config(env: Mapping[str, str]) -> list[tuple[str, str, Where]]:
    """Return the planning options of the user's own file, if there is one."""
    home = f"{env['HOME']}/.config" if env.get("HOME") else ""
    folder = env.get("XDG_CONFIG_HOME") or home
    named = env.get("SN_CONFIG")
    path = Path(named) if named else Path(folder, "supernode", "config.yaml") if folder else None
    if path is None or not (named or path.is_file()):
        return []
    try:
        with path.open(encoding="utf-8") as stream:
            text = stream.read(_MOST_BYTES)
    except (OSError, ValueError) as error:
        raise ConfigError.one(str(path), f"cannot be read: {error}") from error
    tree, problems = yamltree.parse(text, str(path))
    if problems:
        raise ConfigError(problems)
    if not isinstance(tree.value, dict):
        raise ConfigError.one(tree.where, "expected planning options, like 'framework: megatron'")
    found = []
    for name, node in tree.value.items():
        if name not in _PLANNING:
            raise ConfigError.one(
                node.key_where or node.where,
                f"'{name}' is no planning option",
                nearest(name, _PLANNING),
            )
        if node.text is None:
            raise ConfigError.one(node.where, f"{name}: expected one value")
        found.append((name, node.text, node.where))
    return found


def sbatch_settings(
    line: CommandLine, env: Mapping[str, str], script: Script
) -> tuple[Settings, ...]:
    """Return what the user asked of sbatch, by long option, for each component.

    Command line, SBATCH_*, #SBATCH. Raises ``UsageError`` where the command line and the
    script make different numbers of components.
    """
    lines = sbatch.components(sbatch.directives(script.text))
    count = max(len(line.components), len(lines))
    if min(len(line.components), len(lines)) not in (1, count):
        raise UsageError(
            f"{len(line.components)} components on the command line, {len(lines)} by "
            f"'#SBATCH hetjob' in {script.origin}: make them equal"
        )
    return tuple(
        _component(
            of_component(line.components, index), env, of_component(lines, index), script.origin
        )
        for index in range(count)
    )


def _component(
    line: Sequence[str], env: Mapping[str, str], directives: Sequence[str], origin: str
) -> Settings:
    found = Settings()
    for name, value in sbatch.values(line).items():
        found.add(name, value or "", "command line")
    for name, value in sbatch.environment(env).items():
        found.add(name, value or "", sbatch.variable(name))
    for name, value in sbatch.values(directives).items():
        found.add(name, value or "", f"#SBATCH in {origin}")
    return found
