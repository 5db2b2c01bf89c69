"""Script and plan: what sbatch is given."""

from .ask import make_ask
from .commandline import OWN, CommandLine, parse
from .submit import Prepared, prepare, submit

__all__ = ["OWN", "CommandLine", "Prepared", "make_ask", "parse", "prepare", "submit"]
