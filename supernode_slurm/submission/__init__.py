"""Script and plan: what sbatch is given."""

from .ask import make_ask

__all__ = ["make_ask"]
