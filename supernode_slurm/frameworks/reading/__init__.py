"""What a job trains, read from its script and the files that this names; nothing is run.

Recognised behind any launcher (srun, sn-launch, torchrun, accelerate, ``bash -c``, scripts that
start scripts): Megatron-LM, MindSpeed-LLM, FlagScale, DeepSpeed, torchtitan, Hugging Face's
Trainer, TRL, LLaMA-Factory and ms-swift.
"""

from .find import find_workload
from .found import Found

__all__ = ["Found", "find_workload"]
