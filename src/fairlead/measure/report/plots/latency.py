"""Lines of the share of all requests that are answered within a latency, from the counts in the document."""

from __future__ import annotations

from itertools import accumulate

from fairlead.measure.report.document import OUTCOMES, Point
from fairlead.measure.report.phrases import plus_minus
from fairlead.measure.report.plots.cumulative_times import Words, within
from fairlead.measure.report.plots.plot import Plot, Style

_WORDS = Words("ms", "latency, ms (log scale)", "answered within, of all requests", "answered")


def latency(point: Point, style: Style) -> Plot:
    """The plot."""
    edges_ms = [float(e) for e in point.body["latency_ms"]]
    shares = {p: _within(point, p) for p in point.ranking}
    best = point.ranking[0]
    return Plot(
        "latency",
        "Latency",
        "Share of all requests that are answered within a time. Rejected requests are never answered, so a line may "
        "end below 100 %.",
        f"{best} answers {shares[best][-1]:.1%} of all requests within {edges_ms[-1]:g} ms; of the answered requests, "
        f"half are answered within {plus_minus(point.figure(best, 'latency_p50_ms'), '{:.1f}')} ms "
        f"and 99 % within {plus_minus(point.figure(best, 'latency_p99_ms'), '{:.1f}')} ms.",
        spec=within(edges_ms, shares, style, _WORDS, "linear"),
    )


def _within(point: Point, policy: str) -> list[float]:
    """The share of all requests answered within each edge."""
    detail = point.detail(policy)
    requests = sum(sum(detail["outcomes"][outcome]) for outcome in OUTCOMES)
    answered = list(accumulate(detail["latency"]))[:-1]  # those above the last edge are within none
    return [a / requests if requests else 0.0 for a in answered]
