"""The sources of a random edge: who asks for which model, how often, how much of it and how soon.

Called by `random_edges`, first for `draw_asking`, which says how the requests are split, then, once the times of all
models are known, for `draw_source`. A deadline is drawn from the times that the candidates of the source take.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fairlead.domain.workload import Arrivals, Draw, Number, Phase, Source
from fairlead.scenarios.random_edge_parts.draws import Draws, rounded
from fairlead.scenarios.random_edge_parts.network import Network

DURATION_S: Final = 60.0
_LONGEST_UNIFORM_S: Final = 15.0  # mean; streams of uniform lengths are not open at the start
_FEWEST: Final = 5.0  # requests in a stream, in the mean
_MOST_OF_SERVICE: Final = 0.5  # rate of a stream / service rate of a place that it may use, drawn by chance


@dataclass(frozen=True)
class Asking:
    """What is known of a source before the times are."""

    name: str
    model: str
    part: float  # of the requests of its model; relative
    size_kb: float


@dataclass(frozen=True)
class Place:
    """A candidate of a model's requests: on which node, how fast, how good."""

    node: str
    region: str
    accuracy: float
    proc_ms: float  # at the typical size
    service_qps: float


def draw_asking(draws: Draws, sizes_kb: Mapping[str, float]) -> list[Asking]:
    """1 to 6 sources, at least one for each model."""
    models = list(sizes_kb)
    asked = models + [draws.pick(models) for _ in range(draws.whole(1, 6) - len(models))]
    return [
        Asking(f"source-{i}", model, draws.uniform(0.3, 1.0), rounded(sizes_kb[model] * draws.log_uniform(0.5, 2.0)))
        for i, model in enumerate(asked, 1)
    ]


def draw_source(
    draws: Draws, asking: Asking, qps: float, places: list[Place], sites: list[str], network: Network, by_stream: bool
) -> tuple[Source, float]:
    """The source, and its arrivals a second for so many requests a second."""
    allowed, regions = _regions(draws, places)
    stream = draws.chance(0.9 if by_stream else 0.4)
    rate, length, requests = _stream(draws, qps, allowed) if stream else (1.0, None, 1.0)
    here = draws.some(sites, 0.6) if draws.chance(0.5) else sites
    accuracy, lowest = _min_accuracy(draws, sorted({p.accuracy for p in allowed}))
    times_ms = _times_ms([p for p in allowed if p.accuracy >= lowest], here, network, asking.size_kb)
    source = Source(
        name=asking.name,
        model=asking.model,
        tenant=f"tenant-{draws.whole(1, 3)}",
        sla=draws.pick(("gold", "silver", "bronze")),
        deadline_ms=_deadline(draws, times_ms),
        min_accuracy=accuracy,
        arrivals=_arrivals(draws),
        length_s=length,
        rate_qps=rate,
        spacing=draws.pick(("periodic", "poisson"), (0.7, 0.3)),
        size_kb=_size(draws, asking.size_kb),
        work=Draw(lognormal=(1.0, draws.uniform(0.02, 0.4))) if draws.chance(0.85) else 1.0,
        sites=None if here == sites else {site: draws.uniform(0.1, 1.0) for site in here},
        regions=regions,
        phases=_phases(draws, sites) if draws.chance(0.25) else (),
        assumed=True,
    )
    return source, qps / requests


def _stream(draws: Draws, qps: float, places: list[Place]) -> tuple[Number, Number, float]:
    """Rate and length of its streams, and the mean number of requests in one. 3 or more are open at once."""
    most = min(30.0, _MOST_OF_SERVICE * draws.pick(places).service_qps)
    rate = rounded(min(qps / draws.log_uniform(3.0, 30.0), most))
    length_s = rounded(max(draws.log_uniform(5.0, 60.0), _FEWEST / rate))
    rates: Number = Draw(uniform=_about(rate, 0.4)) if draws.chance(0.5) else rate
    uniform = draws.chance(0.2) and length_s <= _LONGEST_UNIFORM_S
    lengths = Draw(uniform=_about(length_s, 0.5)) if uniform else Draw(exponential=length_s)
    return rates, lengths, rate * length_s


def _about(mean: float, part: float) -> tuple[float, float]:
    low = rounded(mean * (1.0 - part))
    return low, rounded(2.0 * mean - low, 6)


