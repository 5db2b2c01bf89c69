"""The job templates as tests use them: edited as a user would, their frameworks stand-ins."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from supernode_slurm.data import data_dir

TEMPLATES = Path(str(data_dir("job_templates")))
STANDINS = Path(__file__).with_name("standins")
MIXED = Path(str(data_dir("topology_conf"))) / "inventories" / "mixed.yaml"

YAML = """\
model_name_or_path: Qwen/Qwen2.5-7B
stage: sft
do_train: true
finetuning_type: full
dataset: own
template: qwen
cutoff_len: 4096
output_dir: out
learning_rate: 1.0e-5
num_train_epochs: 1
save_steps: 200
"""

NETWORK = {
    "h100-sxm: 8": "{interface: ib0, hcas: [mlx5_0, mlx5_1], environment: {NCCL_IB_TC: 106}}",
    "ascend-910c: 16": "{interface: enp189s0f0}",
}


@dataclass(frozen=True)
class Template:
    """A job template, and what stands in for what it trains with."""

    name: str
    framework: str | None
    """None where it is placed, not planned."""
    ranks: int
    edits: dict[str, str] = field(default_factory=dict)
    """Values for the variables at its top."""

    @property
    def path(self) -> Path:
        """Return its file."""
        return TEMPLATES / f"{self.name}.sh"


ALL = (
    Template("torchrun", "torch", 8, {"SCRIPT": f"{STANDINS}/train.py"}),
    Template("megatron-lm", "megatron", 16, {"MEGATRON": str(STANDINS)}),
    Template("mindspeed-llm", "mindspeed", 16, {"MINDSPEED": str(STANDINS)}),
    Template("deepspeed", "deepspeed", 16, {"SCRIPT": f"{STANDINS}/train_deepspeed.py"}),
    Template("hf-trainer", "hf", 8, {"SCRIPT": f"{STANDINS}/run_clm.py"}),
    Template("llama-factory", "llamafactory", 8, {"CONFIG": "sft.yaml"}),
    Template("ms-swift", "swift", 8),
    Template("flagscale", "flagscale", 24, {"FLAGSCALE": str(STANDINS)}),
    Template("nccl-test", None, 16, {"MPI": "pmi2"}),
)


def edited(template: Template, folder: Path) -> Path:
    """Write a copy of a template with its variables set, and the YAML that it may name."""
    text = template.path.read_text(encoding="utf-8")
    for name, value in template.edits.items():
        text, count = re.subn(rf"^{name}=.*$", f"{name}={value}", text, flags=re.MULTILINE)
        assert count == 1, f"{template.name} sets {name} {count} times"
    (folder / "sft.yaml").write_text(YAML, encoding="utf-8")
    path = folder / f"{template.name}.sh"
    path.write_text(text, encoding="utf-8")
    return path


def room(folder: Path) -> Path:
    """Write the inventory of the mixed site, with networks that need settings."""
    text = MIXED.read_text(encoding="utf-8")
    for devices, network in NETWORK.items():
        line = f"      devices: {{{devices}}}\n"
        assert line in text
        text = text.replace(line, f"{line}      network: {network}\n")
    path = folder / "inventory.yaml"
    path.write_text(text, encoding="utf-8")
    return path
