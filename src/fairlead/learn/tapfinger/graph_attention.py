"""A heterogeneous graph attention network over clusters, pending and running tasks and a shortcut node; dense, padded.

Wang et al., WWW 2019, as TapFinger (section 4.2) uses it: along each type of edge, nodes attend to their neighbours
(graph attention); where several types of edges lead to a node, as to clusters, a second, semantic attention weighs
them. Repaired where the released one loses what it needs: every node keeps itself (a projection of its own and a
residual), padding is no neighbour, semantic attention is per graph, so that a decision does not depend on who else is
in a batch, and beside the mean of its neighbours a node gets a gated sum of them: how many GPUs come free soon is a
sum, which a mean can't tell. All projections of a node are one matrix: networks this small cost what their calls cost.
Used by `network`.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import torch
from torch import nn

NODES: Final = ("cluster", "pending", "running", "shortcut")
#: (from, to) of every type of edge.
EDGES: Final = (
    ("pending", "cluster"), ("running", "cluster"), ("shortcut", "cluster"),
    ("cluster", "pending"), ("cluster", "running"), ("cluster", "shortcut"),
)  # fmt: skip
_FAR: Final = -1e9
_SUM: Final = 0.25  # what a neighbour's gated part of the sum counts

Graph = dict[str, torch.Tensor]  # of each type of node (B, nodes, hidden)


class Links(NamedTuple):
    """The edges of one type: 1 where there is one, and what keeps scores away from where there is none."""

    there: torch.Tensor  # (B, 1, to, from)
    away: torch.Tensor  # the same


def _links(edges: torch.Tensor) -> Links:
    return Links(edges[:, None], _FAR * (1.0 - edges[:, None]))


class Semantic(nn.Module):
    """Weighs what comes along several types of edges, by the mean over a graph's nodes."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.ask, self.question = nn.Linear(hidden, hidden), nn.Linear(hidden, 1, bias=False)

    def forward(self, messages: list[torch.Tensor]) -> torch.Tensor:
        """(B, nodes, hidden) from as many of the same as there are types of edges."""
        if len(messages) == 1:
            return messages[0]
        together = torch.stack(messages, 1)
        mean = self.question(torch.tanh(self.ask(together))).mean(2, keepdim=True)  # (B, types, 1, 1)
        return (torch.softmax(mean, dim=1) * together).sum(1)


class HanLayer(nn.Module):
    """One round of messages."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.out = {name: [edge for edge in EDGES if edge[0] == name] for name in NODES}
        self.into = {name: [edge for edge in EDGES if edge[1] == name] for name in NODES}
        # itself; for each type of edge out of it, what it sends and how it scores that; for each into it, its own score
        self.parts = {
            name: [hidden, *[hidden, heads] * len(self.out[name]), *[heads] * len(self.into[name])] for name in NODES
        }
        self.project = nn.ModuleDict({name: nn.Linear(hidden, sum(self.parts[name])) for name in NODES})
        self.semantic = Semantic(hidden)  # of clusters: no other type of node has several types of edges
        self.norm = nn.ModuleDict({name: nn.LayerNorm(hidden) for name in NODES})

    def forward(self, graph: Graph, edges: dict[tuple[str, str], Links]) -> Graph:
        """The graph with new embeddings."""
        projected: dict[str, Any] = {
            name: torch.split(self.project[name](graph[name]), self.parts[name], -1) for name in NODES
        }
        made = {}
        for name in NODES:
            messages = []
            for asks, edge in zip(projected[name][1 + 2 * len(self.out[name]) :], self.into[name], strict=True):
                place = 1 + 2 * self.out[edge[0]].index(edge)
                sent, score = projected[edge[0]][place : place + 2]
                messages.append(torch.relu(self._attend(sent, score, asks, edges[edge])))
            made[name] = self.norm[name](graph[name] + projected[name][0] + self.semantic(messages))
        return made

    def _attend(self, sent: torch.Tensor, score: torch.Tensor, asks: torch.Tensor, edges: Links) -> torch.Tensor:
        """(B, to, hidden) from (B, from, hidden), (B, from, heads) and (B, to, heads); without neighbours 0."""
        b, n, hidden = sent.shape
        values = sent.view(b, n, self.heads, hidden // self.heads).transpose(1, 2)  # (B, heads, from, width)
        scores = asks.transpose(1, 2)[..., None] + score.transpose(1, 2)[:, :, None]  # (B, heads, to, from)
        scores = nn.functional.leaky_relu(scores, 0.2) + edges.away
        weights = (torch.softmax(scores, -1) + _SUM * torch.sigmoid(scores)) * edges.there
        return (weights @ values).transpose(1, 2).flatten(2)


class Han(nn.Module):
    """Embeds the raw features of all nodes and passes messages between them."""

    def __init__(self, widths: dict[str, int], hidden: int, heads: int, layers: int) -> None:
        super().__init__()
        self.embed = nn.ModuleDict(
            {
                name: nn.Sequential(nn.Linear(widths[name], hidden), nn.ReLU(), nn.Linear(hidden, hidden))
                for name in NODES
            }
        )
        self.layers = nn.ModuleList(HanLayer(hidden, heads) for _ in range(layers))

    def forward(self, features: Graph, seen: torch.Tensor, runs_on: torch.Tensor) -> Graph:
        """Embeddings of all nodes; `seen` (B, U, N) and `runs_on` (B, R, N) are the edges of tasks to clusters.

        Padding has an embedding too, which is never read.
        """
        everyone = torch.ones_like(features["cluster"][..., :1]).transpose(1, 2)
        tasks = {"pending": seen, "running": runs_on, "shortcut": everyone}
        edges = {("cluster", name): _links(to) for name, to in tasks.items()}
        edges |= {(name, "cluster"): _links(to.transpose(1, 2)) for name, to in tasks.items()}
        graph = {name: torch.relu(self.embed[name](features[name])) for name in NODES}
        for layer in self.layers:
            graph = layer(graph, edges)
        return graph
