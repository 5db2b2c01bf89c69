"""Turn a tree into the dataclasses of ``schema``, collecting every problem on the way."""

from __future__ import annotations

import dataclasses
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from ..errors import Problem, Where, nearest
from .fields import Text
from .yamltree import Node, Written, shown

_MISSING = object()


class Build:
    """One run over a tree; ``problems`` holds what it found."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.lost: list[str] = []
        """Names of sections that could not be built: others may still refer to them."""

    def section(self, cls: type, node: Node) -> Any:
        """Return an instance of a schema class, or a marker that is no instance of it."""
        if not isinstance(node.value, dict):
            return self._wrong(node.where, f"expected a mapping, got {shown(node.value)}")
        hints, specs = _fields(cls)
        values: dict[str, Any] = {}
        at = {"": node.where}
        for key, child in node.value.items():
            place = child.key_where or child.where
            if key not in specs:
                self.problems.append(Problem(place, f"unknown key '{key}'", nearest(key, specs)))
                continue
            at[key] = child.where
            value = self._value(hints[key], child, key)
            if value is not _MISSING:
                values[key] = value
        missing = [name for name, needed in specs.items() if needed and name not in node.value]
        for name in missing:
            self.problems.append(Problem(node.where, f"'{name}' is missing", "add it"))
        if any(needed and name not in values for name, needed in specs.items()):
            named = node.value.get("name")
            if named is not None and isinstance(named.value, str):
                self.lost.append(named.value)
            return _MISSING
        return cls(**values, at=at)

    def _wrong(self, where: Where, what: str) -> Any:
        self.problems.append(Problem(where, what))
        return _MISSING

    def _value(self, hint: Any, node: Node, name: str) -> Any:
        origin = get_origin(hint)
        if origin is Annotated:
            try:
                kind = get_args(hint)[1]
                words = isinstance(kind, Text) and node.text is not None
                value = kind.read(node.text if words else node.value)
                return Written(value, node.where) if isinstance(value, str) else value
            except ValueError as error:
                got = "" if "got" in str(error) else f", got {shown(node.value)}"
                return self._wrong(node.where, f"{name}: {error}{got}")
        if origin in (Union, UnionType):
            return self._either(get_args(hint), node, name)
        if origin is list:
            return self._list(get_args(hint)[0], node, name)
        if origin is dict:
            return self._mapping(get_args(hint), node, name)
        if hint is bool:
            if isinstance(node.value, bool):
                return node.value
            return self._wrong(
                node.where, f"{name}: expected true or false, got {shown(node.value)}"
            )
        return self.section(hint, node)

    def _either(self, options: tuple[Any, ...], node: Node, name: str) -> Any:
        if node.value is None and NoneType in options:
            return None
        rest = [option for option in options if option is not NoneType]
        lists = [option for option in rest if get_origin(option) is list]
        if isinstance(node.value, list) and lists:
            return self._value(lists[0], node, name)
        sections = [option for option in rest if dataclasses.is_dataclass(option)]
        if isinstance(node.value, dict) and sections:
            return self._value(sections[0], node, name)
        return self._value(next(o for o in rest if o not in lists), node, name)

    def _list(self, hint: Any, node: Node, name: str) -> Any:
        if not isinstance(node.value, list):
            return self._wrong(node.where, f"{name}: expected a list, got {shown(node.value)}")
        found = [self._value(hint, item, name) for item in node.value]
        return [item for item in found if item is not _MISSING]

    def _mapping(self, hints: tuple[Any, ...], node: Node, name: str) -> Any:
        if not isinstance(node.value, dict):
            return self._wrong(node.where, f"{name}: expected a mapping, got {shown(node.value)}")
        found: dict[str, Any] = {}
        for key, item in node.value.items():
            place = item.key_where or item.where
            checked = self._value(hints[0], Node(key, place, text=key), name)
            value = self._value(hints[1], item, f"{name}.{key}")
            if checked is not _MISSING and value is not _MISSING:
                found[checked] = value
        return found


def json_schema(cls: type) -> dict[str, Any]:
    """Return the JSON Schema of a schema class."""
    hints, specs = _fields(cls)
    properties = {name: _hint_schema(hints[name]) for name in specs}
    return {
        "type": "object",
        "description": (cls.__doc__ or "").strip(),
        "properties": properties,
        "required": [name for name, needed in specs.items() if needed],
        "additionalProperties": False,
    }


def _hint_schema(hint: Any) -> dict[str, Any]:
    origin = get_origin(hint)
    if origin is Annotated:
        found: dict[str, Any] = get_args(hint)[1].schema()
        return found
    if origin in (Union, UnionType):
        options = [option for option in get_args(hint) if option is not NoneType]
        if len(options) == 1:
            return _hint_schema(options[0])
        return {"anyOf": [_hint_schema(option) for option in options]}
    if origin is list:
        return {"type": "array", "items": _hint_schema(get_args(hint)[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": _hint_schema(get_args(hint)[1])}
    return {"type": "boolean"} if hint is bool else json_schema(hint)


@cache
def _fields(cls: type) -> tuple[dict[str, Any], dict[str, bool]]:
    """Return the type hints of a schema class and whether each field is required."""
    hints = get_type_hints(cls, include_extras=True)
    specs = {
        spec.name: spec.default is dataclasses.MISSING
        and spec.default_factory is dataclasses.MISSING
        for spec in dataclasses.fields(cls)
        if spec.name != "at"
    }
    return hints, specs
