"""A training task for `fairlead trace`: a small convnet learns to tell patterns apart. Run as `python -m`.

Everything is drawn from fixed seeds, so that every run does the same work, whatever it has been given.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from fairlead.learn.trace_tasks.images import device, draw, network

VALIDATION = 1000  # pictures


def main() -> None:
    """Train, and tell the validation loss after each epoch."""
    args = _arguments()
    where = device()
    pictures, labels = (part.to(where) for part in draw(args.samples, 1))
    unseen = tuple(part.to(where) for part in draw(VALIDATION, 2))
    model = network(args.width).to(where)
    steps = torch.optim.SGD(model.parameters(), lr=args.rate, momentum=0.9)
    order = torch.Generator().manual_seed(3)
    tell({"epoch": 0, "loss": loss_of(model, *unseen)})
    tell({"ready": True})
    for epoch in range(1, args.epochs + 1):
        model.train()
        for batch in torch.split(torch.randperm(args.samples, generator=order).to(where), args.batch):
            steps.zero_grad()
            torch.autograd.backward(functional.cross_entropy(model(pictures[batch]), labels[batch]))
            steps.step()
        tell({"epoch": epoch, "loss": loss_of(model, *unseen)})


@torch.no_grad()
def loss_of(model: nn.Module, pictures: Tensor, labels: Tensor) -> float:
    """The mean loss on pictures that it has not learnt from."""
    model.eval()
    losses = [
        functional.cross_entropy(model(some), these, reduction="sum")
        for some, these in zip(torch.split(pictures, 250), torch.split(labels, 250), strict=True)
    ]
    return float(sum(losses)) / len(labels)


def tell(what: dict[str, Any]) -> None:
    """One line of the contract."""
    print(json.dumps(what), flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="convnet", description="Train a small convnet on drawn patterns.")
    parser.add_argument("--samples", type=int, default=2000, help="pictures to learn from (default 2000)")
    parser.add_argument("--width", type=int, default=16, help="channels of the first layer (default 16)")
    parser.add_argument("--batch", type=int, default=100, help="pictures a step (default 100)")
    parser.add_argument("--rate", type=float, default=0.001, help="of learning (default 0.001)")
    parser.add_argument("--epochs", type=int, default=100, help="most epochs (default 100)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
