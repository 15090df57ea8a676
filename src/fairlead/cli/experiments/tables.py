"""The tables of `fairlead compare`. No number is cut: what does not fit the terminal is left out whole, and named.

`sweep_tables` shares the frame: what stands above and below the tables, and how numbers are written.
"""

from __future__ import annotations

import math
from collections import Counter

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fairlead.domain.outcomes import REASON_NAMES
from fairlead.domain.scenario import Scenario
from fairlead.experiments.compare import Comparison
from fairlead.experiments.trial import AnyScenario
from fairlead.measure.numerals import counted
from fairlead.measure.report.phrases import NOTHING
from fairlead.measure.statistics import Estimate, estimate

Columns = dict[str, list[str]]  # heading -> a cell per policy, in the order of display


def show(out: Console, result: Comparison, given: list[str], overrides: list[str]) -> None:
    """Print a comparison; `given` are the scenarios as the user named them."""
    for (label, scenario), name in zip(result.scenarios.items(), given, strict=True):
        seeds = len(result.done_seeds(label))
        if not seeds:
            out.print(f"{escape(label)}: no seed is finished")
            continue
        head(out, scenario, overrides)
        requests = result.estimates(label, result.ranking(label)[0])["requests"].mean
        out.print(f"{seeds_of(seeds, requests, 'request')}; shares in % of requests")
        if empty := result.empty_seeds(label):
            out.print(_without_requests(empty, seeds))
        if bound := result.bound_values(label):
            out.print(f"no policy can pass {percent(estimate(bound))} success")
        print_fitting(out, *_outcomes(result, label))
        out.print(
            "energy (idle included), price of busy time, how busy, success per SLA class and tenant in %, fairness"
        )
        print_fitting(out, *_costs(result, label))
        foot(out, scenario, name)
    failed(out, result)


def seeds_of(seeds: int, number: float, noun: str) -> str:
    """What the figures are means of."""
    if seeds == 1:
        return f"1 seed of {counted(number, noun)}, so no interval"
    return f"{seeds} paired seeds of {counted(number, noun)}; mean and 95 % interval"


def _without_requests(empty: list[int], seeds: int) -> str:
    if len(empty) == seeds:
        return "no request arrives: a longer duration_s or a higher rate is needed"
    which = f"seed{'' if len(empty) == 1 else 's'} {', '.join(map(str, empty))}"
    return f"no request arrives with {which}; shares and times are means over the others"


def head(out: Console, scenario: AnyScenario, overrides: list[str]) -> None:
    """What is compared."""
    out.print(f"[bold]{escape(scenario.name)}[/bold]: {escape(scenario.title)}")
    if overrides:
        out.print(f"with {escape(', '.join(overrides))}")


def foot(out: Console, scenario: AnyScenario, name: str) -> None:
    """What is assumed."""
    assumed = scenario.assumptions()
    words = f"assumed: {_sections(assumed)}; all {len(assumed)}" if assumed else "nothing is assumed; sources"
    out.print(f"[dim]{words}: fairlead show {escape(name)}[/dim]\n")


def failed(out: Console, result: Comparison) -> None:
    """Which policies have no figures."""
    for policy in sorted(result.failures):
        out.print(f"[red]failed[/red]: {escape(policy)}")


def print_fitting(out: Console, columns: Columns, least_important_first: list[str]) -> None:
    """Print the columns that fit; the first of them names the rows."""
    left_out, order = [], list(columns)
    for heading in least_important_first:
        if width(columns) <= out.width:
            break
        left_out.append(heading)
        del columns[heading]
    out.print(table(columns))
    if left_out:
        named = ", ".join(heading for heading in order if heading in left_out)
        out.print(f"[dim]no room here for: {escape(named)} (a wider terminal or --json has them)[/dim]")


def width(columns: Columns) -> int:
    """How many characters wide their table is."""
    return 1 + sum(3 + max(map(len, [heading, *cells])) for heading, cells in columns.items())


