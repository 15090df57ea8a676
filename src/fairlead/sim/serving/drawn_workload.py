"""Makes a workload: every request of a run, with all that belongs to it, from a scenario and a seed.

Draws are hashes of (seed, purpose, id, k): the workload is the same for every policy, and no draw depends on another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairlead.domain.errors import UserError
from fairlead.domain.records import REQUEST
from fairlead.domain.scenario import Scenario
from fairlead.domain.scenario_limits import MOST_REQUESTS
from fairlead.domain.workload import Draw, Number, Source, mean_of
from fairlead.policies import randomness as rnd
from fairlead.policies.jit import jit
from fairlead.scenarios.arrival_traces import Trace, read_trace
from fairlead.sim.serving.world_arrays import DRAWS, STREAM

_LARGE_BUCKET = 64
_SOURCE_IDS = 1 << 40  # ids of one source's draws start at its index times this

# What a stream draws; the k of its draws.
_LENGTH, _RATE, _SIZE, _DEADLINE, _ACCURACY, _SITE = range(6)


@dataclass(frozen=True)
class DrawnWorkload:
    """The requests of one run, by time."""

    seed: int
    requests: Any  # REQUEST (R,)
    draws: Any  # DRAWS (R,)
    streams: Any  # STREAM (S,)


def make_workload(scenario: Scenario, seed: int) -> DrawnWorkload:
    """Draw the workload of `scenario` for `seed`."""
    parts = [
        _trace_requests(scenario, i, source, seed)
        if source.arrivals.process == "trace"
        else _drawn_requests(scenario, i, source, seed)
        for i, source in enumerate(scenario.workload.sources.values())
    ]
    offset = 0
    for requests, _, streams in parts:
        requests["stream"][requests["stream"] >= 0] += offset
        offset += len(streams)
    requests = np.concatenate([_raw(p[0]) for p in parts]).view(REQUEST)
    work = np.concatenate([p[1] for p in parts])
    if len(parts) > 1 or (requests["now_ms"][1:] < requests["now_ms"][:-1]).any():
        order = _by_time(requests["now_ms"], scenario.workload.duration_s * 1000.0)
        requests, work = _raw(requests).take(order).view(REQUEST), work.take(order)
    requests["id"] = np.arange(len(requests))
    streams = np.concatenate([_raw(p[2]) for p in parts]).view(STREAM)
    return DrawnWorkload(seed, requests, draws_of(seed, work), streams)


def draws_of(seed: int, work: Any) -> Any:
    """What the requests of `seed` bring along, given their work (R,)."""
    return _fill_draws(seed, work, np.empty(len(work), DRAWS))


def _by_time(times_ms: Any, end_ms: float) -> Any:
    """The stable order of times below `end_ms`. Sorted into as many buckets as times, most are next to their place."""
    n = len(times_ms)
    bucket = (times_ms * (n / end_ms)).astype(np.int32)
    sizes = np.bincount(bucket, minlength=n)
    if n == 0 or sizes.max() > _LARGE_BUCKET:  # they come in clusters
        return np.argsort(times_ms, kind="stable")
    return _sort_buckets(np.ascontiguousarray(times_ms), bucket, np.cumsum(sizes) - sizes)


@jit
def _sort_buckets(times_ms: Any, bucket: Any, next_place: Any) -> Any:
    order = np.empty(len(times_ms), np.int64)
    for i in range(len(times_ms)):
        order[next_place[bucket[i]]] = i
        next_place[bucket[i]] += 1
    for i in range(1, len(order)):
        moved, to = order[i], i
        while to > 0 and times_ms[order[to - 1]] > times_ms[moved]:
            order[to] = order[to - 1]
            to -= 1
        order[to] = moved
    return order


def _raw(records: Any) -> Any:
    """The records as lumps of bytes, which NumPy moves some twenty times as fast as records."""
    return records.view(np.dtype((np.void, records.itemsize)))


@jit
def _fill_draws(seed: int, work: Any, draws: Any) -> Any:
    n = len(draws)
    quality = _normals(_uniforms(seed, rnd.QUALITY, 0, 0, n))
    up = _normals(_uniforms(seed, rnd.NETWORK, 0, rnd.UP, n))
    down = _normals(_uniforms(seed, rnd.NETWORK, 0, rnd.DOWN, n))
    for i in range(n):
        draws[i].work, draws[i].quality, draws[i].up, draws[i].down = work[i], quality[i], up[i], down[i]
    return draws


@jit
def _uniforms(seed: int, purpose: int, first_id: int, k: int, n: int) -> Any:
    out = np.empty(n)
    for i in range(n):
        out[i] = rnd.uniform(seed, purpose, first_id + i, k)
    return out


@jit
def _normals(uniforms: Any) -> Any:
    out = np.empty(len(uniforms))
    for i in range(len(uniforms)):  # eight at a time
        out[i] = rnd.central_normal(uniforms[i] - 0.5)
    for i in range(len(uniforms)):
        if abs(uniforms[i] - 0.5) > rnd.CENTRAL:
            out[i] = rnd.inverse_normal(uniforms[i])
    return out


def sample(number: Number, uniforms: Any) -> Any:
    """Turn uniform numbers into draws of `number`, by inversion."""
    if not isinstance(number, Draw):
        return np.full(len(uniforms), float(number))
    if number.uniform is not None:
        low, high = number.uniform
        return low + (high - low) * uniforms
    if number.exponential is not None:
        return -number.exponential * np.log(uniforms)
    if number.lognormal is not None:
        mean, cv = number.lognormal
        variance = np.log1p(cv * cv)
        return mean * np.exp(np.sqrt(variance) * _normals(uniforms) - variance / 2.0)
    if number.choice is not None:
        weights = np.ones(len(number.choice)) if number.weights is None else np.array(number.weights)
        edges = np.cumsum(weights / weights.sum())[:-1]
        return np.array(number.choice)[np.searchsorted(edges, uniforms, side="right")]
    return np.full(len(uniforms), number.constant)


# ---- when streams (or single requests) arrive


def _rate_profile(scenario: Scenario, source: Source, first_id: int, seed: int) -> tuple[Callable[[Any], Any], float]:
    """The source's arrival rate per ms as a function of time in ms, and a bound on it."""
    workload, arrivals = scenario.workload, source.arrivals
    base = workload.arrivals_per_ms(source)
    starts = np.array([0.0, *(p.at_s * 1000.0 for p in source.phases)])
    factors = np.array([1.0, *(p.rate for p in source.phases)])
    if arrivals.process == "mmpp":
        edges, levels = _bursts(source, workload.duration_s * 1000.0, first_id, seed)
    elif arrivals.process == "diurnal":
        edges, levels = np.zeros(1), np.array([1.0 + arrivals.amplitude])
    else:
        edges, levels = np.zeros(1), np.ones(1)

    def rate(t_ms: Any) -> Any:
        value = base * factors[np.searchsorted(starts, t_ms, side="right") - 1]
        if arrivals.process == "diurnal":
            angle = 2.0 * np.pi * (t_ms / (arrivals.period_s * 1000.0) + arrivals.phase)
            return value * (1.0 + arrivals.amplitude * np.sin(angle))
        return value * levels[np.searchsorted(edges, t_ms, side="right") - 1]

    return rate, float(base * factors.max() * levels.max())


