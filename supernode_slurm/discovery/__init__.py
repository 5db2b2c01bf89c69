"""From what is there to an inventory: files of Slurm, a running Slurm, models of other tools."""

from .importer import Imported, import_sources
from .room import Remark

__all__ = ["Imported", "Remark", "import_sources"]
