"""Pictures to learn from, drawn from a seed, and a small network for them: what the shipped tasks share.

Each class is a smooth pattern; a picture is its class's pattern, moved, paler or stronger, under noise.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

CLASSES, SIDE = 10, 32


def draw(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Pictures (count, 1, SIDE, SIDE) and their classes; the classes' patterns are the same for every seed."""
    patterns = torch.randn(CLASSES, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    smooth = functional.interpolate(patterns, size=(SIDE, SIDE), mode="bicubic", align_corners=False)
    random = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (count,), generator=random)
    moves = torch.randint(-6, 7, (count, 2), generator=random).tolist()
    moved = [
        torch.roll(smooth[label], (down, right), (1, 2)) for label, (down, right) in zip(labels, moves, strict=True)
    ]
    contrast = 0.4 + torch.rand(count, 1, 1, 1, generator=random)
    return torch.stack(moved) * contrast + torch.randn(count, 1, SIDE, SIDE, generator=random), labels


def network(width: int) -> nn.Module:
    """Three convolutions and a linear layer, drawn from a seed."""
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for inside, outside in ((1, width), (width, 2 * width), (2 * width, 2 * width)):
        layers += [nn.Conv2d(inside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(2 * width * (SIDE // 8) ** 2, CLASSES))


def device() -> torch.device:
    """The GPU that this process has been given, else its CPUs."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