def _bursts(source: Source, duration_ms: float, first_id: int, seed: int) -> tuple[Any, Any]:
    """Calm and burst periods in turn, their levels scaled so that the mean rate is as asked.

    The first is a burst as often as bursts are met; sojourns have no memory, so the run starts in balance.
    """
    a = source.arrivals
    n = 2 * int(duration_ms / 1000.0 / min(a.calm_mean_s, a.burst_mean_s)) + 64
    gaps = -np.log(_uniforms(seed, rnd.MODULATE, first_id, 0, n))
    gaps[0::2] *= a.calm_mean_s * 1000.0
    gaps[1::2] *= a.burst_mean_s * 1000.0
    edges = np.concatenate([[0.0], np.cumsum(gaps)])
    calm, burst = a.levels()
    levels = np.where(np.arange(len(edges)) % 2 == 0, calm, burst)
    if _uniforms(seed, rnd.MODULATE, first_id, 1, 1)[0] < a.burst_mean_s / (a.burst_mean_s + a.calm_mean_s):
        return edges[1:] - edges[1], levels[1:]
    return edges, levels


@jit
def _poisson_times(seed: int, first_id: int, rate_per_ms: float, end_ms: float) -> Any:
    """Arrival times of a Poisson process up to `end_ms`, by adding up exponential gaps."""
    size = int(rate_per_ms * end_ms * 1.1) + 64
    out = np.empty(size)
    n, t = 0, 0.0
    while True:
        t += rnd.exponential(seed, rnd.ARRIVAL, first_id + n, 0) / rate_per_ms
        if t >= end_ms:
            return out[:n]
        if n == len(out):
            out = np.concatenate((out, np.empty(len(out))))
        out[n] = t
        n += 1


