"""Lists of names in a file: some go, some come, and the rest stays as it was written."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ... import hostlist
from .sheet import put
from .spans import Item, new, str_of


def names_in(items: Iterable[Item]) -> list[str]:
    """Return all names of a list of texts."""
    return [name for item in items for name in hostlist.expand(str_of(item))]


def without(items: Sequence[Item], gone: Collection[str]) -> list[Item]:
    """Return texts without some names; texts of which nothing is left are gone."""
    found = []
    for item in items:
        names = hostlist.expand(str_of(item))
        left = [name for name in names if name not in gone]
        if left != names and left:
            item.value = hostlist.fold(left, sort=False)
        if left:
            found.append(item)
    return found


def with_more(items: Sequence[Item], more: Sequence[str], alike: Collection[str]) -> list[Item]:
    """Return texts with more names: in a text of names like them, else in one of their own.

    ``alike`` are the names that the new ones may stand with.
    """
    if not more:
        return list(items)
    stems = {stem(name) for name in more}
    near = []
    for item in items:
        names = hostlist.expand(str_of(item))
        if set(names) <= set(alike) and {stem(name) for name in names} & stems:
            near.append((item, names))
    if len(near) > 1 and all(len(names) == 1 for _, names in near):
        return [*items, *map(new, more)]  # one by one, as the others
    if near:
        item, names = max(near, key=lambda pair: len(pair[1]))
        item.value = joined(names, more)
        return list(items)
    return [*items, new(hostlist.fold(more))]


def joined(names: Sequence[str], more: Sequence[str]) -> str:
    """Return a folded list with more names: in order where it was in order."""
    is_sorted = list(names) == hostlist.expand(hostlist.fold(names))
    return hostlist.fold([*names, *more], sort=is_sorted)


def stem(name: str) -> str:
    """Return a name without its number."""
    return name.removesuffix(hostlist.digit_tail(name))


def put_names(mapping: Item, key: str, items: list[Item]) -> None:
    """Write a list of texts under a key, or take the key away where the list is empty."""
    if not isinstance(mapping.value, dict):
        return
    there = mapping.value.get(key)
    if not items:
        mapping.value.pop(key, None)
    elif there is None:
        put(mapping, key, [])
        mapping.value[key].value = list(items)
    elif isinstance(there.value, list):
        there.value = list(items)
    else:
        there.value = items[0].value if len(items) == 1 else list(items)
