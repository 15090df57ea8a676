"""Models, their variants, and where variants are deployed: the nouns of what can run.

Frozen, checked when made; whether a deployment fits its node is asked in `scenario`, where both are known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fairlead.domain.provenance import STRICT, Sourced, not_negative, positive, share

MOST_BATCH: Final = 1_000_000  #: Requests in a batch.


@dataclass(frozen=True, kw_only=True)
class Latency(Sourced):
    """Time of one inference alone on a device: `base_ms + per_kb_ms * input size in kB`."""

    base_ms: float  # time for an empty input
    per_kb_ms: float = 0.0  # additional time for each kB of input

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(base_ms=self.base_ms)
        not_negative(per_kb_ms=self.per_kb_ms)


@dataclass(frozen=True, kw_only=True)
class Variant(Sourced):
    """One trained form of a model: a trade of accuracy against time and memory.

    The quality of a single answer is `accuracy + accuracy_sd * z`. z is standard normal and the same for every variant
    that gets this request, so a hard input is hard for all of them.
    """

    name: str
    accuracy: float  # mean quality of its answers, 0..1
    memory_mb: float  # memory of the weights, in use as long as the variant is deployed
    latency: Mapping[str, Latency]  # by name of device; without an entry, the variant can't run on a device
    accuracy_sd: float = 0.0  # standard deviation of the quality from input to input
    run_mb: float = 0.0  # memory of each request in flight, on shared nodes

    def __post_init__(self) -> None:
        super().__post_init__()
        share(accuracy=self.accuracy)
        positive(memory_mb=self.memory_mb)
        not_negative(accuracy_sd=self.accuracy_sd, run_mb=self.run_mb)


@dataclass(frozen=True, kw_only=True)
class Model:
    """A task that requests ask for by name, with its variants."""

    __pydantic_config__ = STRICT

    name: str
    variants: Mapping[str, Variant]  # by name; two models can't have a variant of the same name


@dataclass(frozen=True, kw_only=True)
class Batching(Sourced):
    """Serve up to `max` requests together, waiting at most `wait_ms` for them.

    Time of a batch: fixed * (longest alone) + (1 - fixed) * (sum of alone).
    """

    max: int  # largest number of requests in a batch
    wait_ms: float = 0.0  # longest time that the first request of a batch waits for others
    fixed: float = 0.5  # 0: a batch saves no time; 1: a batch takes as long as its longest request

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(max=self.max)
        if self.max > MOST_BATCH:
            raise ValueError(f"max must be at most {MOST_BATCH:,}, got {self.max}")
        not_negative(wait_ms=self.wait_ms)
        share(fixed=self.fixed)


@dataclass(frozen=True, kw_only=True)
class Deployment(Sourced):
    """A variant on nodes.

    On a queue node a deployment owns `share` of the node's devices, split over `servers` parallel servers; a server
    runs at `share * count / servers` of one device, never faster than one whole device.
    """

    variant: str  # name of the deployed variant
    nodes: tuple[str, ...]  # names of nodes, or patterns
    share: float = 1.0  # share of the node's devices, 0..1; on queue nodes
    servers: int = 1  # number of requests, or batches, that are served at once; on queue nodes
    queue_limit: int | None = None  # largest number of requests in flight; None: no limit
    batching: Batching | None = None  # serving in batches; on queue nodes

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(share=self.share, servers=self.servers)
        share(share=self.share)
        if self.queue_limit is not None:
            positive(queue_limit=self.queue_limit)
