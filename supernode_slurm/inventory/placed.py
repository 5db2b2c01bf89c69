"""A mapping of an inventory file that knows where its values stand."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..errors import Where

Places = dict[str, Where]


@dataclass(slots=True, kw_only=True)
class Placed:
    """A mapping of the file, with the places of its values; ``at[""]`` is the mapping's own."""

    at: Places = field(default_factory=dict)
