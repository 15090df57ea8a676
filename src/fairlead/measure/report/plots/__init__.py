"""The plots of a report as Vega-Lite specs, one file each. Pages and files call `plots_of` and `plots_of_all`."""

from __future__ import annotations

from dataclasses import replace

from fairlead.measure.report.document import Document, Point, highlighted
from fairlead.measure.report.plots.across import across
from fairlead.measure.report.plots.active import active
from fairlead.measure.report.plots.common import Plot, Style, known
from fairlead.measure.report.plots.energy import energy, energy_over_values
from fairlead.measure.report.plots.latency import latency
from fairlead.measure.report.plots.load import load
from fairlead.measure.report.plots.outcomes import outcomes
from fairlead.measure.report.plots.over_time import over_time, time_average
from fairlead.measure.report.plots.over_values import over_values
from fairlead.measure.report.plots.utilisation import utilisation
from fairlead.measure.report.style import by_look
from fairlead.measure.report.words import percent

__all__ = ["Plot", "over_values", "plots_of", "plots_of_all"]


def plots_of(document: Document, point: Point, legend: bool) -> list[Plot]:
    """The plots of one label; none when no seed of it is finished. `legend`: whether they must explain themselves."""
    if not point.ranking:
        return []
    style = Style(by_look(document), highlighted(document, point), legend)
    strips = active(point, style)
    lines = [_of_how_many(draw(point, style), style) for draw in (over_time, time_average, latency)]
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
    drawn = (over_values(document, legend), energy_over_values(document, legend), across(document, legend))
    return [plot for plot in drawn if plot is not None]


def _of_how_many(plot: Plot, style: Style) -> Plot:
    """A file can't be asked for the other lines."""
    if not style.legend or len(style.highlighted) == len(style.policies):
        return plot
    return replace(
        plot, caption=f"{plot.caption} {len(style.highlighted)} of {len(style.policies)} policies are drawn."
    )


def _with_bound(plot: Plot, point: Point) -> Plot:
    """The bound is of a whole run: where it can't be drawn, the caption has it."""
    if not known(point.bound):
        return plot
    return replace(
        plot, caption=f"{plot.caption} No policy can pass {percent(point.bound)} % success in the whole run."
    )
