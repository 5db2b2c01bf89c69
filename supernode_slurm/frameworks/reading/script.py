"""The commands that a batch script would start, read and never run.

Variables, arrays, functions, branches whose test can be told, loops, ``source`` and scripts
started from the script are followed. What a branch changes that cannot be told is unknown
after it, but for words added to what was there: those are marked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from . import changes, syntax
from .conditions import matches, status
from .expand import Scope, TooMuch, Variable, Word, joined, words
from .files import Files, Unread
from .inner import PLAIN, Inner, inner, text_of
from .lexer import Malformed, tokens

_MAX_STEPS = 5_000
_MAX_COMMANDS = 500
_MAX_DEPTH = 12
_DECLARES = ("export", "declare", "typeset", "local", "readonly")
_READS = ("read", "mapfile", "readarray", "getopts", "unset", "let", "printf")
_PREFIXES = ("exec", "command", "builtin", "time", "nohup", "!")
_TESTS = ("[", "[[", "test", ":", "true", "false")
_NAME = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Started:
    """A command that the script would start."""

    words: tuple[Word, ...]
    folder: Path | None
    """Where its relative paths start, if that is known."""
    origin: str
    settings: Mapping[str, Variable]
    """Variables that the script sets: what a program may read from its environment."""


class _Stop(Exception):
    """The script ends here."""


class _Return(Exception):
    """A function, or a script read by ``source``, ends here."""


def started(scope: Scope, text: str, files: Files) -> tuple[list[Started], list[str]]:
    """Return the commands of a script and notes on what could not be read."""
    reader = _Reader(files)
    try:
        reader.script(scope, text, 1)
    except TooMuch as error:
        reader.notes.append(str(error))
    return reader.found, list(dict.fromkeys(reader.notes))


class _Reader:
    """Walks over scripts and keeps what they start."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.found: list[Started] = []
        self.notes: list[str] = []
        self._steps = 0
        self._depth = 0

    def script(self, scope: Scope, text: str, line: int) -> None:
        """Walk over the text of a script; what is wrong with it becomes a note."""
        try:
            self._block(scope, syntax.parse(tokens(text.replace("\0", ""), line)))
        except Malformed as error:
            place = scope.place(error.line)
            self.notes.append(f"{place}: {error}; the script cannot be read")
        except (_Stop, _Return):
            pass

    def _block(self, scope: Scope, block: syntax.Block) -> None:
        last: bool | None = True
        for step in block:
            if step.after in ("&&", "||"):
                if last is (step.after == "||"):
                    continue
                if last is None:
                    self._perhaps(scope, step)
                    continue
            last = self._node(scope, step.node)

    def _perhaps(self, scope: Scope, step: syntax.Step) -> None:
        """Walk a command that depends on the one before it, whose outcome is not known."""
        node = step.node
        first = node.words[0].plain if isinstance(node, syntax.Command) and node.words else ""
        if step.after == "&&" and first == "cd":
            # Where what stands before it failed, there is no job to speak of.
            self._node(scope, node)
            return
        ways = [scope.copy()]
        self._way(scope, ways, (replace(step, after=";"),))
        changes.merge(scope, ways, scope.place(node.line))

    def _way(self, scope: Scope, ways: list[Scope], block: syntax.Block) -> None:
        """Walk one of several ways, and keep where it leads unless it ends the script."""
        way = scope.copy()
        with suppress(_Stop, _Return):
            self._block(way, block)
            ways.append(way)

    def _node(self, scope: Scope, node: syntax.Node) -> bool | None:
        self._steps += 1
        if self._steps > _MAX_STEPS:
            place = scope.place(node.line)
            raise TooMuch(f"{place}: the script does too much; what follows is not read")
        if isinstance(node, syntax.Command):
            return self._command(scope, node)
        if isinstance(node, syntax.Function):
            scope.functions[node.name] = (node.body,)
        elif isinstance(node, syntax.Branches):
            self._branches(scope, node)
        elif isinstance(node, syntax.Choice):
            self._choice(scope, node)
        elif isinstance(node, syntax.Loop):
            self._loop(scope, node)
        else:
            self._block(scope.copy() if node.apart else scope, node.body)
        return None

    def _branches(self, scope: Scope, node: syntax.Branches) -> None:
        ways: list[Scope] = []
        for condition, body in node.branches:
            told = status(scope, condition)
            if told is None:
                self._block(scope, condition)
            elif told and not ways:
                return self._block(scope, body)
            if told is not False:
                self._way(scope, ways, body)
            if told:
                return self._join(scope, ways, node.line)
        return self._join(scope, [*ways, scope.copy()], node.line)

    def _choice(self, scope: Scope, node: syntax.Choice) -> None:
        word = joined(scope, node.word.pieces)
        ways: list[Scope] = []
        for patterns, body in node.branches:
            told = [matches(word, joined(scope, pattern.pieces)) for pattern in patterns]
            if True in told and not ways:
                return self._block(scope, body)
            if True in told or None in told:
                self._way(scope, ways, body)
            if True in told:
                return self._join(scope, ways, node.line)
        return self._join(scope, [*ways, scope.copy()], node.line)

    def _join(self, scope: Scope, ways: list[Scope], line: int) -> None:
        if not ways:
            raise _Stop
        changes.merge(scope, ways, scope.place(line))

    def _loop(self, scope: Scope, node: syntax.Loop) -> None:
        values = [word for token in node.words for word in words(scope, token)]
        ways = [scope.copy()]
        inside = scope.copy()
        reason = f"changes in the loop at {scope.place(node.line)}"
        for name in dict.fromkeys((node.name, *changes.assigned(node.body))):
            lost = scope.lost(node.line, f"${name} {reason}")
            inside.variables[name] = Variable((lost,))
        if len(values) == 1:
            inside.variables[node.name] = Variable((values[0],))
        self._way(inside, ways, node.body)
        changes.merge(scope, ways, scope.place(node.line))

    def _command(self, scope: Scope, node: syntax.Command) -> bool | None:
        rest = list(node.words)
        own: dict[str, Variable] = {}
        while rest and (begin := changes.assigns(rest[0])):
            own[begin[1]] = changes.assignment(scope, rest.pop(0), begin)
        found = [word for token in rest for word in words(scope, token)]
        while found and found[0].text in _PREFIXES:
            found.pop(0)
        if found:
            return self._simple(scope, node, found, own)
        if not rest:
            scope.variables.update(own)
        return True

    def _simple(
        self, scope: Scope, node: syntax.Command, found: list[Word], own: dict[str, Variable]
    ) -> bool | None:
        """Follow a command: one that changes the state, or one that starts something."""
        name = found[0].text
        if name in ("exit", "return"):
            raise _Stop if name == "exit" else _Return
        if name in _TESTS:
            return status(scope, (syntax.Step(node, ";"),))
        if name in _DECLARES:
            changes.declare(scope, node.words[1:])
        elif name in _READS:
            changes.forget(scope, found[1:], node.line)
        elif name in ("cd", "pushd"):
            changes.change_folder(scope, found[1:])
        elif name == "set" and "--" in [word.text for word in found]:
            at = [word.text for word in found].index("--")
            scope.arguments = tuple(found[at + 1 :])
        elif name == "shift":
            changes.shift(scope, found[1:])
        elif name in scope.functions:
            self._call(scope, scope.functions[name], node.line, found[1:])
        elif name == "cat":
            self._written(scope, node)
        elif not PLAIN.match(name):
            self._start(scope, node, found, own)
        return None

    def _call(
        self, scope: Scope, bodies: Sequence[syntax.Block], line: int, arguments: list[Word]
    ) -> None:
        kept, scope.arguments = scope.arguments, tuple(arguments)
        ways: list[Scope] = []
        for body in bodies if len(bodies) > 1 else ():
            self._deeper(partial(self._way, scope, ways, body))
        if ways:
            changes.merge(scope, ways, scope.place(line))
        elif len(bodies) == 1:
            with suppress(_Return):
                self._deeper(partial(self._block, scope, bodies[0]))
        scope.arguments = kept

    def _deeper(self, walk: Callable[[], None]) -> None:
        """Walk what is called or started from here; a script may call itself for ever."""
        if self._depth >= _MAX_DEPTH:
            return
        self._depth += 1
        try:
            walk()
        finally:
            self._depth -= 1

    def _written(self, scope: Scope, node: syntax.Command) -> None:
        """Keep a file that the script writes with ``cat > FILE <<END``."""
        documents = [token for _, token in node.files if token.kind == "document"]
        targets = [token for sign, token in node.files if sign == ">"]
        if len(documents) == 1 and len(targets) == 1 and scope.folder is not None:
            text, target = joined(scope, documents[0].pieces), joined(scope, targets[0].pieces)
            if not target.unknown:
                self.files.write(scope.folder / target.text, text.text, text.unknown)

    def _start(
        self, scope: Scope, node: syntax.Command, found: list[Word], own: dict[str, Variable]
    ) -> None:
        script, origin = inner(found), scope.place(node.line)
        if script is not None and self._follow(scope, script, own, origin):
            return
        if len(self.found) >= _MAX_COMMANDS:
            raise TooMuch(f"{origin}: more than {_MAX_COMMANDS} commands; the others are not read")
        settings = {**scope.variables, **own}
        self.found.append(Started(tuple(found), scope.folder, origin, settings))

    def _follow(self, scope: Scope, script: Inner, own: dict[str, Variable], origin: str) -> bool:
        """Walk over a script that this one starts; say whether there was one."""
        below = scope if script.shared else scope.copy()
        kept = scope.origin, scope.arguments
        line = 1
        if script.is_text:
            text, line = text_of(script.name, below)
        else:
            try:
                text = self._file(scope, script.name)
            except Unread as error:
                self.notes.append(f"{origin}: {error}")
                return False
            below.origin = script.name.text
        if script.arguments or not script.shared:
            below.arguments = script.arguments
        below.variables.update(own)
        self._deeper(partial(self.script, below, text, line))
        scope.origin, scope.arguments = kept
        return True

    def _file(self, scope: Scope, name: Word) -> str:
        if name.unknown or name.maybe:
            raise Unread(f"a script is started whose name is not known: {name.unknown}")
        if scope.folder is None and not name.text.startswith("/"):
            raise Unread(f"{name.text} is not read: the folder it is in is not known")
        return self.files.read((scope.folder or Path("/")) / name.text, name.text)
