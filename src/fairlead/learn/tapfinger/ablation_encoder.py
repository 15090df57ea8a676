"""What stands in for the graph network in the ablations: perceptrons that see a node and sums of its neighbours.

Clusters know what runs on them and what they see, summed up, and nothing of other clusters. Used by
`network`.
"""

from __future__ import annotations

import torch
from torch import nn

from fairlead.learn.tapfinger.graph_attention import Graph


def _perceptron(width: int, hidden: int) -> nn.Sequential:
    """Four layers, as in the paper's ablation."""
    parts: list[nn.Module] = []
    for before in (width, hidden, hidden, hidden):
        parts += [nn.Linear(before, hidden), nn.ReLU()]
    return nn.Sequential(*parts)


class AblationEncoder(nn.Module):
    """The same interface as `Han`."""

    def __init__(self, widths: dict[str, int], hidden: int) -> None:
        super().__init__()
        cluster = widths["cluster"] + widths["pending"] + widths["running"]
        self.cluster = _perceptron(cluster, hidden)
        self.pending, self.running = (_perceptron(widths[name], hidden) for name in ("pending", "running"))

    def forward(self, features: Graph, seen: torch.Tensor, runs_on: torch.Tensor) -> Graph:
        """Embeddings of clusters and tasks; `seen` (B, U, N) and `runs_on` (B, R, N) are the edges."""
        waits, runs = (
            torch.einsum("btn,btf->bnf", edges, features[name]) / 10.0
            for edges, name in ((seen, "pending"), (runs_on, "running"))
        )
        return {
            "cluster": self.cluster(torch.cat([features["cluster"], waits, runs], -1)),
            "pending": self.pending(features["pending"]),
            "running": self.running(features["running"]),
        }
