"""Train in one process: ``one.py FOLDER LAYERS GLOBAL_BATCH``.

Writes the parameters after ``STEPS`` steps as FOLDER/plain.npz, and with sequences of unlike
lengths as FOLDER/varied.npz; the mean losses as JSON to stdout.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from gpt import save, train_alone


def main() -> int:
    """Train twice; return the exit code."""
    torch.set_num_threads(1)
    folder, layers, batch = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    losses = {}
    for name in ("plain", "varied"):
        model, losses[name] = train_alone(layers, batch, name == "varied")
        save(folder / f"{name}.npz", model.named_parameters())
    print(json.dumps(losses))
    return 0


if __name__ == "__main__":
    sys.exit(main())
