"""Stands in for DeepSpeed: what a training script of its own calls."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from standin import Rank, need, rank
from zero import check_file


def add_config_arguments(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add DeepSpeed's two options."""
    parser.add_argument("--deepspeed", action="store_true")
    parser.add_argument("--deepspeed_config")
    return parser


def init_distributed() -> Rank:
    """Return who this process is."""
    return rank()


def initialize(args: argparse.Namespace, me: Rank) -> dict[str, int]:
    """Read the configuration; return its sizes."""
    need(args.deepspeed, "no --deepspeed")
    need(args.deepspeed_config is not None, "no --deepspeed_config")
    return check_file(args.deepspeed_config, me)
