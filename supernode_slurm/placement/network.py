"""The variables by which communication libraries find the network of a kind of node."""

from __future__ import annotations

from ..catalogue import platform
from ..inventory import Network

_NCCL = frozenset({"NCCL", "RCCL"})


def network_environment(network: Network, vendor: str) -> dict[str, str]:
    """Return the variables for the processes of one vendor's devices.

    Gloo and TensorPipe serve every vendor. NCCL's names are read by RCCL and what is built
    from it; HCCL has its own and reaches its cards without being told. The others' names
    are not documented: such a site writes them into ``network: environment``.
    """
    found: dict[str, str] = {}
    library = platform(vendor).ccl.split()[0]
    if network.interface:
        found["GLOO_SOCKET_IFNAME"] = found["TP_SOCKET_IFNAME"] = network.interface
        if library in _NCCL:
            # "=": this name, not every one that begins with it.
            found["NCCL_SOCKET_IFNAME"] = f"={network.interface}"
        elif library == "HCCL":
            found["HCCL_SOCKET_IFNAME"] = network.interface
    if network.hcas and library in _NCCL:
        found["NCCL_IB_HCA"] = f"={','.join(network.hcas)}"
    return {**found, **dict(network.environment)}
