"""An inventory kept true in place: what sources measure is changed, what a person wrote stays."""

from .changes import Change
from .file import InventoryText, read, write
from .update import Options, Updated, update

__all__ = ["Change", "InventoryText", "Options", "Updated", "read", "update", "write"]