def _arrival_times(scenario: Scenario, source: Source, first_id: int, seed: int) -> Any:
    """Times by thinning a Poisson process that is everywhere at least as fast (Lewis and Shedler 1979)."""
    rate, bound = _rate_profile(scenario, source, first_id, seed)
    if bound == 0.0:
        return np.empty(0)
    times = _poisson_times(seed, first_id, bound, scenario.workload.duration_s * 1000.0)
    if source.arrivals.process == "poisson" and not source.phases:
        return times
    kept = _uniforms(seed, rnd.THIN, first_id, 0, len(times)) * bound < rate(times)
    return times[kept]


def _initial_streams(scenario: Scenario, source: Source, first_id: int, seed: int) -> int:
    """How many streams are open at the start: Poisson around rate * mean length, so that the run starts in balance.

    Exact for exponential lengths, which have no memory, at a constant rate; streams of other lengths start at 0 like
    any other.
    """
    if source.length_s is None or not source.open_at_start:
        return 0
    rate, _ = _rate_profile(scenario, source, first_id, seed)
    mean = float(rate(np.zeros(1))[0]) * mean_of(source.length_s) * 1000.0
    return len(_poisson_times(seed, first_id + (_SOURCE_IDS >> 1), mean, 1.0)) if mean > 0 else 0


# ---- what they ask for


def _site_draws(scenario: Scenario, source: Source, times: Any, uniforms: Any) -> Any:
    """The site of each arrival, by the weights of the phase that it falls into."""
    sites = scenario.workload.sites
    starts = np.array([0.0, *(p.at_s * 1000.0 for p in source.phases)])
    weights = [source.sites]
    for phase in source.phases:
        weights.append(phase.sites if phase.sites is not None else weights[-1])
    out = np.zeros(len(times), np.int32)
    which = np.searchsorted(starts, times, side="right") - 1
    for i, table in enumerate(weights):
        mine = which == i
        share = np.array([1.0 if table is None else table.get(s, 0.0) for s in sites])
        edges = np.cumsum(share / share.sum())[:-1]
        out[mine] = np.searchsorted(edges, uniforms[mine], side="right")
    return out


def _drawn_requests(scenario: Scenario, index: int, source: Source, seed: int) -> tuple[Any, Any, Any]:
    """(requests, their work, their streams) of a source whose arrivals are drawn."""
    first_id = index * _SOURCE_IDS
    early = _initial_streams(scenario, source, first_id, seed)
    starts = np.concatenate([np.zeros(early), _arrival_times(scenario, source, first_id, seed)])
    n = len(starts)

    def draw(number: Number, k: int) -> Any:
        if not isinstance(number, Draw):
            return np.full(n, float(number))
        return sample(number, _uniforms(seed, rnd.STREAM, first_id, k, n))

    arrivals = np.zeros(n, REQUEST)
    arrivals["size_kb"] = draw(source.size_kb, _SIZE)
    arrivals["deadline_ms"] = draw(source.deadline_ms, _DEADLINE)
    arrivals["min_accuracy"] = draw(source.min_accuracy, _ACCURACY)
    if len(scenario.workload.sites) > 1:
        arrivals["site"] = _site_draws(scenario, source, starts, _uniforms(seed, rnd.STREAM, first_id, _SITE, n))
    _label(scenario, index, source, arrivals)
    arrivals["now_ms"] = starts
    if source.length_s is None:
        arrivals["stream"] = -1
        return arrivals, _work(source, seed, first_id, n), _streams(np.empty(0))
    arrivals["rate_qps"] = draw(source.rate_qps, _RATE)
    ends = np.minimum(starts + draw(source.length_s, _LENGTH) * 1000.0, scenario.workload.duration_s * 1000.0)
    _check_drawn(scenario, source, (ends - starts) * arrivals["rate_qps"] / 1000.0, arrivals["rate_qps"])
    times, of_stream = _stream_times(seed, first_id, starts, ends, arrivals["rate_qps"], source.spacing == "poisson")
    requests = _raw(arrivals).take(of_stream).view(REQUEST)
    requests["stream"] = of_stream
    requests["now_ms"] = times
    return requests, _work(source, seed, first_id, len(requests)), _streams(ends, early)


