"""Inside the job. Travels with it: Python 3.8, standard library only."""

from .share import Share, share

__all__ = ["Share", "share"]
