"""Who asks, how often and for what: sources of streams and single requests, each for a tenant and an SLA class."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from fairlead.domain.provenance import STRICT, Sourced, finite, not_negative, positive, share


@dataclass(frozen=True, kw_only=True)
class Draw:
    """A number that is drawn for each stream or single request, in one of these forms. A plain number is a constant."""

    __pydantic_config__ = STRICT

    constant: float | None = None  # always this value
    uniform: tuple[float, float] | None = None  # lower and upper end
    exponential: float | None = None  # mean
    lognormal: tuple[float, float] | None = None  # mean and coefficient of variation
    choice: tuple[float, ...] | None = None  # the possible values
    weights: tuple[float, ...] | None = None  # weights of the values of `choice`; equal if not given

    def __post_init__(self) -> None:
        forms = (self.constant, self.uniform, self.exponential, self.lognormal, self.choice)
        if sum(form is not None for form in forms) != 1:
            raise ValueError("takes a number or exactly one of uniform, exponential, lognormal, choice")
        if self.choice is not None and not self.choice:
            raise ValueError("a choice needs at least one value")
        if self.weights is not None and (self.choice is None or len(self.weights) != len(self.choice)):
            raise ValueError("weights need a choice of the same length")
        if self.weights is not None and not (min(self.weights) >= 0 and sum(self.weights) > 0):
            raise ValueError("weights must be 0 or above, and not all 0")
        if self.uniform is not None and self.uniform[0] > self.uniform[1]:
            raise ValueError("uniform takes the lower end first")
        given = (self.constant, *(self.uniform or ()), self.exponential, *(self.lognormal or ()), *(self.choice or ()))
        for number in (*given, *(self.weights or ())):
            if number is not None:
                finite(numbers=number)

    def least(self) -> float:
        """The smallest value it can give."""
        if self.constant is not None:
            return self.constant
        return min(self.uniform or self.choice or (0.0,))

    def most(self) -> float:
        """The largest value it can give."""
        if self.constant is not None:
            return self.constant
        return max(self.uniform or self.choice or (math.inf,))

    def mean(self) -> float:
        """The mean of what it gives."""
        if self.choice is not None:
            weights = self.weights or (1.0,) * len(self.choice)
            return math.fsum(c * w for c, w in zip(self.choice, weights, strict=True)) / math.fsum(weights)
        if self.uniform is not None:
            return sum(self.uniform) / 2.0
        if self.lognormal is not None:
            return self.lognormal[0]
        return self.exponential if self.exponential is not None else float(self.constant or 0.0)

    def variance(self) -> float:
        """The variance of what it gives."""
        if self.choice is not None:
            mean, squares = self.mean(), tuple(c * c for c in self.choice)
            return max(0.0, Draw(choice=squares, weights=self.weights).mean() - mean * mean)
        if self.uniform is not None:
            return (self.uniform[1] - self.uniform[0]) ** 2 / 12.0
        if self.lognormal is not None:
            return (self.lognormal[0] * self.lognormal[1]) ** 2
        return 0.0 if self.exponential is None else self.exponential**2


Number = float | Draw


def mean_of(number: Number) -> float:
    """The mean of a number that may be a draw."""
    return number.mean() if isinstance(number, Draw) else number


def variance_of(number: Number) -> float:
    """The variance of a number that may be a draw."""
    return number.variance() if isinstance(number, Draw) else 0.0


def _above_zero(**numbers: Number) -> None:
    for name, value in numbers.items():
        least = value.least() if isinstance(value, Draw) else value
        if isinstance(value, Draw) and (value.exponential or value.lognormal):
            positive(**{name: value.exponential or min(value.lognormal or (0.0,))})
        else:
            positive(**{name: least})


@dataclass(frozen=True, kw_only=True)
class Arrivals(Sourced):
    """How a source's streams (or single requests) arrive.

    - `poisson`: memoryless.
    - `mmpp`: Poisson, in exponential periods of calm and burst in turn; a burst has `burst_factor` times the calm rate.
    - `diurnal`: Poisson whose rate swings by `amplitude` (0..1) over `period_s`, starting at `phase` of the period.
    - `trace`: times from a CSV or Parquet file (`time_s`; optional stream, size_kb, deadline_ms, min_accuracy, site).
    """

    process: Literal["poisson", "mmpp", "diurnal", "trace"] = "poisson"  # see above
    burst_factor: float = 5.0  # mmpp: burst rate / calm rate
    burst_mean_s: float = 5.0  # mmpp: mean length of a burst
    calm_mean_s: float = 20.0  # mmpp: mean length of a calm period
    amplitude: float = 0.5  # diurnal: swing of the rate around its mean, 0..1
    period_s: float = 300.0  # diurnal: length of a day
    phase: float = 0.0  # diurnal: where in the period the run starts, 0..1
    file: str = ""  # trace: name of a file beside the scenario file

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(
            burst_factor=self.burst_factor,
            burst_mean_s=self.burst_mean_s,
            calm_mean_s=self.calm_mean_s,
            period_s=self.period_s,
        )
        share(amplitude=self.amplitude)
        if (self.process == "trace") != bool(self.file):
            raise ValueError("process 'trace' and 'file' go together")

    def levels(self) -> tuple[float, float]:
        """The rates of `mmpp` in a calm and in a burst, as multiples of the mean rate."""
        calm = (self.calm_mean_s + self.burst_mean_s) / (self.calm_mean_s + self.burst_factor * self.burst_mean_s)
        return calm, calm * self.burst_factor


def _weights(sites: Mapping[str, float] | None) -> None:
    if sites is None:
        return
    for weight in sites.values():
        finite(sites=weight)
    if not (sites and min(sites.values()) >= 0 and sum(sites.values()) > 0):
        raise ValueError("sites need weights of 0 or above, not all 0")


@dataclass(frozen=True, kw_only=True)
class Phase(Sourced):
    """From `at_s` on, the source's rate is multiplied by `rate`, and its clients are at `sites` (weights)."""

    at_s: float  # start of the phase, in seconds from the start of the run
    rate: float = 1.0  # factor on the source's rate; 0: no arrivals
    sites: Mapping[str, float] | None = None  # weights of the sites; None: the same as before

    def __post_init__(self) -> None:
        super().__post_init__()
        not_negative(at_s=self.at_s, rate=self.rate)
        _weights(self.sites)


