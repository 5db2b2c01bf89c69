"""A small GPT in float64, its data and its optimiser: the same for one process and for many."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset

from supernode_slurm.runtime.order import Order

WIDTH, HEADS, VOCABULARY, TOKENS = 64, 4, 128, 16
STEPS = 30
NO_TARGET = -100
"""What cross_entropy leaves out."""


class Block(nn.Module):
    """Causal attention and an MLP, each behind a norm and with a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return what the next block gets; samples x tokens x width."""
        samples, tokens, _ = x.shape
        parts = self.qkv(self.norms[0](x)).view(samples, tokens, 3, HEADS, WIDTH // HEADS)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.mlp(self.norms[1](x))


class GPT(nn.Module):
    """A decoder, or consecutive layers of it; parameters keep the names of the whole."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding: nn.Embedding | None = nn.Embedding(VOCABULARY, WIDTH)
        self.positions: nn.Embedding | None = nn.Embedding(TOKENS, WIDTH)
        self.blocks = nn.ModuleDict({str(layer): Block() for layer in range(layers)})
        self.norm: nn.LayerNorm | None = nn.LayerNorm(WIDTH)
        self.head: nn.Linear | None = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.double()

    def keep(self, layers: range, is_first: bool, is_last: bool) -> GPT:
        """Drop all but some layers, the embedding at the first stage and the head at the last."""
        for layer in list(self.blocks):
            if int(layer) not in layers:
                del self.blocks[layer]
        if not is_first:
            self.embedding = self.positions = None
        if not is_last:
            self.norm = self.head = None
        return self

    def forward(self, x: Tensor) -> Tensor:
        """Return logits, or the activations for the next stage."""
        if self.embedding is not None and self.positions is not None:
            x = self.embedding(x) + self.positions.weight
        for block in self.blocks.values():
            x = block(x)
        if self.norm is not None and self.head is not None:
            x = self.head(self.norm(x))
        return x


def order(batch: int) -> list[list[int]]:
    """Return the samples of each step's global batch, in the order that every run has."""
    places = Order(STEPS * batch, seed=0, epoch=0)
    return [[places[step * batch + index] for index in range(batch)] for step in range(STEPS)]


class Lines(Dataset[tuple[Tensor, Tensor]]):
    """Samples of inputs and targets, each of ``TOKENS``.

    A line counts up by a stride of its own. Varied ones have 2 to ``TOKENS`` targets.
    """

    def __init__(self, length: int, varied: bool) -> None:
        self._length, self._varied = length, varied

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        random = torch.Generator().manual_seed(index)
        first, stride, length = (
            int(torch.randint(low, high, (), generator=random))
            for low, high in ((0, VOCABULARY), (1, 8), (2, TOKENS + 1))
        )
        line = (first + stride * torch.arange(TOKENS + 1)) % VOCABULARY
        targets = line[1:].clone()
        if self._varied:
            targets[length:] = NO_TARGET
        return line[:-1], targets

    def batch(self, indices: Iterable[int]) -> tuple[Tensor, Tensor]:
        """Return some samples as one micro-batch, of samples x tokens."""
        inputs, targets = zip(*(self[index] for index in indices), strict=True)
        return torch.stack(inputs), torch.stack(targets)


def count(targets: Tensor) -> int:
    """Return how many tokens have a target."""
    return int((targets != NO_TARGET).sum())


def loss_sum(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the sum of the losses of all tokens that have a target."""
    return functional.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), ignore_index=NO_TARGET, reduction="sum"
    )


RATE, BETAS, EPSILON, DECAY = 1e-3, (0.9, 0.95), 1e-8, 0.1


class AdamW:
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019), as torch.optim has it.

    That one loads a compiler, which takes each rank a second.
    """

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        self._parameters = list(parameters)
        self._means = [torch.zeros_like(item) for item in self._parameters]
        self._squares = [torch.zeros_like(item) for item in self._parameters]
        self._steps = 0

    @torch.no_grad()
    def step(self) -> None:
        """Update all parameters."""
        self._steps += 1
        first, second = (1 - beta**self._steps for beta in BETAS)
        for item, mean, square in zip(self._parameters, self._means, self._squares, strict=True):
            mean.lerp_(item.grad, 1 - BETAS[0])
            square.mul_(BETAS[1]).addcmul_(item.grad, item.grad, value=1 - BETAS[1])
            spread = (square.sqrt() / second**0.5).add_(EPSILON)
            item.mul_(1 - RATE * DECAY).addcdiv_(mean, spread, value=-RATE / first)

    def zero_grad(self) -> None:
        """Drop the gradients."""
        for item in self._parameters:
            item.grad = None

    def state_dict(self) -> dict[str, Any]:
        """Return what a restart needs."""
        return {"means": self._means, "squares": self._squares, "steps": self._steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where another was."""
        self._means, self._squares = state["means"], state["squares"]
        self._steps = state["steps"]


def train_alone(layers: int, batch: int, varied: bool) -> tuple[GPT, list[float]]:
    """Train in one process on whole batches; return the model and each step's mean loss."""
    model, data = GPT(layers), Lines(STEPS * batch, varied)
    stepper, losses = AdamW(model.parameters()), []
    for indices in order(batch):
        inputs, targets = data.batch(indices)
        loss = loss_sum(model(inputs), targets) / count(targets)
        loss.backward()
        stepper.step()
        stepper.zero_grad()
        losses.append(loss.item())
    return model, losses


def save(path: Path, parameters: Iterable[tuple[str, Tensor]]) -> None:
    """Write parameters by name as numpy's .npz."""
    numpy.savez(path, **{name: tensor.detach().numpy() for name, tensor in parameters})
