"""Words of a shell script with their variables filled in, as far as reading can tell."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from .lexer import Piece, Token, quoted_pieces
from .syntax import Block

_MAX_CHARS = 1 << 17
"""Of one value: Linux gives no program a longer word (MAX_ARG_STRLEN)."""
_MAX_PARTS = 1 << 14
_MAX_WORK = 400_000
"""Words and stretches of text in all, each kilobyte counted as well."""
_MAX_DEPTH = 20
_EXPANSION = re.compile(
    r"(?P<name>[A-Za-z_]\w*|[0-9]+|[@*#?$!-])(?:\[(?P<index>[^\]]*)\])?(?P<rest>.*)\Z",
    re.ASCII | re.DOTALL,
)
_DEFAULT = re.compile(r"(?P<colon>:?)(?P<what>[-=+?])(?P<word>.*)\Z", re.DOTALL)
_SUM_NAME = re.compile(r"\$?\{?\b([A-Za-z_]\w*)\b\}?", re.ASCII)
_SUM = re.compile(r"[0-9+*/%() \t\n-]{1,200}\Z")
_SUMS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_SUM_MOST = 1 << 63


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of text from one place."""

    text: str
    origin: str
    unknown: str = ""
    """Why nobody can say what stands here; the text is empty then."""
    unset: bool = False
    """It is unknown only because no one is seen to set it."""
    maybe: str = ""
    """Where the condition stands under which this is there."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word as a program would get it, each part with where it was written."""

    parts: tuple[Part, ...] = ()

    @property
    def text(self) -> str:
        """Return the text, without what is unknown."""
        return "".join(part.text for part in self.parts)

    @property
    def origin(self) -> str:
        """Return where it begins."""
        return next((part.origin for part in self.parts if part.text or part.unknown), "")

    @property
    def unknown(self) -> str:
        """Return why it is not known, empty if it is."""
        return next((part.unknown for part in self.parts if part.unknown), "")

    @property
    def maybe(self) -> str:
        """Return where the condition stands under which it is there, empty if it always is."""
        return next((part.maybe for part in self.parts if part.maybe), "")


@dataclass(frozen=True, slots=True)
class Variable:
    """What a variable holds: one word, or several for an array."""

    words: tuple[Word, ...]
    array: bool = False


class TooMuch(Exception):
    """A bound is passed; the message says where and which."""


@dataclass(slots=True)
class Budget:
    """How much more is expanded; all scopes of a job share one."""

    left: int = _MAX_WORK

    def spend(self, words: Sequence[Word], place: str) -> None:
        """Count words; raises ``TooMuch``."""
        self.left -= sum(1 + len(word.parts) for word in words)
        self.left -= sum(len(part.text) for word in words for part in word.parts) >> 10
        if self.left < 0:
            raise TooMuch(f"{place}: the script does too much; what follows is not read")


@dataclass(slots=True)
class Scope:
    """What is known at one point of a script."""

    origin: str
    """The script's name, for messages."""
    folder: Path | None
    """Where relative paths start, if that is known."""
    environment: Mapping[str, str]
    submit_folder: Path
    arguments: tuple[Word, ...] | None = ()
    """``$1`` and on, if they are known."""
    variables: dict[str, Variable] = field(default_factory=dict)
    functions: dict[str, tuple[Block, ...]] = field(default_factory=dict)
    """Each with the bodies that it may have."""
    budget: Budget = field(default_factory=Budget)

    def copy(self) -> Scope:
        """Return the same state, to go another way from here."""
        return replace(self, variables=dict(self.variables), functions=dict(self.functions))

    def place(self, line: int) -> str:
        """Return a line of the script as messages show it."""
        return f"{self.origin}:{line}"

    def lost(self, line: int, reason: str) -> Word:
        """Return a word that nobody can know."""
        return Word((Part("", self.place(line), reason),))


def words(scope: Scope, token: Token) -> list[Word]:
    """Return the words that a token becomes; raises ``Malformed``."""
    return _Expansion(scope).words(token.pieces)


def joined(scope: Scope, pieces: Sequence[Piece]) -> Word:
    """Return pieces as one word, as in an assignment; raises ``Malformed``."""
    return _Expansion(scope).joined(pieces)


