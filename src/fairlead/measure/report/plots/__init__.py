"""The plots of a report as Vega-Lite specs, one file each. Pages and files call `plots_of` and `plots_of_all`.

`tasks` has those of worlds of tasks.
"""

from __future__ import annotations

from dataclasses import replace

from fairlead.measure.report.document import OUTCOMES, Document, Point, highlighted, points
from fairlead.measure.report.phrases import percent
from fairlead.measure.report.plots.active_policy import active
from fairlead.measure.report.plots.by_scenario import across
from fairlead.measure.report.plots.energy import energy, energy_over_values
from fairlead.measure.report.plots.latency import latency
from fairlead.measure.report.plots.load import load
from fairlead.measure.report.plots.measure_choice import Measures
from fairlead.measure.report.plots.outcomes import outcomes
from fairlead.measure.report.plots.over_swept_values import over_values
from fairlead.measure.report.plots.over_time import over_time, time_average
from fairlead.measure.report.plots.plot import Plot, Style, known, of_how_many
from fairlead.measure.report.plots.utilisation import utilisation
from fairlead.measure.report.style import by_look

__all__ = ["Plot", "plots_of", "plots_of_all"]

SHARES = Measures(
    {outcome: outcome for outcome in OUTCOMES},
    {"format": "%", "title": "share of requests"},
    lambda share: f"{percent(share)} %",
    lambda outcome: f"Requests {outcome}",
    bound="the upper bound on success, which no policy can pass",
    passing="no policy can pass",
    most=1.0,
)


def plots_of(document: Document, point: Point, legend: bool) -> list[Plot]:
    """The plots of one label; none when no seed of it is finished. `legend`: whether they must explain themselves."""
    if not point.ranking:
        return []
    style = Style(by_look(document), highlighted(document, point), legend)
    strips = active(point, style)
    lines = [of_how_many(draw(point, style), style) for draw in (over_time, time_average, latency)]
    others = [
        lines[0],
        *([strips] if strips else []),
        *lines[1:],
        load(point),
        utilisation(point),
        energy(point, style),
    ]
    return [outcomes(point), *(_with_bound(plot, point) for plot in others)]


def plots_of_all(document: Document, legend: bool) -> list[Plot]:
    """The plots of all labels together: against a swept value, or across scenarios."""
    found = points(document)
    drawn = (
        over_values(document, found, SHARES, legend),
        energy_over_values(document, legend),
        across(document, found, SHARES, legend),
    )
    return [plot for plot in drawn if plot is not None]


def _with_bound(plot: Plot, point: Point) -> Plot:
    """The bound is of a whole run: where it can't be drawn, the caption has it."""
    if not known(point.bound):
        return plot
    return replace(
        plot, caption=f"{plot.caption} No policy can pass {percent(point.bound)} % success in the whole run."
    )