def _regions(draws: Draws, places: list[Place]) -> tuple[list[Place], tuple[str, ...]]:
    """The places that a source may use: all, or now and then those of one region."""
    region = draws.pick(places).region
    if not draws.chance(0.1) or all(p.region == region for p in places):
        return places, ()
    return [p for p in places if p.region == region], (region,)


def _min_accuracy(draws: Draws, known: list[float]) -> tuple[Number, float]:
    """None, that of a variant, a mix of several or a range; and the lowest of it."""
    kind = draws.pick(("none", "one", "mix", "range"), (0.2, 0.3, 0.35, 0.15))
    levels = sorted({rounded(draws.pick(known) - draws.uniform(0.005, 0.03)) for _ in range(draws.whole(2, 3))})
    if kind == "none":
        return 0.0, 0.0
    if kind == "one" or len(levels) == 1:
        return levels[0], levels[0]
    if kind == "range":
        return Draw(uniform=(levels[0], levels[-1])), levels[0]
    return Draw(choice=tuple(levels), weights=tuple(draws.uniform(0.2, 1.0) for _ in levels)), levels[0]


def _times_ms(places: list[Place], sites: list[str], network: Network, size_kb: float) -> list[float]:
    """Of each candidate the mean, over the sites, of 2 (delay + 2 sd) + transfer + processing alone, sorted."""
    found = []
    for place in places:
        links = [network.between[site, place.node] for site in sites]
        ways = sum(2.0 * (k.delay_ms + 2.0 * k.delay_sd_ms) + size_kb * 8.0 / (k.bandwidth_mbps or 1.0) for k in links)
        found.append(ways / len(links) + place.proc_ms)
    return sorted(found)


def _deadline(draws: Draws, times_ms: list[float]) -> Number:
    """Around the time of a candidate drawn by chance, from a little less than it takes to five times as much."""
    mean = rounded(draws.pick(times_ms) * draws.log_uniform(0.9, 5.0))
    mean = max(mean, rounded(times_ms[0]))
    kind = draws.pick(("constant", "uniform", "lognormal"), (0.4, 0.4, 0.2))
    if kind == "constant":
        return mean
    if kind == "uniform":
        return Draw(uniform=_about(mean, draws.uniform(0.1, 0.5)))
    return Draw(lognormal=(mean, draws.uniform(0.1, 0.5)))


def _arrivals(draws: Draws) -> Arrivals:
    process = draws.pick(("poisson", "mmpp", "diurnal"), (0.5, 0.3, 0.2))
    if process == "mmpp":
        return Arrivals(
            process="mmpp",
            burst_factor=draws.log_uniform(2.0, 10.0),
            burst_mean_s=draws.uniform(1.0, 4.0),
            calm_mean_s=draws.uniform(3.0, 12.0),
            assumed=True,
        )
    if process == "diurnal":  # whole days fit into the run, so that its mean rate is the base rate
        return Arrivals(
            process="diurnal",
            amplitude=draws.uniform(0.3, 1.0),
            period_s=draws.pick((20.0, 30.0, 60.0)),
            phase=draws.uniform(0.0, 1.0),
            assumed=True,
        )
    return Arrivals(assumed=True)


def _size(draws: Draws, mean_kb: float) -> Number:
    kind = draws.pick(("constant", "uniform", "lognormal"), (0.25, 0.25, 0.5))
    if kind == "constant":
        return mean_kb
    if kind == "uniform":
        return Draw(uniform=_about(mean_kb, draws.uniform(0.1, 0.8)))
    return Draw(lognormal=(mean_kb, draws.uniform(0.1, 0.6)))


def _phases(draws: Draws, sites: list[str]) -> tuple[Phase, ...]:
    """2 or 3 phases of other rates, whose mean over the run is 1; some have hot spots."""
    number = draws.whole(2, 3)
    starts = [0.0, *(float(draws.whole(*within)) for within in ((10, 30), (35, 50))[: number - 1])]
    factors = [draws.log_uniform(0.3, 3.0) for _ in starts]
    lasted = [after - before for before, after in zip(starts, [*starts[1:], DURATION_S], strict=True)]
    mean = sum(f * s for f, s in zip(factors, lasted, strict=True)) / DURATION_S
    return tuple(
        Phase(
            at_s=at_s,
            rate=rounded(factor / mean),
            sites={site: draws.uniform(0.1, 1.0) for site in draws.some(sites, 0.5)} if draws.chance(0.5) else None,
            assumed=True,
        )
        for at_s, factor in zip(starts, factors, strict=True)
    )