def bounded(word: Word) -> Word:
    """Return the word, or one that is unknown in place of one too long."""
    if len(word.parts) > _MAX_PARTS or sum(len(part.text) for part in word.parts) > _MAX_CHARS:
        return Word((Part("", word.origin, "it is too long"),))
    return word


class _Expansion:
    """Expands pieces, no deeper than defaults may nest."""

    def __init__(self, scope: Scope, depth: int = 0) -> None:
        self.scope = scope
        self.depth = depth

    def words(self, pieces: Sequence[Piece]) -> list[Word]:
        found: list[Word] = []
        current: list[Part] | None = None
        for piece in pieces:
            fields = self._fields(piece)
            for index, (parts, glued) in enumerate(fields):
                if (index or not glued) and current is not None:
                    found.append(Word(tuple(current)))
                    current = None
                if parts is not None:
                    current = current if current is not None else []
                    current += parts
            if not fields and piece.quoted and not any(part.text for part in current or ()):
                current = None
        found += [] if current is None else [Word(tuple(current))]
        if pieces:
            self.scope.budget.spend(found, self.scope.place(pieces[0].line))
        # Quotes leave nothing behind: words are the same however they came about.
        return [Word(tuple(p for p in word.parts if p.text or p.unknown)) for word in found]

    def joined(self, pieces: Sequence[Piece]) -> Word:
        parts: list[Part] = []
        for piece in pieces:
            place = self.scope.place(piece.line)
            for index, word in enumerate(self._values(piece)):
                parts += [Part(" ", place)] if index else []
                for part in word.parts:
                    if part.text or (part.unknown and part not in parts[-1:]):
                        parts.append(part)
        return bounded(Word(tuple(parts)))

    def _fields(self, piece: Piece) -> list[tuple[list[Part] | None, bool]]:
        """Return the words of a piece, each with whether it clings to what stands before it."""
        values = self._values(piece)
        if piece.kind == "text" or piece.quoted:
            return [(list(word.parts), not index) for index, word in enumerate(values)]
        found: list[tuple[list[Part] | None, bool]] = []
        for index, word in enumerate(values):
            glued = not index
            for part in word.parts:
                for text in re.findall(r"\s+|\S+", part.text) if part.text else [""]:
                    if text.isspace():
                        found.append((None, False))
                        glued = True
                    elif text or part.unknown:
                        stretch = replace(part, text=text)
                        if found and found[-1][0] is not None and glued:
                            found[-1][0].append(stretch)
                        else:
                            found.append(([stretch], glued))
                        glued = True
        return found

    def _values(self, piece: Piece) -> tuple[Word, ...]:
        """Return what a piece holds: one word but for ``$@`` and arrays."""
        scope = self.scope
        if piece.kind == "text":
            return (Word((Part(piece.text, scope.place(piece.line)),)),)
        if piece.kind == "lost":
            return (scope.lost(piece.line, f"{piece.text} is known only when it runs"),)
        if piece.kind == "sum":
            return (self._sum(piece),)
        if self.depth >= _MAX_DEPTH:
            return (scope.lost(piece.line, f"${{{piece.text[:20]}...}} is nested too deeply"),)
        found = self._variable(piece)
        scope.budget.spend(found, scope.place(piece.line))
        return found

    def _variable(self, piece: Piece) -> tuple[Word, ...]:
        scope, line = self.scope, piece.line
        found = _EXPANSION.match(piece.text)
        form = f"${{{piece.text[:40]}}}"
        if found is None or found["name"] in "#?$!-":
            return (scope.lost(line, f"{form} is known only when it runs"),)
        held = self._held(found["name"], found["index"], line)
        default = _DEFAULT.match(found["rest"])
        if default is not None:
            unset = found["name"] not in scope.variables and _is_empty(held)
            result = self._default(held, unset, default, line)
            if default["what"] == "=" and result is not held:
                scope.variables[found["name"]] = Variable(result)
            return result
        if found["rest"]:
            return (scope.lost(line, f"{form} is a form of variable that is not read"),)
        return held

    def _default(
        self, held: tuple[Word, ...], unset: bool, form: re.Match[str], line: int
    ) -> tuple[Word, ...]:
        """Return the value or what ``${NAME:-this}`` and its kin put in its place."""
        what, colon = form["what"], bool(form["colon"])
        parts = [part for word in held for part in word.parts if not part.unset]
        doubt = next((part for part in parts if part.unknown or part.maybe), None)
        if colon and doubt is not None and not any(part.text and not part.maybe for part in parts):
            # It may be empty, or not.
            reason = doubt.unknown or f"it depends on the condition at {doubt.maybe}"
            return (self.scope.lost(line, reason),)
        absent = unset or (colon and _is_empty(held))
        if what == "?" or (what in "-=" and not absent):
            return held
        if what == "+" and absent:
            return (Word(),)
        text = form["word"]
        if text[:1] in ("'", '"') and text[-1:] == text[:1]:
            text = text[1:-1]
        pieces = quoted_pieces(text, line)
        return (_Expansion(self.scope, self.depth + 1).joined(pieces),)

    def _held(self, name: str, index: str | None, line: int) -> tuple[Word, ...]:
        scope = self.scope
        if name in "@*" or name.isdigit():
            return self._argument(name, line)
        if name in ("PWD", "SLURM_SUBMIT_DIR"):
            folder = scope.folder if name == "PWD" else scope.submit_folder
            if folder is None:
                return (scope.lost(line, "the folder that the script is in is not known"),)
            return (Word((Part(str(folder), scope.place(line)),)),)
        variable = scope.variables.get(name)
        if variable is None:
            return () if index in ("@", "*") else (self._outer(name, line),)
        if not variable.array or index in ("@", "*"):
            return variable.words
        if index is None or index.isdigit():
            at = int((index or "0")[:6])
            # A word that is not known may be none, or many.
            lost = [word for word in variable.words[: at + 1] if word.unknown and not word.text]
            return tuple(lost[:1]) or variable.words[at : at + 1] or (Word(),)
        return (scope.lost(line, f"${{{name}[{index[:20]}]}} is a form that is not read"),)

    def _argument(self, name: str, line: int) -> tuple[Word, ...]:
        arguments = self.scope.arguments
        if arguments is None or name == "0":
            return (self.scope.lost(line, f"${name} is known only when it runs"),)
        if name in "@*":
            return arguments
        at = int(name[:6]) - 1
        if at < len(arguments):
            return (arguments[at],)
        return (Word((Part("", self.scope.place(line), f"${name} is not given", unset=True),)),)

    def _outer(self, name: str, line: int) -> Word:
        """Return a variable that the script does not set."""
        environment = self.scope.environment
        if name.startswith("SLURM"):
            return self.scope.lost(line, f"${name} is known only in the job")
        if name in environment:
            return Word((Part(environment[name].replace("\0", ""), f"{name} in the environment"),))
        reason = f"${name} is not set in the script"
        return Word((Part("", self.scope.place(line), reason, unset=True),))

    def _sum(self, piece: Piece) -> Word:
        """Return the number that a ``$(())`` of known numbers makes."""
        place = self.scope.place(piece.line)
        reasons: list[str] = []

        def number(found: re.Match[str]) -> str:
            word = Word(
                tuple(
                    part for held in self._held(found[1], None, piece.line) for part in held.parts
                )
            )
            if word.unknown or word.maybe or not re.fullmatch(r"-?[0-9]{1,18}", word.text.strip()):
                reasons.append(word.unknown or f"${found[1]} is no number")
            return f"({int(word.text)})" if not reasons else "0"

        text = _SUM_NAME.sub(number, piece.text)
        result = _calculated(text) if not reasons else None
        if result is not None:
            return Word((Part(str(result), place),))
        why = reasons[0] if reasons else f"$(({piece.text[:40]})) is a sum that is not read"
        return Word((Part("", place, why),))


def _is_empty(held: Sequence[Word]) -> bool:
    """Say whether a variable holds nothing; what no one sets counts as nothing."""
    parts = [part for word in held for part in word.parts]
    return not any(part.text or (part.unknown and not part.unset) for part in parts)


def _calculated(text: str) -> int | None:
    """Return the result of whole numbers with + - * / % and brackets, None for all else."""
    if not _SUM.match(text) or "**" in text or "//" in text:
        return None
    try:
        return _value(ast.parse(text.replace("/", "//").strip(), mode="eval").body)
    except (SyntaxError, ZeroDivisionError, ValueError):
        return None


def _value(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _SUMS:
        result = _SUMS[type(node.op)](_value(node.left), _value(node.right))
        # Beyond these, a shell's numbers are others than Python's.
        if 0 <= result < _SUM_MOST:
            return result
    raise ValueError("not a sum of whole numbers")
