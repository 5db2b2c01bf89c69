"""Train in one process on whole batches: ``one.py FOLDER LAYERS:GLOBAL_BATCH:LENGTHS...``.

LENGTHS are plain or varied. Writes the parameters after ``STEPS`` steps as FOLDER/4:16:plain.npz
and the like.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from gpt import save, train_alone


def main() -> int:
    """Train each model; return the exit code."""
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    for name in sys.argv[2:]:
        layers, batch, lengths = name.split(":")
        model, losses = train_alone(int(layers), int(batch), lengths == "varied")
        if losses[-1] >= losses[0]:
            raise SystemExit(f"nothing was learned: losses {losses}")
        save(folder / f"{name}.npz", model.named_parameters())
    return 0


if __name__ == "__main__":
    sys.exit(main())