@dataclass(frozen=True, kw_only=True)
class Source(Sourced):
    """A population of clients with equal habits.

    With `length_s` each arrival is a stream that sends `rate_qps` requests per second until it ends. Without it, each
    arrival is one request.
    """

    name: str
    model: str  # name of the model that it asks for
    tenant: str  # tenant that its requests belong to; fairness is computed over tenants
    sla: str  # SLA class; success and fairness are computed by class
    deadline_ms: Number  # longest latency, from the request to its answer
    min_accuracy: Number  # lowest quality of an answer that counts as a success, 0..1
    share: float = 1.0  # relative weight: the rate is split by share / the sum of all shares; a trace has its own rate
    arrivals: Arrivals = Arrivals(assumed=True)  # how streams or requests arrive; Poisson by default
    length_s: Number | None = None  # length of a stream; None: single requests
    rate_qps: Number = 1.0  # requests per second of a stream
    spacing: Literal["periodic", "poisson"] = "periodic"  # spacing of the requests in a stream
    size_kb: Number = 1.0  # size of the input
    work: Number = 1.0  # factor on the processing time of each request; with mean 1 the latency tables hold
    sites: Mapping[str, float] | None = None  # weights of the sites; None: all equal
    regions: tuple[str, ...] = ()  # regions in which its requests may run; empty: everywhere
    certificates: tuple[str, ...] = ()  # certificates that a node must have
    phases: tuple[Phase, ...] = ()  # changes of rate and sites, in order of time

    def __post_init__(self) -> None:
        super().__post_init__()
        not_negative(share=self.share)
        _above_zero(deadline_ms=self.deadline_ms, rate_qps=self.rate_qps, size_kb=self.size_kb, work=self.work)
        if self.length_s is not None:
            _above_zero(length_s=self.length_s)
        _weights(self.sites)
        accuracy = self.min_accuracy
        for end in (accuracy.least(), accuracy.most()) if isinstance(accuracy, Draw) else (accuracy,):
            share(min_accuracy=end)
        if self.arrivals.process == "trace" and (self.length_s is not None or self.phases):
            raise ValueError("length_s and phases have no effect on a trace: its streams are its column 'stream'")
        if list(self.phases) != sorted(self.phases, key=lambda p: p.at_s):
            raise ValueError("phases must be in order of at_s")

    @property
    def open_at_start(self) -> bool:
        """Whether some of its streams are open at the start: those of exponential lengths, which have no memory."""
        return isinstance(self.length_s, Draw) and self.length_s.exponential is not None


