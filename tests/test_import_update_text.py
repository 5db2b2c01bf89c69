"""A changed tree goes back into its text: what did not change stays byte for byte."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supernode_slurm.data import data_dir
from supernode_slurm.discovery.refresh.patch import CannotEdit, patched
from supernode_slurm.discovery.refresh.spans import Item, new, parse, plain

INVENTORIES = sorted((Path(str(data_dir("topology_conf"))) / "inventories").glob("*.yaml"))

HOSTILE = """\
# 机房 A: 由人手写, and more than one language
version:   1
cluster: "c"   # the name
pools:
- name: p   # one
  # two
  nodes:   {hosts: "n[1-4]",   devices: { h100-sxm: 8 },
            sockets: 2, cores: 56, memory: 2000 GiB}\t# a tab before
- name: &q q
  nodes:  # several: yes - no
  - hosts: m[1-4]
    devices: &d
      a100: 4  # four
    features:
    - a   # an a

    - b
    note: >-
      folded
      text

  # between
  - hosts: 'o[1-3]'
    devices: *d
    text: |
      kept # no comment
      as it is
partitions:
    main: { pools: [ p ],  default: true, # c
            }
    b: {pools: [*q]}
    empty:
"""


def walk(item: Item, *path: str | int) -> Item:
    for step in path:
        held: Any = item.value
        item = held[step]
    return item


def changed_lines(one: str, other: str) -> list[str]:
    lines = difflib.unified_diff(one.splitlines(True), other.splitlines(True), n=0)
    return [
        line.rstrip("\r\n") for line in lines if line[0] in "+-" and line[:3] not in ("+++", "---")
    ]


@pytest.mark.parametrize("text", [HOSTILE, HOSTILE.replace("\n", "\r\n"), HOSTILE.rstrip()])
def test_an_unchanged_tree_gives_the_same_bytes(text: str) -> None:
    assert patched(text, parse(text, "x"), "x") == text


@pytest.mark.parametrize("path", INVENTORIES, ids=lambda path: path.stem)
def test_an_example_inventory_is_given_back(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert patched(text, parse(text, "x"), "x") == text


@pytest.mark.parametrize("eol", ["\n", "\r\n"])
def test_only_lines_of_what_changed_are_others(eol: str) -> None:
    text = HOSTILE.replace("\n", eol)
    root = parse(text, "x")
    nodes = walk(root, "pools", 0, "nodes")
    walk(nodes, "devices", "h100-sxm").value = 7
    walk(nodes, "hosts").value = "n[1-3]"
    assert isinstance(nodes.value, dict)
    nodes.value["gres"] = new("npu")
    found = patched(text, root, "x")
    assert changed_lines(text, found) == [
        '-  nodes:   {hosts: "n[1-4]",   devices: { h100-sxm: 8 },',
        "-            sockets: 2, cores: 56, memory: 2000 GiB}\t# a tab before",
        '+  nodes:   {hosts: "n[1-3]",   devices: { h100-sxm: 7 },',
        "+            sockets: 2, cores: 56, memory: 2000 GiB, gres: npu}\t# a tab before",
    ]
    assert found.count("\n") == found.count(eol)


def test_what_an_anchor_lends_is_written_out_where_it_stays() -> None:
    root = parse(HOSTILE, "x")
    walk(root, "pools", 1, "nodes", 0, "devices", "a100").value = 3
    assert changed_lines(HOSTILE, patched(HOSTILE, root, "x")) == [
        "-      a100: 4  # four",
        "+      a100: 3  # four",
        "-    devices: *d",
        "+    devices: {a100: 4}",
    ]
    walk(root, "pools", 1, "nodes", 1, "devices", "a100").value = 3
    assert changed_lines(HOSTILE, patched(HOSTILE, root, "x")) == [
        "-      a100: 4  # four",
        "+      a100: 3  # four",
    ]


def test_entries_come_and_go_with_their_comments() -> None:
    root = parse(HOSTILE, "x")
    listed = walk(root, "pools", 1, "nodes")
    assert isinstance(listed.value, list)
    added = new({"hosts": "m9", "devices": {"a100": 2}})
    added.comment, added.fold = "sn import 2026-08-22: m9", True
    listed.value.insert(1, added)
    found = patched(HOSTILE, root, "x")
    assert changed_lines(HOSTILE, found) == [
        "+  # sn import 2026-08-22: m9",
        "+  - hosts: m9",
        "+    devices: {a100: 2}",
    ]
    again = parse(found, "x")
    nodes = walk(again, "pools", 1, "nodes")
    assert isinstance(nodes.value, list)
    del nodes.value[1]
    assert patched(found, again, "x") == HOSTILE


def test_a_file_of_one_line_and_json_are_edited_too() -> None:
    text = '{"version": 1, "cluster": "c", "pools": []}'
    root = parse(text, "x")
    pools = walk(root, "pools")
    assert isinstance(pools.value, list)
    pools.value.append(new({"name": "p", "on": ["yes", None, 1.5, True]}))
    found = patched(text, root, "x")
    assert found == (
        '{"version": 1, "cluster": "c", "pools": [{"name": "p", "on": ["yes", null, 1.5, true]}]}'
    )


def test_what_cannot_be_edited_is_refused_with_its_line() -> None:
    text = "a: 1\nb: [c: 1]\n"
    root = parse(text, "site.yaml")
    pair = walk(root, "b", 0)
    assert isinstance(pair.value, dict)
    pair.value["d"] = new(2)
    with pytest.raises(CannotEdit, match=r"site.yaml:2: .*edit it by hand"):
        patched(text, root, "site.yaml")


WORDS = (
    "a",
    "b-1",
    "n[01-08]",
    "no",
    "0012",
    "机房",
    "x y",
    "'",
    '"',
    "a: b",
    "#c",
    "",
    "-",
    "1e3",
)
scalars = st.one_of(st.sampled_from(WORDS), st.integers(0, 99), st.booleans(), st.just(1.5))
KEYS = ("hosts", "k1", "no", "机", "a b", "9")


def trees(depth: int) -> st.SearchStrategy[Any]:
    below = scalars if not depth else st.one_of(scalars, trees(depth - 1))
    return st.one_of(
        st.dictionaries(st.sampled_from(KEYS), below, max_size=4), st.lists(below, max_size=4)
    )


@st.composite
def documents(draw: st.DrawFn) -> str:
    """Return YAML in styles that people mix: blocks, braces, comments, blank lines."""
    tree = draw(st.dictionaries(st.sampled_from(KEYS), trees(2), min_size=1, max_size=4))
    lines = _block(draw, {"version": 1, **tree}, 0)
    text = draw(st.sampled_from(("", "# head\n", "---\n", "\ufeff# bom\n"))) + "\n".join(lines)
    text += draw(st.sampled_from(("", "\n", "\n\n# end\n")))
    return text.replace("\n", draw(st.sampled_from(("\n", "\r\n"))))


def _quoted(value: object) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(value).lower()


def _flow(draw: st.DrawFn, tree: Any) -> str:
    space = draw(st.sampled_from(("", " ", "  ")))
    if isinstance(tree, dict):
        inner = f",{space or ' '}".join(f"{_quoted(k)}: {_flow(draw, v)}" for k, v in tree.items())
        return f"{{{space}{inner}{space}}}"
    if isinstance(tree, list):
        return f"[{space}{f',{space}'.join(_flow(draw, item) for item in tree)}{space}]"
    return _quoted(tree)


def _block(draw: st.DrawFn, tree: Any, column: int) -> list[str]:
    found: list[str] = []
    pairs = tree.items() if isinstance(tree, dict) else [("", item) for item in tree]
    indent = " " * column
    for key, value in pairs:
        found += draw(st.sampled_from(([], [], [f"{indent}# above"], [""])))
        comment = draw(st.sampled_from(("", "", "  # behind: - it", "\t# tab")))
        head = f"{indent}{_quoted(key)}:" if isinstance(tree, dict) else f"{indent}-"
        if not isinstance(value, (dict, list)) or not value or draw(st.booleans()):
            found.append(f"{head} {_flow(draw, value)}{comment}")
        elif isinstance(tree, list) and draw(st.booleans()):
            inner = _block(draw, value, column + 2)
            first = next(
                i for i, line in enumerate(inner) if line.strip() and "# above" not in line
            )
            found += [*inner[:first], f"{head} {inner[first].lstrip()}", *inner[first + 1 :]]
        else:
            deeper = column + draw(st.sampled_from((1, 2, 4)))
            if isinstance(value, list) and isinstance(tree, dict) and draw(st.booleans()):
                deeper = column
            comment = comment.replace("\t", " ")  # none may stand before the value
            found += [f"{head}{comment}", *_block(draw, value, deeper)]
    return found


def mutate(draw: Callable[[st.SearchStrategy[Any]], Any], item: Item) -> None:
    """Change, add and take away values of a tree."""
    held = item.value
    if isinstance(held, dict):
        for key in list(held):
            choice = draw(st.integers(0, 5))
            if key == "version":
                continue
            if choice == 0:
                del held[key]
            elif choice == 1:
                held[key].value = draw(scalars)
            else:
                mutate(draw, held[key])
        if draw(st.booleans()):
            held.setdefault(f"new{draw(st.integers(0, 2))}", new(draw(trees(1))))
    elif isinstance(held, list):
        for index in reversed(range(len(held))):
            if draw(st.integers(0, 3)) == 0:
                del held[index]
            else:
                mutate(draw, held[index])
        for _ in range(draw(st.integers(0, 2))):
            fresh = new(draw(trees(1)))
            fresh.fold, fresh.comment = (
                draw(st.booleans()),
                draw(st.sampled_from(("", "sn import"))),
            )
            held.insert(draw(st.integers(0, len(held))), fresh)


@settings(max_examples=300)
@given(documents(), st.data())
def test_any_change_of_any_document_says_what_the_tree_says(text: str, data: st.DataObject) -> None:
    root = parse(text, "x")
    assert patched(text, root, "x") == text
    before = copy.deepcopy(plain(root))
    mutate(data.draw, root)
    found = patched(text, root, "x")
    assert plain(parse(found, "x")) == plain(root)
    if plain(root) == before:
        assert found == text
