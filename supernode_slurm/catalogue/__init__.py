"""Accelerators and models: facts, each with its source and how sure it is."""

from .accelerators import (
    CONFIDENCE,
    FIGURES,
    Accelerator,
    Platform,
    accelerators,
    find_accelerator,
    platform,
    platform_of,
)
from .clock import capped, least_rate_share, rate_share
from .config import model_of_config
from .dimensions import dimensions_of, model_from_dimensions
from .model import Extras, LatentAttention, Mixture, Model
from .models import find_model, models
from .names import UnknownName

__all__ = [
    "CONFIDENCE",
    "FIGURES",
    "Accelerator",
    "Extras",
    "LatentAttention",
    "Mixture",
    "Model",
    "Platform",
    "UnknownName",
    "accelerators",
    "capped",
    "dimensions_of",
    "find_accelerator",
    "find_model",
    "least_rate_share",
    "model_from_dimensions",
    "model_of_config",
    "models",
    "platform",
    "platform_of",
    "rate_share",
]
