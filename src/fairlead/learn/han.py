"""A heterogeneous graph attention network over clusters, pending and running tasks and a shortcut node; dense, padded.

Wang et al., WWW 2019, as TapFinger (section 4.2) uses it: along each kind of edge, nodes attend to their neighbours
(graph attention); over the kinds of edges that lead to a node there is a second, semantic attention. Repaired where the
released one loses what it needs: every node keeps itself (a projection of its own and a residual), nodes that are only
padding take no part, semantic attention is per graph, so that a decision does not depend on who else is in a batch, and
beside the mean of its neighbours a node gets a gated sum of them: how many GPUs come free soon is a sum, which a mean
can't tell. Used by `tapfinger_network`.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import nn

NODES: Final = ("cluster", "pending", "running", "shortcut")
#: (from, to) of every kind of edge.
EDGES: Final = (
    ("pending", "cluster"), ("running", "cluster"), ("shortcut", "cluster"),
    ("cluster", "pending"), ("cluster", "running"), ("cluster", "shortcut"),
)  # fmt: skip
_FAR: Final = -1e9

Graph = dict[str, torch.Tensor]  # of each kind of node (B, nodes, hidden)
Edges = dict[tuple[str, str], torch.Tensor]  # of each kind (B, to, from), 1 where there is one


class EdgeAttention(nn.Module):
    """Nodes attend to their neighbours along one kind of edge; who has none gets zeros."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.source = nn.Linear(hidden, hidden)
        self.from_score, self.to_score = nn.Linear(hidden, heads, bias=False), nn.Linear(hidden, heads)

    def forward(self, source: torch.Tensor, target: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        """(B, to, hidden) from (B, from, hidden), (B, to, hidden) and (B, to, from)."""
        values = self.source(source).unflatten(-1, (self.heads, -1))  # (B, from, heads, width)
        scores = self.to_score(target)[:, :, None] + self.from_score(source)[:, None]  # (B, to, from, heads)
        there = edges[..., None]  # (B, to, from, 1)
        scores = nn.functional.leaky_relu(scores, 0.2) + _FAR * (1.0 - there)
        weights = (torch.softmax(scores, dim=2) + torch.sigmoid(scores) / 4.0) * there
        return torch.einsum("btsh,bshw->bthw", weights, values).flatten(2)


class Semantic(nn.Module):
    """Weighs what comes along several kinds of edges, by the mean over a graph's nodes."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.ask, self.question = nn.Linear(hidden, hidden), nn.Linear(hidden, 1, bias=False)

    def forward(self, kinds: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
        """(B, nodes, hidden) from (B, kinds, nodes, hidden); `there` (B, nodes) is 1 for nodes that are no padding."""
        scores = self.question(torch.tanh(self.ask(kinds)))[..., 0]  # (B, kinds, nodes)
        mean = (scores * there[:, None]).sum(-1) / there.sum(-1, keepdim=True).clamp(min=1.0)
        return (torch.softmax(mean, dim=1)[..., None, None] * kinds).sum(1)


class HanLayer(nn.Module):
    """One round of messages."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.edges = nn.ModuleDict({f"{a}-{b}": EdgeAttention(hidden, heads) for a, b in EDGES})
        self.itself = nn.ModuleDict({name: nn.Linear(hidden, hidden) for name in NODES})
        self.semantic = nn.ModuleDict({name: Semantic(hidden) for name in NODES})
        self.norm = nn.ModuleDict({name: nn.LayerNorm(hidden) for name in NODES})

    def forward(self, graph: Graph, edges: Edges, there: Graph) -> Graph:
        """The graph with new embeddings; `there` has (B, nodes) of each kind."""
        made = {}
        for name in NODES:
            own = graph[name]
            kinds = [self.itself[name](own)]
            kinds += [self.edges[f"{a}-{b}"](graph[a], own, edges[a, b]) for a, b in EDGES if b == name]
            mixed = self.semantic[name](torch.relu(torch.stack(kinds, 1)), there[name])
            made[name] = self.norm[name](own + mixed) * there[name][..., None]
        return made


class Han(nn.Module):
    """Embeds the raw features of all nodes and passes messages between them."""

    def __init__(self, widths: dict[str, int], hidden: int, heads: int, layers: int) -> None:
        super().__init__()
        self.embed = nn.ModuleDict({name: nn.Linear(widths[name], hidden) for name in NODES})
        self.layers = nn.ModuleList(HanLayer(hidden, heads) for _ in range(layers))

    def forward(self, features: Graph, seen: torch.Tensor, runs_on: torch.Tensor) -> Graph:
        """Embeddings of all nodes; `seen` (B, U, N) and `runs_on` (B, R, N) are the edges of tasks to clusters."""
        pending, running = (edges.amax(-1) for edges in (seen, runs_on))  # 1 where there is a task
        everyone = torch.ones_like(features["cluster"][..., 0])
        there = {"cluster": everyone, "pending": pending, "running": running, "shortcut": everyone[:, :1]}
        edges: Any = {
            ("pending", "cluster"): seen.transpose(1, 2), ("cluster", "pending"): seen,
            ("running", "cluster"): runs_on.transpose(1, 2), ("cluster", "running"): runs_on,
            ("shortcut", "cluster"): everyone[..., None], ("cluster", "shortcut"): everyone[:, None],
        }  # fmt: skip
        graph = {name: torch.relu(self.embed[name](features[name])) * there[name][..., None] for name in NODES}
        for layer in self.layers:
            graph = layer(graph, edges, there)
        return graph
