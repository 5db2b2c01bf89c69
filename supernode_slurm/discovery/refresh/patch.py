"""A changed tree back into its text: only the characters of what changed are others.

Comments, order, spaces, quotes and ends of lines stay wherever nothing changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ...errors import SupernodeError
from ..document import scalar
from .render import Style, block_lines, flow_text
from .spans import BOM, Item, Span, parse, plain, span_of

MARK = "# sn import"
"""How comments of ours begin; they go with the entry that stands below them."""

_DASH = re.compile(r"^ *(-)(?=\s)", re.MULTILINE)
_BARE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.,\[\]{}-]*\Z")
"""What needs no quotes outside braces and brackets, if it stood without them before."""


class CannotEdit(SupernodeError):
    """A file is written in a way that cannot be changed in place."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Characters ``start`` to ``end`` become ``text``."""

    start: int
    end: int
    text: str


def patched(text: str, root: Item, source: str) -> str:
    """Return the text of a changed tree that ``spans.parse`` returned for ``text``.

    Raises ``CannotEdit`` where the result would not say what the tree says.
    """
    head, text = text[: text.startswith(BOM)], text.removeprefix(BOM)
    patcher = _Patcher(text, root)
    edits = sorted(patcher.edits(), key=lambda edit: (edit.start, edit.end))
    parts, done = [], 0
    for edit in edits:
        if edit.start < done:
            raise CannotEdit(_cannot(text, edit.start, source))
        parts += [text[done : edit.start], edit.text]
        done = edit.end
    found = "".join([*parts, text[done:]])
    wanted = plain(root)
    try:
        got = plain(parse(found, source))
    except SupernodeError as error:
        raise CannotEdit(_cannot(text, edits[0].start, source)) from error
    if not same(got, wanted):
        raise CannotEdit(_cannot(text, edits[0].start if edits else 0, source))
    return head + found


def _cannot(text: str, position: int, source: str) -> str:
    line = text.count("\n", 0, position) + 1
    return f"{source}:{line}: is written in a way that cannot be changed in place; edit it by hand"


def as_list(text: str, item: Item) -> str:
    """Return a text in which a mapping is the only entry of a list."""
    head, text = text[: text.startswith(BOM)], text.removeprefix(BOM)
    span = span_of(item)
    start, end = span.start, span.end
    line = text.rfind("\n", 0, start) + 1
    if not isinstance(item.value, dict) or (span.flow and _in_braces(text, start)):
        return f"{head}{text[:start]}[{text[start:end]}]{text[end:]}"
    eol = "\r\n" if text[line - 2 : line] == "\r\n" else "\n"
    lines = text[start:end].split("\n")
    body = "\n".join([lines[0], *(f"  {rest}" if rest.strip() else rest for rest in lines[1:])])
    if "\n" not in text[start:end] or span.flow or span.alias:
        column = len(text[line:]) - len(text[line:].lstrip(" "))
        while text[line + column : line + column + 2] == "- ":
            column += 2
        column, body = column + 2, text[start:end]
    elif span.anchor:
        first = min(key.start for key in item.keys.values())
        column = first - text.rfind("\n", 0, first) - 1
    else:
        return f"{head}{text[:start]}- {body}{text[end:]}"
    return f"{head}{text[:start].rstrip(' ')}{eol}{' ' * column}- {body}{text[end:]}"


