"""A small training loop whose ranks take unequal shares: numpy and the standard library.

Run by sn-launch. Every rank computes its own samples of each global batch; the sum of
the gradients over all samples, divided by the global batch, is the gradient of one
process on the whole batch, whatever the shares. At the end rank 0 trains alone on the
whole batch and compares: the same parameters, but for the order of additions.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # many ranks may share a test machine

import numpy as np

STEPS, INPUTS, HIDDEN, RATE = 30, 4, 32, 0.2
TOLERANCE = 1e-9
"""On the largest difference of a parameter: double precision, 30 steps, sums in another
order; the rounding of one addition is 1e-16 of values below 1."""


def batch(step: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the global batch of a step, the same on every rank."""
    random = np.random.default_rng(step)
    inputs = random.standard_normal((size, INPUTS))
    return inputs, np.sin(inputs.sum(axis=1, keepdims=True))


def initial() -> list[np.ndarray]:
    """Return the parameters of a network with one hidden layer."""
    random = np.random.default_rng(12345)
    return [
        random.standard_normal((INPUTS, HIDDEN)) / INPUTS**0.5,
        np.zeros(HIDDEN),
        random.standard_normal((HIDDEN, 1)) / HIDDEN**0.5,
        np.zeros(1),
    ]


def gradient_sum(
    parameters: list[np.ndarray], inputs: np.ndarray, wanted: np.ndarray
) -> np.ndarray:
    """Return the gradient of the squared error, summed over these samples, as one vector."""
    w1, b1, w2, b2 = parameters
    hidden = np.tanh(inputs @ w1 + b1)
    error = hidden @ w2 + b2 - wanted
    back = (error @ w2.T) * (1 - hidden**2)
    parts = [inputs.T @ back, back.sum(axis=0), hidden.T @ error, error.sum(axis=0)]
    return np.concatenate([part.ravel() for part in parts])


def update(parameters: list[np.ndarray], gradient: np.ndarray) -> None:
    """Take one step of gradient descent."""
    start = 0
    for parameter in parameters:
        part = gradient[start : start + parameter.size].reshape(parameter.shape)
        np.subtract(parameter, RATE * part, out=parameter)
        start += parameter.size


def loss(parameters: list[np.ndarray], size: int) -> float:
    """Return the mean squared error on a batch that training does not see."""
    inputs, wanted = batch(STEPS, size)
    w1, b1, w2, b2 = parameters
    return float(np.mean((np.tanh(inputs @ w1 + b1) @ w2 + b2 - wanted) ** 2))


def train(first: int, count: int, whole: int, reduce_sum) -> list[np.ndarray]:
    """Train on samples first .. first+count of each batch; return the parameters."""
    parameters = initial()
    for step in range(STEPS):
        inputs, wanted = batch(step, whole)
        mine = slice(first, first + count)
        gradient = reduce_sum(gradient_sum(parameters, inputs[mine], wanted[mine]))
        update(parameters, gradient / whole)
    return parameters


class Star:
    """A sum over all ranks through rank 0: enough for a few kilobytes, not for training."""

    def __init__(self, rank: int, world: int, address: tuple[str, int]) -> None:
        self.peers: list[socket.socket] = []
        self.hub: socket.socket | None = None
        if rank == 0:
            server = socket.create_server(address, backlog=world)
            self.peers = [server.accept()[0] for _ in range(world - 1)]
            server.close()
        else:
            self.hub = self._connect(address)

    @staticmethod
    def _connect(address: tuple[str, int]) -> socket.socket:
        deadline = time.monotonic() + 60
        while True:
            try:
                return socket.create_connection(address, timeout=60)
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def sum(self, values: np.ndarray) -> np.ndarray:
        """Return the sum of the vectors of all ranks."""
        if self.hub is not None:
            send(self.hub, values.tobytes())
            return np.frombuffer(receive(self.hub))
        total = values.copy()
        for peer in self.peers:
            total += np.frombuffer(receive(peer))
        for peer in self.peers:
            send(peer, total.tobytes())
        return total


def send(peer: socket.socket, data: bytes) -> None:
    """Send a message with its length."""
    peer.sendall(struct.pack("!I", len(data)) + data)


def receive(peer: socket.socket) -> bytes:
    """Receive a message; ``ConnectionError`` if the peer went away."""

    def exactly(size: int) -> bytes:
        found = b""
        while len(found) < size:
            part = peer.recv(size - len(found))
            if not part:
                raise ConnectionError("a rank went away")
            found += part
        return found

    return exactly(*struct.unpack("!I", exactly(4)))


def main() -> int:
    """Train; on rank 0 compare with one process, exit code 1 where they differ."""
    env = os.environ
    rank, world = int(env["RANK"]), int(env["WORLD_SIZE"])
    count, first, whole = (
        int(env[name]) for name in ("SN_SAMPLES", "SN_SAMPLE_OFFSET", "SN_GLOBAL_BATCH")
    )
    visible = " ".join(f"{n}={v}" for n, v in env.items() if n.endswith("_VISIBLE_DEVICES"))
    print(
        f"rank {rank:2d} of {world} on {env.get('SLURMD_NODENAME', '?')}: "
        f"{env['SN_ACCELERATOR']}, {visible}, samples {first}..{first + count - 1} of {whole}",
        flush=True,
    )
    star = Star(rank, world, (env["MASTER_ADDR"], int(env["MASTER_PORT"])))
    total = star.sum(np.array([float(count)]))[0]
    parameters = train(first, count, whole, star.sum)
    if rank != 0:
        return 0
    alone = train(0, whole, whole, lambda gradient: gradient)
    worst = max(float(abs(a - b).max()) for a, b in zip(parameters, alone))
    same = worst < TOLERANCE and int(total) == whole
    print(
        f"{world} ranks, {int(total)} of {whole} samples a step, {STEPS} steps: loss "
        f"{loss(initial(), whole):.3f} -> {loss(parameters, whole):.3f}; largest difference "
        f"of a parameter to one process {worst:.1e}: {'the same' if same else 'NOT THE SAME'}",
        flush=True,
    )
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