@dataclass(frozen=True, kw_only=True)
class Workload(Sourced):
    """All sources together: `rate_per_min` arrivals a minute, split by the sources' shares."""

    rate_per_min: float  # streams or single requests per minute, of all sources together; `--set rate=`
    duration_s: float  # end of the arrivals; requests in flight are still served
    sites: tuple[str, ...]  # places at which clients enter the network
    sources: Mapping[str, Source]  # sources of requests, by name

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(rate_per_min=self.rate_per_min, duration_s=self.duration_s)
        if not self.sources or not self.sites:
            raise ValueError("a workload needs at least one source and one site")
        drawn = [s for s in self.sources.values() if s.arrivals.process != "trace"]
        if drawn and not sum(s.share for s in drawn) > 0:
            raise ValueError("the sources' shares must not all be 0")

    def arrivals_per_ms(self, source: Source) -> float:
        """The source's part of the rate, before phases and bursts; traces take no part."""
        drawn = math.fsum(s.share for s in self.sources.values() if s.arrivals.process != "trace")
        return self.rate_per_min / 60e3 * source.share / drawn

    def expected_requests(self, source: Source) -> float:
        """About how many requests the source sends at most, streams that are open at the start included."""
        per_ms = self.arrivals_per_ms(source) * max([1.0, *(phase.rate for phase in source.phases)])
        arrivals = per_ms * self.duration_s * 1000.0
        if source.length_s is None:
            return arrivals
        length_s = mean_of(source.length_s)
        if source.open_at_start:
            arrivals += per_ms * length_s * 1000.0
        return arrivals * max(1.0, min(length_s, self.duration_s) * mean_of(source.rate_qps))

    def expected_draws(self, source: Source) -> float:
        """About how much is drawn to know when its requests or streams arrive: bursts, and what is thinned out."""
        arrivals = source.arrivals
        per_ms = self.arrivals_per_ms(source) * max([1.0, *(phase.rate for phase in source.phases)])
        if arrivals.process != "mmpp":
            return per_ms * self.duration_s * 1000.0
        bursts = 2.0 * self.duration_s / min(arrivals.calm_mean_s, arrivals.burst_mean_s)
        return bursts + per_ms * self.duration_s * 1000.0 * max(arrivals.levels())

    def in_words(self) -> str:
        """How much arrives, and for how long: '60 arrivals a minute for 300 s'."""
        drawn = any(s.arrivals.process != "trace" for s in self.sources.values())
        traced = any(s.arrivals.process == "trace" for s in self.sources.values())
        rates = [f"{self.rate_per_min:,.12g} arrivals a minute"] * drawn + ["arrivals of traces"] * traced
        phases = any(phase.rate != 1.0 for s in self.sources.values() for phase in s.phases)
        return f"{' and '.join(rates)} for {self.duration_s:,.12g} s{', in phases of other rates' if phases else ''}"

    @property
    def tenants(self) -> tuple[str, ...]:
        """Who pays, in order of appearance."""
        return tuple(dict.fromkeys(s.tenant for s in self.sources.values()))

    @property
    def sla_classes(self) -> tuple[str, ...]:
        """The promise levels, in order of appearance."""
        return tuple(dict.fromkeys(s.sla for s in self.sources.values()))
