"""The plan's data and its JSON. Travels into the job: Python 3.8, standard library only."""

from .document import dumps, loads
from .model import DeviceGroup, Mesh, Pipeline, Plan, Predicted, Stage
from .words import dealt, devices

__all__ = [
    "DeviceGroup",
    "Mesh",
    "Pipeline",
    "Plan",
    "Predicted",
    "Stage",
    "dealt",
    "devices",
    "dumps",
    "loads",
]
