"""Training, the same steps for the same text: AdamW over windows of the text, in one thread."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pinion.lab.models.network import Network, Shape, Tokens, Weights, initial


@dataclass(frozen=True)
class Schedule:
    """How training goes. *rate* is the highest learning rate, after *warm_up* steps; it ends at a tenth of it, along a cosine."""

    steps: int = 500
    batch: int = 16
    length: int = 128
    rate: float = 4e-3
    warm_up: int = 40
    decay: float = 0.1
    seed: int = 20260

    def rate_at(self, step: int) -> float:
        """The learning rate of *step*, counted from 0."""
        if step < self.warm_up:
            return self.rate * (step + 1) / self.warm_up
        done = (step - self.warm_up) / max(self.steps - self.warm_up, 1)
        return self.rate * (0.1 + 0.45 * (1 + math.cos(math.pi * done)))


def train(shape: Shape, schedule: Schedule, tokens: Tokens, told: Callable[[int, float], None]) -> Network:
    """A network of *shape* trained on *tokens* (one row); *told* hears of every step and its loss."""
    random = np.random.Generator(np.random.PCG64(schedule.seed))
    network = Network(shape, initial(shape, random))
    first = {name: np.zeros_like(value) for name, value in network.weights.items()}
    second = {name: np.zeros_like(value) for name, value in network.weights.items()}
    for step in range(schedule.steps):
        starts = random.integers(0, len(tokens) - schedule.length - 1, schedule.batch)
        windows = tokens[starts[:, None] + np.arange(schedule.length + 1)[None, :]]
        loss, grads = network.loss(windows[:, :-1], windows[:, 1:])
        _update(network.weights, grads, first, second, schedule, step)
        told(step, loss)
    return network


def _update(weights: Weights, grads: Weights, first: Weights, second: Weights, schedule: Schedule, step: int) -> None:
    """One step of AdamW (Loshchilov and Hutter 2019), with gradients no longer than 1. Vectors do not decay."""
    length = math.sqrt(sum(float(np.square(grad).sum()) for grad in grads.values()))
    shorter, rate = min(1.0, 1.0 / (length + 1e-6)), schedule.rate_at(step)
    slow, fast = 1 - 0.9 ** (step + 1), 1 - 0.99 ** (step + 1)
    for name, grad in grads.items():
        grad *= np.float32(shorter)
        first[name] += np.float32(0.1) * (grad - first[name])
        second[name] += np.float32(0.01) * (np.square(grad) - second[name])
        change = (first[name] / np.float32(slow)) / (np.sqrt(second[name] / np.float32(fast)) + np.float32(1e-8))
        if weights[name].ndim > 1:
            change += np.float32(schedule.decay) * weights[name]
        weights[name] -= np.float32(rate) * change
