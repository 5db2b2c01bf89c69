"""The tokens of a shell script as a tree: commands, branches, loops and functions."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from .lexer import Malformed, Token

_MAX_DEPTH = 40
_SEPARATORS = ("\n", ";", "&", "&&", "||", "|", "|&")
_ENDS = ("then", "elif", "else", "fi", "do", "done", "esac", "}")
_NAME = re.compile(r"[\w.:-]+\Z")


@dataclass(frozen=True, slots=True)
class Command:
    """A simple command."""

    line: int
    words: tuple[Token, ...]
    files: tuple[tuple[str, Token], ...] = ()
    """Where its input and output go: operator and target."""
    opaque: bool = False
    """A test with operators in it, which are left out."""


@dataclass(frozen=True, slots=True)
class Branches:
    """``if``: conditions with what follows them; an empty condition is ``else``."""

    line: int
    branches: tuple[tuple[Block, Block], ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """``case``: patterns with what follows them."""

    line: int
    word: Token
    branches: tuple[tuple[tuple[Token, ...], Block], ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """``for``, ``while`` or ``until``; only the first has a name."""

    line: int
    name: str
    words: tuple[Token, ...]
    body: Block


@dataclass(frozen=True, slots=True)
class Function:
    """The definition of a function."""

    line: int
    name: str
    body: Block


@dataclass(frozen=True, slots=True)
class Group:
    """Commands in brackets: round ones are a process of their own."""

    line: int
    body: Block
    apart: bool


Node = Command | Branches | Choice | Loop | Function | Group


@dataclass(frozen=True, slots=True)
class Step:
    """A node, and what stands between it and the one before."""

    node: Node
    after: str


Block = tuple[Step, ...]


def parse(tokens: list[Token]) -> Block:
    """Return the tree of a script; raises ``Malformed``."""
    parser = _Parser(tokens)
    block = parser.block(())
    if parser.token is not None:
        raise Malformed(parser.token.line, f"'{parser.word or parser.token.operator}' out of place")
    return block


class _Parser:
    """Walks over tokens once, as deep as the nesting."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.at = 0
        self.depth = 0

    @property
    def token(self) -> Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    @property
    def word(self) -> str:
        return self.token.plain if self.token is not None else ""

    def operator(self, *operators: str) -> bool:
        return self.token is not None and self.token.operator in operators

    def skip_newlines(self) -> None:
        while self.operator("\n", ";"):
            self.at += 1

    def expect(self, word: str, line: int) -> None:
        self.skip_newlines()
        if self.word != word and not self.operator(word):
            raise Malformed(line, f"'{word}' is missing")
        self.at += 1

    def block(self, ends: tuple[str, ...]) -> Block:
        """Return the steps up to one of the ends, which is left standing."""
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise Malformed(self.tokens[self.at - 1].line, "nested too deeply")
        steps: list[Step] = []
        after = ";"
        while self.token is not None:
            if self.operator(*_SEPARATORS):
                # A newline after && continues the line.
                operator = self.token.operator
                after = operator if operator != "\n" or after in ("\n", ";") else after
                self.at += 1
                continue
            if self.word in (*ends, *_ENDS) or self.operator(")", ";;", ";&", ";;&"):
                break
            steps.append(Step(self._node(), after))
            after = "\n"
        self.depth -= 1
        return tuple(steps)

    def _node(self) -> Node:
        handlers: dict[str, Callable[[int], Node]] = {
            "if": self._if,
            "case": self._case,
            "for": self._for,
            "select": self._for,
            "while": self._while,
            "until": self._while,
            "function": self._function,
            "{": self._braces,
        }
        line = self.tokens[self.at].line
        if self.operator("("):
            return self._round(line)
        if self.word in handlers:
            handler = handlers[self.word]
            self.at += 1
            return handler(line)
        if self.word and [t.operator for t in self.tokens[self.at + 1 : self.at + 3]] == ["(", ")"]:
            return self._function(line)
        return self._command(line)

    def _if(self, line: int) -> Node:
        branches: list[tuple[Block, Block]] = []
        while True:
            condition = self.block(("then",))
            self.expect("then", line)
            branches.append((condition, self.block(("elif", "else", "fi"))))
            if self.word != "elif":
                break
            self.at += 1
        if self.word == "else":
            self.at += 1
            branches.append(((), self.block(("fi",))))
        self.expect("fi", line)
        return self._redirected(Branches(line, tuple(branches)))

    def _case(self, line: int) -> Node:
        word = self._take(line)
        self.expect("in", line)
        branches: list[tuple[tuple[Token, ...], Block]] = []
        self.skip_newlines()
        while self.word != "esac":
            patterns: list[Token] = []
            while not self.operator(")"):
                token = self._take(line)
                if token.kind == "word":
                    patterns.append(token)
            self.at += 1
            branches.append((tuple(patterns), self.block(("esac",))))
            if self.operator(";;", ";&", ";;&"):
                self.at += 1
            elif self.word != "esac":
                raise Malformed(line, "'esac' is missing")
            self.skip_newlines()
        self.at += 1
        return Choice(line, word, tuple(branches))

    def _for(self, line: int) -> Node:
        name = self._take(line).plain
        words: list[Token] = []
        self.skip_newlines()
        if self.word == "in":
            self.at += 1
            while self.token is not None and not self.operator("\n", ";"):
                words.append(self._take(line))
        return self._body(line, name or "((", tuple(words))

    def _while(self, line: int) -> Node:
        # What the condition starts is started as often as the body.
        return self._body(line, "", (), self.block(("do",)))

    def _body(self, line: int, name: str, words: tuple[Token, ...], condition: Block = ()) -> Node:
        self.expect("do", line)
        body = condition + self.block(("done",))
        self.expect("done", line)
        return self._redirected(Loop(line, name, words, body))

    def _function(self, line: int) -> Node:
        name = self._take(line).plain
        if not _NAME.match(name):
            raise Malformed(line, f"no name of a function: {name!r:.40}")
        while self.operator("(", ")", "\n"):
            self.at += 1
        node = self._node() if self.token is not None else None
        if not isinstance(node, Group):
            raise Malformed(line, f"function {name} has no body")
        return Function(line, name, node.body)

    def _braces(self, line: int) -> Node:
        body = self.block(("}",))
        self.expect("}", line)
        return self._redirected(Group(line, body, False))

    def _round(self, line: int) -> Node:
        self.at += 1
        body = self.block(())
        self.expect(")", line)
        return self._redirected(Group(line, body, True))

    def _redirected(self, node: Node) -> Node:
        """Return a node, past where its output goes."""
        while self.token is not None and _redirects(self.token):
            self.at += 2
        return node

    def _take(self, line: int) -> Token:
        token = self.token
        if token is None:
            raise Malformed(line, "the script ends within this command")
        self.at += 1
        return token

    def _command(self, line: int) -> Node:
        words: list[Token] = []
        files: list[tuple[str, Token]] = []
        opaque = False
        while self.token is not None:
            token = self.token
            in_test = bool(words) and words[0].plain == "[[" and words[-1].plain != "]]"
            if in_test and token.kind == "operator" and token.operator != "\n":
                opaque = True
                self.at += 1
            elif _redirects(token):
                self.at += 1
                files.append((token.operator, self._take(line)))
            elif token.kind == "operator":
                break
            else:
                words.append(token)
                self.at += 1
        if not words and not files:
            raise Malformed(line, f"'{self.tokens[self.at].operator}' out of place")
        return Command(line, tuple(words), tuple(files), opaque)


def _redirects(token: Token) -> bool:
    return token.operator.startswith(("<", ">", "&>"))
