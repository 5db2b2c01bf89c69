"""A shell script as tokens: words in pieces, operators, here-documents. Nothing is run.

Read is what POSIX sh and bash share, with bash's arrays. What only running could tell
(command substitution) becomes a piece that says so.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

_BLANK = re.compile(r"(?:[ \t\r]|\\\n)+")
_PLAIN = re.compile(r"[^\s;&|<>()'\"\\$`]+")
_OPERATOR = re.compile(r"&&|\|\||;;&|;;|;&|\|&|&>>|&>|<<<|<<-|<<|>>|<&|>&|<>|>\||[;&|<>()\n]")
_DESCRIPTOR = re.compile(r"(?:[0-9]+|\{[A-Za-z_]\w*\})(?=[<>])", re.ASCII)
_NAME = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!-]", re.ASCII)
_ASSIGNS = re.compile(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=\Z", re.ASCII)
_IN_QUOTES = re.compile(r"[^\"\\$`]+")
_MAX_PIECES = 200_000
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class Malformed(ValueError):
    """The script cannot be read; holds the line and the reason."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a word."""

    kind: str
    """text, variable (the inside of ``${}``), sum (of ``$(())``) or lost (only running tells)."""
    text: str
    line: int
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Token:
    """A word, an operator (a newline is one), or the text of a here-document."""

    kind: str
    """word, operator or document."""
    line: int
    pieces: tuple[Piece, ...] = ()
    operator: str = ""
    array: tuple[Token, ...] | None = None
    """The words in the brackets, where the pieces are ``name=``."""

    @property
    def plain(self) -> str:
        """Return the word if it is nothing but unquoted text, else nothing."""
        one = self.pieces[0] if len(self.pieces) == 1 and self.array is None else None
        return one.text if one and one.kind == "text" and not one.quoted else ""


def tokens(text: str, first_line: int = 1) -> list[Token]:
    """Return the tokens of a script; raises ``Malformed``."""
    return _Lexer(text, first_line).all()


def quoted_pieces(text: str, line: int) -> tuple[Piece, ...]:
    """Return the pieces of a text as if it stood in double quotes; raises ``Malformed``."""
    lexer = _Lexer(text, line)
    found: list[Piece] = []
    while lexer.at < len(text):
        lexer.quoted_run(found)
    return tuple(found)


