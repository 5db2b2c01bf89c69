"""A plan as JSON text and back: the form in which it travels with the job.

Python 3.8, standard library only. Unknown keys are refused: a plan is written and
read by the same version.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from .model import DeviceGroup, Mesh, Pipeline, Plan, Predicted, Stage


def dumps(plan: Plan) -> str:
    """Return the plan as one line of JSON, fields that hold their default left out."""
    return json.dumps(_plain(plan), separators=(",", ":"), ensure_ascii=True)


def loads(text: str) -> Plan:
    """Return the plan that a JSON text holds.

    Raises ``ValueError`` if the text is no plan of this version.
    """
    try:
        raw = json.loads(text)
        if raw.get("version", 1) != 1:
            raise ValueError("plan has version {!r}, expected 1".format(raw["version"]))
        return _plan(raw)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a plan: {error}") from error


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        found = {}
        for spec in dataclasses.fields(value):
            item = getattr(value, spec.name)
            if item != _default(spec):
                found[spec.name] = _plain(item)
        return found
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _default(spec: dataclasses.Field[Any]) -> Any:
    if spec.default_factory is not dataclasses.MISSING:
        return spec.default_factory()
    return spec.default


def _plan(raw: dict[str, Any]) -> Plan:
    fields = dict(raw)
    fields["groups"] = tuple(_group(item) for item in fields["groups"])
    fields["arguments"] = tuple(fields.get("arguments", ()))
    fields["pipelines"] = tuple(_pipeline(item) for item in fields.get("pipelines", ()))
    if fields.get("predicted"):
        predicted = dict(fields["predicted"])
        predicted["memory_gib"] = tuple(predicted.get("memory_gib", ()))
        fields["predicted"] = Predicted(**predicted)
    return Plan(**fields)


def _group(raw: dict[str, Any]) -> DeviceGroup:
    fields = dict(raw)
    for name in ("visible_env", "domains"):
        fields[name] = tuple(fields.get(name, ()))
    return DeviceGroup(**fields)


def _pipeline(raw: dict[str, Any]) -> Pipeline:
    fields = dict(raw)
    fields["meshes"] = tuple(Mesh(**item) for item in fields["meshes"])
    fields["stages"] = tuple(Stage(**item) for item in fields["stages"])
    return Pipeline(**fields)
