"""What a site can do for a workload: the best plans, how it scales, what would help it."""

from .changes import leading
from .cost import Cost, parse_tokens, training
from .curve import Curve, Point, Range, curve, parse_range
from .explain import Explained, ExplainedMix, explain_alone
from .free import fastest_free, free_room
from .layouts import parse_layout, plan_words, words
from .limit import PARTS
from .move import Batch, Move, move
from .study import Ranked, Study, study, where
from .wiring import Variant, Wiring, parse_kinds, parse_ratios, wiring

__all__ = [
    "PARTS",
    "Batch",
    "Cost",
    "Curve",
    "Explained",
    "ExplainedMix",
    "Move",
    "Point",
    "Range",
    "Ranked",
    "Study",
    "Variant",
    "Wiring",
    "curve",
    "explain_alone",
    "fastest_free",
    "free_room",
    "leading",
    "move",
    "parse_kinds",
    "parse_layout",
    "parse_range",
    "parse_ratios",
    "parse_tokens",
    "plan_words",
    "study",
    "training",
    "where",
    "wiring",
    "words",
]
