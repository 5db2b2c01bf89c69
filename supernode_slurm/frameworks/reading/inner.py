"""Which script a command of a script starts in its turn."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from .expand import Part, Scope, Variable, Word

_SHELLS = ("bash", "sh", "zsh", "dash", "ksh")
_PROGRAM = re.compile(r"python[0-9.]*\Z|torchrun\Z|deepspeed\Z|accelerate\Z|.*\.py\Z")
PLAIN = re.compile(
    r"(?:alias|awk|basename|chmod|cp|cut|date|dirname|dos2unix|echo|find|free|git|grep|head|"
    r"hostname|kill|ln|ls|mkdir|ml|module|mv|nvidia-smi|npu-smi|pip3?|pkill|popd|ps|pwd|rm|rsync|"
    r"sacct|sbatch|scancel|scontrol|scp|sed|seq|sinfo|sleep|sort|squeue|stat|tail|tar|tee|touch|"
    r"tr|trap|ulimit|umask|uname|uniq|unzip|wait|wc|wget|which|whoami)\Z"
)
"""Commands that train nothing, whatever they are given."""


@dataclass(frozen=True, slots=True)
class Inner:
    """A script that is started."""

    name: Word
    """Its file, or its text."""
    arguments: tuple[Word, ...]
    shared: bool = False
    """It runs in the same shell, as with ``source``."""
    is_text: bool = False
    """It is given as text, as with ``bash -c`` and ``eval``."""


def inner(found: Sequence[Word]) -> Inner | None:
    """Return the script that a command starts, if it starts one."""
    if found[0].text in ("source", "."):
        return Inner(found[1], tuple(found[2:]), shared=True) if len(found) > 1 else None
    if found[0].text == "eval":
        gap = Part(" ", found[0].origin)
        parts = tuple(part for word in found[1:] for part in (*word.parts, gap))
        return Inner(Word(parts), (), shared=True, is_text=True)
    for index, word in enumerate(found):
        name = PurePath(word.text).name
        if name in _SHELLS and not word.unknown:
            return _of_shell(found[index + 1 :])
        if _PROGRAM.match(name):
            return None
        if name.endswith(".sh") and ("/" in word.text or not index):
            return Inner(word, tuple(found[index + 1 :]))
    return None


def _of_shell(rest: Sequence[Word]) -> Inner | None:
    at = 0
    while at < len(rest) and rest[at].text.startswith(("-", "+")):
        if re.match(r"-[a-z]*c", rest[at].text) and not rest[at].text.startswith("--"):
            after = rest[at + 1 :]
            return Inner(after[0], tuple(after[2:]), is_text=True) if after else None
        at += 2 if rest[at].text in ("-o", "+o") else 1
    return Inner(rest[at], tuple(rest[at + 1 :])) if at < len(rest) else None


def text_of(word: Word, scope: Scope) -> tuple[str, int]:
    """Return the text of a script given as a word, and the line where it begins.

    What is not known of it becomes variables of the scope that say why.
    """
    texts: list[str] = []
    for index, part in enumerate(word.parts):
        if part.unknown or part.maybe:
            name = f"_not_known_{index}"
            scope.variables[name] = Variable((Word((part,)),))
            texts.append(f"${{{name}}}")
        else:
            texts.append(part.text)
    line = word.origin.rpartition(":")[2]
    return "".join(texts), int(line) if line.isdecimal() else 1
