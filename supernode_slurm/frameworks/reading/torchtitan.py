"""Jobs of torchtitan: TOML files and ``--section.key`` of its releases up to 2026.

Since 2026 a job is ``--module M --config C``, and batches are counted in tokens.
"""

from __future__ import annotations

import re

from ...catalogue import UnknownName, find_model
from .found import Job, Reading

_LAYOUT = {
    "tp": "tensor_parallel_degree",
    "pp": "pipeline_parallel_degree",
    "cp": "context_parallel_degree",
    "ep": "expert_parallel_degree",
}
_CONVERTERS = {"float8": "fp8", "mxfp8": "mxfp8", "linear.mx": "mxfp8", "nvfp4": "nvfp4"}
_FAMILIES = {"llama3": "llama-3", "qwen3": "qwen3"}
_PUBLISHED = {
    ("llama3", "405b"): "llama-3.1-405b",
    ("deepseek_v3", "671b"): "deepseek-v3",
    ("deepseek_v3", "16b"): "deepseek-v2-lite",
}
"""Where torchtitan's name for a size is not that of the model."""
_SIZE = re.compile(r"[0-9.]+b(?:-a[0-9.]+b)?", re.IGNORECASE)


def read(reading: Reading, job: Job) -> None:
    """Take what a torchtitan job says of its workload."""
    reading.keep("sequence", "training.seq_len", "training.max_context_length")
    reading.keep("micro-batch", "training.local_batch_size", "training.batch_size")
    reading.keep("global-batch", "training.global_batch_size")
    _tokens(reading)
    for planning, name in _LAYOUT.items():
        sections = ("parallelism", "training", "experimental")
        reading.keep(planning, *(f"{section}.{name}" for section in sections))
    schedule = reading.get("parallelism.pipeline_parallel_schedule")
    counted = reading.has("parallelism.pipeline_parallel_layers_per_stage")
    if schedule is not None and schedule.text == "Interleaved1F1B" and not counted:
        # As many as torchtitan takes where no number of layers is said.
        reading.put("virtual-stages", "2", schedule.origin)
    _precision(reading)
    _model(reading)


def _precision(reading: Reading) -> None:
    """Take the precision of matrices: a converter's, or by the name of a configuration."""
    for value in (reading.get("model.converters"), reading.get("config")):
        for word, precision in _CONVERTERS.items():
            if value is not None and word in value.text:
                reading.put("precision", precision, value.origin)
                return
    value = reading.get("training.mixed_precision_param", "training.dtype")
    known = {"bfloat16": "bf16", "float16": "fp16"}.get(value.text) if value else None
    if value and known:
        reading.put("precision", known, value.origin)


def _tokens(reading: Reading) -> None:
    """Take batches that are counted in tokens, as sequences."""
    length = reading.integer("training.max_context_length")
    names = {
        "micro-batch": "training.num_tokens_per_microbatch_per_dp_rank",
        "global-batch": "training.num_tokens_per_train_step",
    }
    for planning, name in names.items():
        count = reading.integer(name)
        if count is None:
            continue
        if length is None or count % length:
            reading.notes.append(
                f"{reading.origin(name)}: {count} tokens are no whole number of sequences"
                + (f" of {length}" if length else ": training.max_context_length is not said")
            )
            continue
        reading.put(planning, str(count // length), reading.origin(name))


def _model(reading: Reading) -> None:
    """Take the model: name and flavor, or what 2026's ``--module`` and ``--config`` name."""
    name = reading.get("model.name", "module")
    size = reading.get("model.flavor", "config")
    if name is None or size is None:
        return
    found = _SIZE.search(size.text.replace("_a", "-a"))
    family = name.text.rpartition(".")[2].lower()
    wanted = _PUBLISHED.get((family, found[0].lower())) if found else None
    if found and wanted is None and family in _FAMILIES:
        wanted = f"{_FAMILIES[family]}-{found[0]}"
    try:
        model = find_model(wanted) if wanted else None
    except UnknownName:
        model = None
    if model is None:
        reading.notes.append(
            f"{size.origin}: the model is not known: the catalogue has no {family} {size.text:.40}"
        )
    else:
        reading.put("model", model.name, size.origin)
    if "lora" in size.text.lower():
        reading.put("train", "lora", size.origin)
