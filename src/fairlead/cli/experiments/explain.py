"""`fairlead explain`: why a learned policy decided as it did, as tables, JSON, page and plots."""

from __future__ import annotations

import argparse
import math
from dataclasses import asdict

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from fairlead.cli.console import console
from fairlead.cli.experiments.run_comparison import MOST_SEED, check_outputs, compiling, write_outputs
from fairlead.cli.experiments.tables import Columns, foot, head, print_fitting
from fairlead.cli.standard_streams import note
from fairlead.domain.errors import UserError
from fairlead.experiments.explain import SOON_S, Alternative, Driver, Explanation, as_document, explain
from fairlead.measure.report.explanation_phrases import because
from fairlead.policies.interface import find
from fairlead.scenarios.loader import load

_MOST_INPUTS, _MOST_GROUPS = 10, 6
_LEAST_IMPORTANT_FIRST = ("what it does", "in flight", "mJ", "accuracy", "outcome", "not possible", "expected ms")
_WHAT_DROVE = (
    "Inputs that mattered most: how far the margin would shrink if this input had its typical value of training "
    "(below 0: grow). Inputs are changed one at a time; joint effects are not shown."
)


def run_explain(args: argparse.Namespace) -> int:
    """Run the command."""
    check_outputs(args)
    if not 0 <= args.seed <= MOST_SEED:
        raise UserError(f"--seed {args.seed}: expected a whole number from 0 to 2^31 - 1")
    scenario, policy = load(args.scenario, args.overrides), find(args.policy)
    if words := compiling():
        note(words)
    errors = Console(stderr=True)
    with Progress(console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task("playing", total=None)
        found = explain(
            scenario,
            policy,
            args.seed,
            at_s=args.at,
            request=args.request,
            replay=args.replay,
            progress=lambda done, total: bar.update(task, description="replaying", completed=done, total=total),
        )
    out = console(stderr=args.json == "-")
    try:
        head(out, scenario, args.overrides)
        show(out, found, policy.name)
        foot(out, scenario, args.scenario)
    finally:  # a reader of the tables who has gone (`| head`) does not cost the files
        asked = {"seed": args.seed, "set": args.overrides, "at_s": args.at, "request": args.request}
        write_outputs(args, as_document(found, scenario, policy, **asked, replay=args.replay))
    return 0


def show(out: Console, found: Explanation, policy: str) -> None:
    """Print an explanation."""
    when = f"{found.at_s:g} to {found.until_s:g} s" if found.kind == "window" else f"at {found.at_s:.3f} s"
    about = ", ".join(f"{k} {v if isinstance(v, str) else f'{v:g}'}" for k, v in found.situation.items())
    out.print(escape(f"{found.kind} {found.number}, {when}: {about}"))
    if found.kind == "window":
        out.print(escape("; ".join(f"{i.name} {i.value:.4g} {i.unit}".strip() for i in found.inputs)))
    out.print(f"[bold]{escape(policy)}[/bold] chose [bold]{escape(found.chosen)}[/bold]{escape(_ahead(found))}")
    if found.drivers and (reasons := because(asdict(found))):
        out.print(escape(reasons))
    if found.fallback:
        out.print(escape(_fell_back(found)))
    columns = _alternatives(found)
    print_fitting(out, columns, [heading for heading in _LEAST_IMPORTANT_FIRST if heading in columns])
    if any(a.replayed for a in found.alternatives):
        out.print(
            f"Replay: change in successful requests against {escape(found.chosen)}, among those that arrive within "
            f"{SOON_S:g} s and in the whole run. One seed only, so chance plays a part."
        )
        if not any(a.replayed.run or a.replayed.soon for a in found.alternatives if a.replayed):
            out.print("No alternative would have changed anything: all decide alike, or there was nothing to decide.")
    if found.drivers:
        out.print(f"\n{_WHAT_DROVE}")
        for drivers, most in (
            ([d for d in found.drivers if not d.group], _MOST_INPUTS),
            ([d for d in found.drivers if d.group], _MOST_GROUPS),
        ):
            _show_drivers(out, found, drivers, most)


def _ahead(found: Explanation) -> str:
    if found.margin is None:
        return ""
    return (
        f", {found.margin:.4g} ahead of {found.rival}" if found.margin else f", the first of equals with {found.rival}"
    )


def _fell_back(found: Explanation) -> str:
    outside = [f"{i.name} {i.value:.4g} ({i.low:.4g} to {i.high:.4g} in training)" for i in found.inputs if i.outside]
    return f"The model did not decide ({found.fallback}), so the fallback rule {found.rule} did" + (
        f": {', '.join(outside)}" if outside else ""
    )


def _alternatives(found: Explanation) -> Columns:
    """The choice first, then by value; what was not possible last."""
    rows = sorted(found.alternatives, key=lambda a: (not a.chosen, bool(a.excluded), -(a.value or 0.0)))
    columns = {"alternative": [a.name for a in rows], "value": [_number(a.value, "{:.4g}") for a in rows]}
    if found.kind == "window":
        columns["what it does"] = [a.summary for a in rows]
    else:
        columns["share"] = [_number(a.share, "{:.1%}") for a in rows]
        for heading, fact, form in (
            ("expected ms", "completion_ms", "{:.1f}"),
            ("accuracy", "accuracy", "{:.3f}"),
            ("mJ", "energy_mj", "{:.0f}"),
            ("in flight", "in_flight", "{:.0f}"),
        ):
            columns[heading] = [_number(a.facts.get(fact), form) for a in rows]
        columns["not possible"] = [", ".join(a.excluded) for a in rows]
    if any(a.replayed for a in rows):
        columns[f"next {SOON_S:g} s"] = [_more(a, "soon") for a in rows]
        columns["whole run"] = [_more(a, "run") for a in rows]
        if found.kind == "request":
            columns["outcome"] = [a.replayed.outcome or "" if a.replayed else "" for a in rows]
    return columns


def _show_drivers(out: Console, found: Explanation, drivers: list[Driver], most: int) -> None:
    strong = [d for d in drivers if d.move][:most]
    group = drivers[0].group
    if not strong:
        out.print(f"[dim]None of {len(drivers)} {'groups of inputs' if group else 'inputs'} changes the margin[/dim]")
        return
    seen = {i.name: i for i in found.inputs}
    columns = {"inputs that belong together" if group else "input": [d.name for d in strong]}
    if not group:
        columns["value"] = [f"{seen[d.name].value:.4g} {seen[d.name].unit}".strip() for d in strong]
        columns["typical"] = [f"{seen[d.name].typical:.4g}" for d in strong]
    columns["margin"] = [f"{d.move:+.4g}" for d in strong]
    columns["then chosen"] = ["the same" if d.then == found.chosen else d.then for d in strong]
    print_fitting(out, columns, ["then chosen"] if group else ["then chosen", "typical", "value"])
    if len(drivers) > len(strong):
        out.print(f"[dim]{len(drivers) - len(strong)} more have less or no effect; --json has them[/dim]")


def _more(a: Alternative, field: str) -> str:
    return f"{getattr(a.replayed, field):+d}" if a.replayed and not a.chosen else ""


def _number(value: float | None, form: str) -> str:
    return form.format(value) if value is not None and math.isfinite(value) else ""
