"""From what is there to an inventory: files of Slurm, a running Slurm, models of other tools."""

from .adapters import Wanted
from .importer import Imported, import_sources
from .room import Remark

__all__ = ["Imported", "Remark", "Wanted", "import_sources"]