def _check_drawn(scenario: Scenario, source: Source, requests: Any, rates_qps: Any) -> None:
    """Refuse streams that send more than expected: lengths and rates of heavy tails can."""
    if (most := float(rates_qps.max(initial=0.0))) * np.spacing(scenario.workload.duration_s * 1000.0) > 1.0:
        raise UserError(
            f"{_place(source)}: a stream sends {most:.3g} requests a second, more than the simulated clock can resolve"
        )
    if (drawn := float(requests.sum())) > 2 * MOST_REQUESTS:
        raise UserError(f"{_place(source)}: {drawn:.3g} requests were drawn, which don't fit into memory")


def _place(source: Source) -> str:
    return f"workload.sources.{source.name}"


def _streams(ends: Any, early: int = 0) -> Any:
    """Streams of these ends; the clients of the first `early` are there before the start."""
    streams = np.zeros(len(ends), STREAM)
    streams["end_ms"] = ends
    streams["early"][:early] = True
    return streams


def _work(source: Source, seed: int, first_id: int, n: int) -> Any:
    if not isinstance(source.work, Draw):
        return np.full(n, float(source.work))
    return sample(source.work, _uniforms(seed, rnd.WORK, first_id, 0, n))


def _label(scenario: Scenario, index: int, source: Source, requests: Any) -> None:
    requests["source"] = index
    requests["model"] = list(scenario.models).index(source.model)
    requests["tenant"] = scenario.workload.tenants.index(source.tenant)
    requests["sla"] = scenario.workload.sla_classes.index(source.sla)


@jit
def _stream_times(seed: int, first_id: int, starts: Any, ends: Any, rates: Any, poisson: bool) -> tuple[Any, Any]:
    """Times and streams of all requests: at its start, then every 1/rate (or at exponential gaps of that mean)."""
    total = 0.0
    for s in range(len(starts)):
        total += (ends[s] - starts[s]) * rates[s] / 1000.0 + 1.0
    times, streams = np.empty(int(total * 1.2) + 64), np.empty(int(total * 1.2) + 64, np.int32)
    n = 0
    for s in range(len(starts)):
        gap_ms, k = 1000.0 / rates[s], 0
        t = starts[s]
        if starts[s] == 0.0:  # open since before the start: somewhere between two requests
            u = rnd.uniform(seed, rnd.SPACING, first_id + s, 0)
            t = -gap_ms * np.log(u) if poisson else gap_ms * u
        while t < ends[s]:
            if n == len(times):
                times, streams = np.concatenate((times, times)), np.concatenate((streams, streams))
            times[n], streams[n] = t, s
            n += 1
            k += 1
            t += gap_ms * rnd.exponential(seed, rnd.SPACING, first_id + s, k) if poisson else gap_ms
    return times[:n], streams[:n]


def _trace_requests(scenario: Scenario, index: int, source: Source, seed: int) -> tuple[Any, Any, Any]:
    """The same for a source whose arrivals are in a file. What it has no column for is drawn, once per stream."""
    trace: Trace = read_trace(source.arrivals.file, scenario.workload.duration_s, scenario.workload.sites)
    first_id, n = index * _SOURCE_IDS, len(trace.time_s)
    names, stream = (None, np.arange(n)) if trace.stream is None else np.unique(trace.stream, return_inverse=True)
    times, drawn = trace.time_s * 1000.0, n if names is None else len(names)
    first = np.full(drawn, np.inf)
    np.minimum.at(first, stream, times)

    def uniforms(k: int) -> Any:
        return _uniforms(seed, rnd.STREAM, first_id, k, drawn)

    requests = np.zeros(n, REQUEST)
    requests["now_ms"] = times
    for field, number, k in (
        ("size_kb", source.size_kb, _SIZE),
        ("deadline_ms", source.deadline_ms, _DEADLINE),
        ("min_accuracy", source.min_accuracy, _ACCURACY),
    ):
        given = trace.columns.get(field)
        requests[field] = sample(number, uniforms(k))[stream] if given is None else given
    site = trace.site
    requests["site"] = _site_draws(scenario, source, first, uniforms(_SITE))[stream] if site is None else site
    _label(scenario, index, source, requests)
    if names is None:
        requests["stream"] = -1
        return requests, _work(source, seed, first_id, n), _streams(np.empty(0))
    last = np.zeros(drawn)
    np.maximum.at(last, stream, times)
    requests["stream"] = stream
    requests["rate_qps"] = (np.bincount(stream) / (np.maximum(last - first, 1000.0) / 1000.0))[stream]
    ends = np.nextafter(last, np.inf)  # it ends after its last request
    return requests, _work(source, seed, first_id, n), _streams(ends)