def _in_braces(text: str, position: int) -> bool:
    """Return whether a value on its line stands inside braces that were opened before it."""
    import yaml

    depth = 0
    for token in yaml.scan(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if token.start_mark.index >= position:
            break
        name = type(token).__name__
        depth += name.startswith("Flow") and name.endswith("StartToken")
        depth -= name.startswith("Flow") and name.endswith("EndToken")
    return depth > 0


def same(one: object, other: object) -> bool:
    """Return whether bare values are equal and of equal types: 1 and true are not the same."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def is_json(text: str) -> bool:
    """Return whether a text is JSON, which takes no comments and no bare words."""
    if text.lstrip()[:1] != "{":
        return False
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


class _Patcher:
    def __init__(self, text: str, root: Item) -> None:
        self._text = text
        self._root = root
        first = text.find("\n")
        self._eol = "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"
        self._style = Style(json=is_json(text))
        self._anchors: dict[str, Item] = {}

    def edits(self) -> Iterator[Edit]:
        """Yield what must change."""
        yield from self._item(self._root, None)

    def _item(self, item: Item, colon: int | None) -> Iterator[Edit]:
        """Yield the edits of a value; ``colon`` is the end of that of its key."""
        span = span_of(item)
        if span.anchor:
            self._anchors[span.anchor] = item
        if span.alias:
            target = self._anchors.get(span.alias)
            if target is None or not same(plain(target), plain(item)):
                yield Edit(span.start, span.end, flow_text(item, self._style))
        elif isinstance(item.value, dict) and isinstance(item.old, dict):
            yield from self._mapping(item, item.value, item.old, colon)
        elif isinstance(item.value, list) and isinstance(item.old, list):
            yield from self._list(item, item.value, item.old, colon)
        elif not same(plain(item), item.was):
            yield from self._replaced(item, colon)

    def _replaced(self, item: Item, colon: int | None) -> Iterator[Edit]:
        """Yield another value for one; its anchor stays."""
        span = span_of(item)
        found = flow_text(item, self._style)
        if isinstance(item.value, str) and isinstance(item.was, str) and not self._style.json:
            if span.style == "'" and "'" not in item.value and item.value.isprintable():
                found = f"'{item.value}'"
            elif span.style == '"':
                found = _quoted(item.value)
            elif not span.style and not span.flow and _BARE.match(span.text):
                found = item.value if _BARE.match(item.value) else found
        if span.anchor:
            found = f"&{span.anchor} {found}"
        start = span.start
        if colon is not None and "\n" in self._text[colon:start]:
            yield Edit(colon, colon, f" {found}")  # what stands behind the key stays there
            yield Edit(self._line_end(colon, False), self._line_end(span.end, False), "")
        else:
            if start and self._text[start - 1] in ":-":
                found = f" {found}"
            yield Edit(start, span.end, found)

    def _mapping(
        self, item: Item, values: dict[str, Item], old: dict[str, Item], colon: int | None
    ) -> Iterator[Edit]:
        kept = {key for key in old if values.get(key) is old[key]}
        if old and not kept:
            column = self._column(next(iter(item.keys.values())).start)
            lines = [block_lines(key, value, column, self._style) for key, value in values.items()]
            first = next(iter(item.keys.values())).start
            yield from self._all_new(item, colon, first, lines)
            return
        for key, value in old.items():
            if key in kept:
                yield from self._item(value, self._text.index(":", item.keys[key].end) + 1)
        starts = {key: item.keys[key].start for key in old}
        ends = {key: span_of(old[key]).end for key in old}
        yield from self._gone(item, list(old), kept, starts, ends)
        for place, added in _added(list(values), kept):
            end = ends[place] if place else None
            if span_of(item).flow or not old:
                inner = [self._pair(key, values[key]) for key in added]
                yield self._in_flow(span_of(item), inner, end)
            else:
                column = self._column(next(iter(starts.values())))
                lines = [block_lines(key, values[key], column, self._style) for key in added]
                first = next(starts[key] for key in old if key in kept)
                if item is self._root and end is not None and self._is_airy(starts.values()):
                    lines = [["", *entry] for entry in lines]
                yield self._in_block(lines, end, first, column)

    def _is_airy(self, starts: Iterable[int]) -> bool:
        """Return whether an empty line stands before the last key of the file."""
        head = self._line_start(max(starts))
        above = self._text[self._line_start(head - 1) : head] if head else "x"
        while above.startswith("#"):
            head = self._line_start(head - 1)
            above = self._text[self._line_start(head - 1) : head] if head else "x"
        return not above.strip()

    def _all_new(
        self, item: Item, colon: int | None, first: int, entries: list[list[str]]
    ) -> Iterator[Edit]:
        """Yield a collection of which no old entry is left: a block stays one."""
        span = span_of(item)
        if span.flow or not entries:
            yield from self._replaced(item, colon)
            return
        text = self._eol.join(line for entry in entries for line in entry)
        yield Edit(first, self._line_end(span.end, False), text.lstrip(" "))

    def _pair(self, key: str, value: Item) -> str:
        return f"{self._style.scalar(key)}: {flow_text(value, self._style)}"

    def _list(
        self, item: Item, values: list[Item], old: list[Item], colon: int | None
    ) -> Iterator[Edit]:
        index_of = {id(value): str(index) for index, value in enumerate(old)}
        names = [index_of.get(id(value), f"+{at}") for at, value in enumerate(values)]
        kept = {name for name in names if name[0] != "+"}
        spans = {str(index): span_of(value) for index, value in enumerate(old)}
        flow = span_of(item).flow
        column = 0 if flow or not old else self._dash_column(span_of(item))
        if old and not kept:
            fresh = [block_lines(None, value, column, self._style) for value in values]
            first = 0 if flow else self._dash(spans["0"].start, column)
            yield from self._all_new(item, colon, first, fresh)
            return
        for index in sorted(map(int, kept)):
            yield from self._item(old[index], None)
        starts = {n: s.start if flow else self._dash(s.start, column) for n, s in spans.items()}
        ends = {name: span.end for name, span in spans.items()}
        yield from self._gone(item, list(spans), kept, starts, ends)
        for place, added in _added(names, kept):
            new = [values[int(name[1:])] for name in added]
            end = ends[place] if place else None
            if flow or not old:
                inner = [flow_text(value, self._style) for value in new]
                yield self._in_flow(span_of(item), inner, end)
            else:
                lines = [block_lines(None, value, column, self._style) for value in new]
                first = next(starts[name] for name in spans if name in kept)
                yield self._in_block(lines, end, first, column)

    def _dash_column(self, span: Span) -> int:
        found = _DASH.search(self._text, span.start) if span.anchor else None
        return self._column(found.start(1) if found else span.start)

    def _dash(self, start: int, column: int) -> int:
        """Return where the dash of an entry stands: in its column, on its line or above."""
        head = self._line_start(start)
        while self._text[head + column : head + column + 1] != "-":
            if not head:
                return start
            head = self._line_start(head - 1)
        return head + column

    def _gone(
        self,
        item: Item,
        names: list[str],
        kept: set[str],
        starts: dict[str, int],
        ends: dict[str, int],
    ) -> Iterator[Edit]:
        """Yield the edits that take entries away."""
        for run, before, after in _runs(names, kept):
            start, end = starts[run[0]], ends[run[-1]]
            following = starts[after] if after else None
            if not span_of(item).flow:
                yield self._without_lines(start, end, following)
            elif following is not None:
                yield Edit(start, following, "")
            else:
                yield Edit(ends[before] if before else start, end, "")

    def _without_lines(self, start: int, end: int, following: int | None) -> Edit:
        head = self._line_start(start)
        if self._text[head:start].strip() and following is not None:
            return Edit(start, following, "")  # the first key after a dash
        while (above := self._line_start(head - 1)) < head:
            if not self._text[above:head].lstrip().startswith(MARK):
                break
            head = above
        if not head:
            return Edit(head, self._line_end(end, True), "")
        return Edit(self._line_end(head - 1, False), self._line_end(end, False), "")

    # What both share

    def _in_flow(self, span: Span, inner: list[str], end: int | None) -> Edit:
        """Return the edit that adds entries inside braces or brackets."""
        text = ", ".join(inner)
        if end is not None:
            return Edit(end, end, f", {text}")
        start = self._text.index("{" if self._text[span.end - 1] == "}" else "[", span.start) + 1
        is_empty = not self._text[start : span.end - 1].strip()
        return Edit(start, start, text if is_empty else f"{text}, ")

    def _in_block(self, entries: list[list[str]], end: int | None, first: int, column: int) -> Edit:
        """Return the edit that adds lines after what ends at ``end``, or before all."""
        lines = [line for entry in entries for line in entry]
        if end is None:
            indent = " " * column
            text = f"{self._eol}".join(lines)[column:]
            return Edit(first, first, f"{text}{self._eol}{indent}")
        place = self._after_comments(self._line_end(end, False), column)
        return Edit(place, place, "".join(f"{self._eol}{line}" for line in lines))

    def _after_comments(self, place: int, column: int) -> int:
        """Return the end of comments that go on below a line, further in than its key."""
        while place < len(self._text):
            start = place + (2 if self._text.startswith("\r\n", place) else 1)
            end = self._line_end(start, False)
            line = self._text[start:end]
            bare = line.lstrip()
            if bare[:1] != "#" or bare.startswith(MARK) or len(line) - len(bare) <= column + 2:
                break
            place = end
        return place

    def _column(self, position: int) -> int:
        return position - self._line_start(position)

    def _line_start(self, position: int) -> int:
        return self._text.rfind("\n", 0, max(position, 0)) + 1

    def _line_end(self, position: int, past: bool) -> int:
        """Return the end of a line, or the start of the next one."""
        end = self._text.find("\n", position)
        if end < 0:
            return len(self._text)
        if past:
            return end + 1
        return end - 1 if end and self._text[end - 1] == "\r" else end


def _quoted(text: str) -> str:
    found = scalar(text)
    return found if found.startswith('"') else f'"{text}"'


def _runs(names: list[str], kept: set[str]) -> Iterator[tuple[list[str], str, str]]:
    """Yield neighbours that are gone, with what stays before and after them."""
    run: list[str] = []
    before = ""
    for name in names:
        if name not in kept:
            run.append(name)
            continue
        if run:
            yield run, before, name
        run, before = [], name
    if run:
        yield run, before, ""


def _added(names: list[str], kept: set[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield new neighbours, with what stays before them."""
    run: list[str] = []
    before = ""
    for name in names:
        if name in kept:
            if run:
                yield before, run
            run, before = [], name
        else:
            run.append(name)
    if run:
        yield before, run