def table(columns: Columns) -> Table:
    """The columns as a table whose first row stands out."""
    made = Table(header_style="bold")
    for i, heading in enumerate(columns):
        made.add_column(escape(heading), justify="right" if i else "left", no_wrap=True)
    for i, row in enumerate(zip(*columns.values(), strict=True)):
        made.add_row(*map(escape, row), style="" if i else "bold")
    return made


def _outcomes(result: Comparison, label: str) -> tuple[Columns, list[str]]:
    ranking = result.ranking(label)
    e = {p: result.estimates(label, p) for p in ranking}
    behind = ["best", *(percent(result.behind_best(label, p)) for p in ranking[1:])]
    columns = {"policy": ranking, "success": [percent(e[p]["success"]) for p in ranking], "behind best": behind}
    for share in ("late", "inaccurate", "rejected"):
        columns[share] = [percent(e[p][share]) for p in ranking]
    columns["rejected for"] = [_reasons(e[p]) for p in ranking]
    for part in ("p50", "p95", "p99"):
        columns[f"{part} ms"] = [_number(e[p][f"latency_{part}_ms"].mean, "{:.1f}") for p in ranking]
    return columns, ["p50 ms", "p95 ms", "rejected for", "inaccurate", "p99 ms", "rejected", "late", "behind best"]


def serving(scenario: AnyScenario) -> Scenario:
    """The scenario, which is one of serving."""
    assert isinstance(scenario, Scenario)
    return scenario


def _costs(result: Comparison, label: str) -> tuple[Columns, list[str]]:
    ranking, workload = result.ranking(label), serving(result.scenarios[label]).workload
    e = {p: result.estimates(label, p) for p in ranking}
    columns = {
        "policy": ranking,
        "mJ / success": [plus_minus(e[p]["energy_per_success_mj"], "{:.0f}") for p in ranking],
        "cost / million": [plus_minus(_times(1e6, e[p]["cost_per_success"]), "{:.2f}") for p in ranking],
        "busy": [f"{100 * e[p]['utilisation'].mean:.0f} %" for p in ranking],
    }
    tenants = [f"tenant {name}" for name in workload.tenants]
    classes = [f"sla {name}" for name in workload.sla_classes]
    for heading in (*classes, *tenants):
        figure = "success_" + heading.replace(" ", "_", 1)
        columns[heading] = [_number(100 * e[p][figure].mean, "{:.1f}") for p in ranking]
    for kind in ("sla", "tenant"):
        columns[f"fair {kind}"] = [_number(e[p][f"fairness_{kind}"].mean, "{:.3f}") for p in ranking]
    return columns, [*tenants, "fair tenant", "cost / million", "busy", *reversed(classes), "mJ / success"]


def _sections(assumed: list[tuple[str, str]]) -> str:
    """Whose numbers are assumed, by section."""
    sections = Counter(path.split(".")[0] for path, _ in assumed)
    return ", ".join(f"{n} in {section}" for section, n in sections.items())


def plus_minus(e: Estimate, form: str) -> str:
    """A mean with its interval; a dash when there is no mean."""
    if math.isnan(e.mean):
        return NOTHING
    form = form.replace("{:", "{:z")  # no -0.00
    return form.format(e.mean) + ("" if math.isnan(e.ci95) else f" ±{form.format(e.ci95)}")


def _number(mean: float, form: str) -> str:
    return plus_minus(Estimate(mean, math.nan, 1), form)


def _times(factor: float, e: Estimate) -> Estimate:
    return Estimate(factor * e.mean, factor * e.ci95, e.n)


def percent(e: Estimate) -> str:
    """A share in % with its interval."""
    return plus_minus(_times(100, e), "{:.2f}")


def _reasons(e: dict[str, Estimate]) -> str:
    found = [(e[f"rejected_{name}"].mean, name) for name in REASON_NAMES.values()]
    return ", ".join(f"{name} {100 * mean:.1f}" for mean, name in sorted(found, reverse=True) if mean > 0)