class _Lexer:
    """Walks over a text once, from token to token."""

    def __init__(self, text: str, first_line: int) -> None:
        self.text = text
        self.at = 0
        self._first = first_line
        self._ends = [found.start() for found in re.finditer("\n", text)]
        self._documents: list[tuple[int, bool]] = []
        self._in_array = False
        self._pieces = 0
        self._found: list[Token] = []

    def line(self, at: int) -> int:
        return self._first + bisect_right(self._ends, at - 1)

    def all(self) -> list[Token]:
        while self._next():
            pass
        return self._found

    def _next(self) -> bool:
        """Take one token; say whether there may be another."""
        if blank := _BLANK.match(self.text, self.at):
            self.at = blank.end()
        if self.at >= len(self.text):
            return False
        line = self.line(self.at)
        if self.text[self.at] == "#":
            end = self.text.find("\n", self.at)
            self.at = end if end >= 0 else len(self.text)
            return True
        if len(self._found) + self._pieces > _MAX_PIECES:
            raise Malformed(line, "there is too much of it")
        if end := self._sum_end():
            self.at = end
            self._found.append(Token("word", line, (Piece("lost", "((...))", line),)))
        elif found := _DESCRIPTOR.match(self.text, self.at):
            self.at = found.end()
        elif self.text.startswith(("<(", ">("), self.at):
            self._found.append(self._word())
        elif found := _OPERATOR.match(self.text, self.at):
            self.at = found.end()
            self._operator(found.group(), line)
        else:
            self._found.append(self._word())
        return True

    def _sum_end(self) -> int:
        """Return where a ``((sum))`` that begins here ends, 0 if there is none."""
        if not self.text.startswith("((", self.at):
            return 0
        try:
            end = self._close(self.at + 2, ")", ")")
        except Malformed:
            return 0
        return end if self.text[end - 2 : end] == "))" else 0

    def _operator(self, operator: str, line: int) -> None:
        self._found.append(Token("operator", line, operator=operator))
        if operator in ("<<", "<<-"):
            self._documents.append((len(self._found), operator == "<<-"))
        elif operator == "\n" and self._documents:
            for index, strip in self._documents:
                if index < len(self._found):
                    self._found[index] = self._document(self._found[index], strip)
            self._documents.clear()

    def _document(self, end: Token, strip: bool) -> Token:
        """Return the here-document that begins here and ends with a line of that word."""
        word = "".join(piece.text for piece in end.pieces)
        exact = any(piece.quoted for piece in end.pieces)
        line, lines = self.line(self.at), []
        while self.at < len(self.text):
            stop = self.text.find("\n", self.at)
            stop = stop if stop >= 0 else len(self.text)
            content = self.text[self.at : stop]
            self.at = stop + 1
            content = content.lstrip("\t") if strip else content
            if content == word:
                break
            lines.append(content + "\n")
        body = "".join(lines)
        pieces = (Piece("text", body, line, True),) if exact else quoted_pieces(body, line)
        return Token("document", line, pieces)

    def _word(self) -> Token:
        start, pieces = self.at, list[Piece]()
        while self.at < len(self.text):
            char = self.text[self.at]
            if len(pieces) > _MAX_PIECES:
                raise Malformed(self.line(start), "there is too much of it")
            if found := _PLAIN.match(self.text, self.at):
                pieces.append(Piece("text", found.group(), self.line(self.at)))
                self.at = found.end()
            elif char in "'\"\\$`":
                self._special(char, pieces)
            elif self.text.startswith(("<(", ">("), self.at) and start == self.at:
                pieces.append(self._lost(self.at + 2, ")"))
            elif char == "(" and len(pieces) == 1 and _ASSIGNS.match(pieces[0].text):
                array = self._array()
                return Token("word", self.line(start), tuple(pieces), array=array)
            else:
                break
        self._pieces += len(pieces)
        return Token("word", self.line(start), tuple(pieces))

    def _array(self) -> tuple[Token, ...]:
        """Return the words in brackets, which may stand on many lines."""
        opened, kept = self.at, self._found
        if self._in_array:
            raise Malformed(self.line(opened), "a bracket is within a bracket")
        self._found, self.at, self._in_array = [], self.at + 1, True
        while not (self._found and self._found[-1].operator == ")"):
            if not self._next():
                raise Malformed(self.line(opened), "a bracket is not closed")
        inside, self._found, self._in_array = self._found[:-1], kept, False
        return tuple(token for token in inside if token.kind == "word")

    def _special(self, char: str, pieces: list[Piece]) -> None:
        """Take what a quote, a backslash, a dollar or a backtick begins."""
        if char == "'":
            self._single(self.at + 1, pieces, {})
        elif self.text.startswith("$'", self.at):
            self._single(self.at + 2, pieces, _ESCAPES)
        elif char == '"' or self.text.startswith('$"', self.at):
            self._double(pieces)
        elif char == "\\":
            escaped = self.text[self.at + 1 : self.at + 2]
            if escaped != "\n":
                pieces.append(Piece("text", escaped, self.line(self.at), True))
            self.at += 2
        else:
            self._dollar(pieces, quoted=False)

    def _single(self, start: int, pieces: list[Piece], escapes: dict[str, str]) -> None:
        end = self.text.find("'", start)
        while escapes and end > 0 and self.text[end - 1] == "\\":
            end = self.text.find("'", end + 1)
        if end < 0:
            raise Malformed(self.line(self.at), "a quote ' is not closed")
        self._put(self.text[start:end], start, pieces, escapes)
        self.at = end + 1

    def _double(self, pieces: list[Piece]) -> None:
        opened = self.at
        self.at = self.text.index('"', opened) + 1
        pieces.append(Piece("text", "", self.line(opened), True))
        while self.at < len(self.text):
            if self.text[self.at] == '"':
                self.at += 1
                return
            self.quoted_run(pieces)
        raise Malformed(self.line(opened), 'a quote " is not closed')

    def quoted_run(self, pieces: list[Piece]) -> None:
        """Take one run of text, an escape or an expansion, as within double quotes."""
        if found := _IN_QUOTES.match(self.text, self.at):
            self._put(found.group(), self.at, pieces, {})
            self.at = found.end()
        elif self.text[self.at] == "\\":
            escaped = self.text[self.at + 1 : self.at + 2]
            if escaped != "\n":
                text = escaped if escaped in ("$", "`", '"', "\\") else "\\" + escaped
                pieces.append(Piece("text", text, self.line(self.at), True))
            self.at += 2
        elif self.text[self.at] in "$`":
            self._dollar(pieces, quoted=True)
        else:
            pieces.append(Piece("text", self.text[self.at], self.line(self.at), True))
            self.at += 1

    def _put(self, text: str, start: int, pieces: list[Piece], escapes: dict[str, str]) -> None:
        """Add quoted text, line by line, so that each word of it knows its line."""
        at = start
        for part in text.splitlines(keepends=True) or [""]:
            shown = re.sub(r"\\(.)", lambda m: escapes.get(m[1], m[1]), part) if escapes else part
            pieces.append(Piece("text", shown, self.line(at), True))
            at += len(part)

    def _dollar(self, pieces: list[Piece], quoted: bool) -> None:
        text, at, line = self.text, self.at, self.line(self.at)
        if text[at] == "`":
            pieces.append(self._lost(at + 1, "`"))
        elif text.startswith("$((", at):
            self.at = self._close(at + 3, ")", ")")
            pieces.append(Piece("sum", text[at + 3 : self.at - 2], line, quoted))
        elif text.startswith("$(", at):
            pieces.append(self._lost(at + 2, ")"))
        elif text.startswith("${", at):
            self.at = self._close(at + 2, "}")
            pieces.append(Piece("variable", text[at + 2 : self.at - 1], line, quoted))
        elif found := _NAME.match(text, at + 1):
            self.at = found.end()
            pieces.append(Piece("variable", found.group(), line, quoted))
        else:
            self.at += 1
            pieces.append(Piece("text", "$", line, quoted))

    def _lost(self, start: int, closer: str) -> Piece:
        opened = self.at
        self.at = self._close(start, closer)
        inside = self.text[start : self.at - 1].strip()
        return Piece("variable" if inside == "pwd" else "lost", _shown(inside), self.line(opened))

    def _close(self, start: int, *closers: str) -> int:
        """Return the index after the closers, past quotes and brackets within."""
        text, at, stack = self.text, start, list(closers)
        while at < len(text):
            char, top = text[at], stack[-1]
            if char == "\\":
                at += 1
            elif char == top:
                stack.pop()
                if not stack:
                    return at + 1
            elif char == '"' or (char == "`" and top != "`"):
                stack.append(char)
            elif top != '"' and char == "'":
                at = text.find("'", at + 1)
                if at < 0:
                    break
            elif text.startswith("${", at):
                stack.append("}")
                at += 1
            elif char == "(" and (top == ")" or text[at - 1] == "$"):
                stack.append(")")
            at += 1
        raise Malformed(self.line(start), f"'{closers[0]}' is missing")


def _shown(inside: str) -> str:
    """Return a command substitution as messages show it; ``pwd`` is a variable by another name."""
    return "PWD" if inside == "pwd" else f"$({' '.join(inside.split())[:40]})"
