"""Make the tables of tapfinger.md: `python docs/results/make_tapfinger.py FOLDER`.

FOLDER has the documents that `tapfinger_settings` prints the commands of, and runs/NAME-SEED with the bundles. Writes
tapfinger.csv and the curves beside this file, the pictures, and the tables into the page. Not part of the package or
the site.
"""

from __future__ import annotations

import csv
import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tables import HERE, Cell, difference, draw, fill, read, write_csv
from tapfinger_settings import SETTINGS

from fairlead.measure.statistics import Estimate, estimate, paired_difference

CURVES = HERE / "curves"
ABLATIONS = ("no-han", "no-pointer", "vanilla")
#: By how much the paper says its agent's completion times are shorter, by setting (sections 5.2 and 5.3).
STATED = {
    "t3s": "mean 25.1 %, median 28.6 %, to Optimus; on 6 clusters 20.5 %",
    "tb3": "mean 13.7 % and 10.4 %, to the baselines, single-task, 3 and 6 clusters",
    "tb6": "mean 14.5 % to Tiresias, 10 % to Optimus, single-task",
    "t3": "mean 43.2 % to Tiresias, 44.5 % to Optimus",
    "t6h": "40.1 to 54.9 % to the best baselines",
}


@dataclass(frozen=True)
class Found:
    """What was found in a setting: everyone on all workloads, slow ones and the bound on the first of them."""

    name: str
    all: Cell
    few: Cell
    policies: dict[str, Any]  # knows, preempts, resizes

    @property
    def agents(self) -> list[str]:
        return [f"runs/{SETTINGS[self.name].trained}-{seed}" for seed in range(3)]

    @property
    def ships(self) -> str:
        """The agent that was best on its validation workloads."""
        return min(self.agents, key=best_validation)

    def steps(self, policy: str, few: bool = False) -> list[float]:
        cell = self.few if policy in self.few.by_seed and policy not in self.all.by_seed else self.all
        values: list[float] = cell.by_seed[policy]["completion_steps"]
        return values[: SETTINGS[self.name].few] if few else values

    def gap(self, policy: str, to: str) -> Estimate:
        """Policy - to, over the same workloads."""
        few = len(self.steps(to)) < len(self.steps(policy))
        return paired_difference(self.steps(policy, few), self.steps(to, few))

    @property
    def rivals(self) -> list[str]:
        """Those that do not pre-empt, but for the planner, best first."""
        names = [name for name in self.all.by_seed if not name.startswith("runs/")]
        fair = [name for name in names if not self.policies[name]["preempts"]]
        return sorted(fair, key=lambda name: estimate(self.steps(name)).mean)


def best_validation(agent: str) -> float:
    """Completion steps at the best point of a curve."""
    rows = csv.DictReader((CURVES / f"tapfinger-{Path(agent).name}.csv").open())
    return min(float(row["completion_steps"]) for row in rows)


def main(folder: Path) -> None:
    for curve in sorted(folder.glob("runs/*/curve.csv")):
        shutil.copy(curve, CURVES / f"tapfinger-{curve.parent.name}.csv")
    found = [found_in(folder, name) for name in SETTINGS]
    write_csv("tapfinger.csv", [row for one in found for row in rows(one)])
    fill("tapfinger.md", "verdicts", verdicts(found))
    fill("tapfinger.md", "stated", stated(found))
    for one in found:
        fill("tapfinger.md", one.name, table(one))
    fill("tapfinger.md", "ablations", ablations(found[0]))
    draw("curves-tapfinger", curves("t3", "seconds", "seconds of training"))
    draw("curves-tapfinger-ablations", curves("t3", "step", "decisions", *ABLATIONS))


def found_in(folder: Path, name: str) -> Found:
    files = [folder / f"{name}-{part}.json" for part in ("rules", "agents", "slow")]
    ((everyone,), (few,)) = read(*files[:2]), read(files[2])
    policies: dict[str, Any] = {}
    for file in files:
        policies |= json.loads(file.read_text())["policies"]
    return Found(name, everyone, few, policies)


def mean(values: list[float]) -> str:
    figure = estimate(values)
    return f"{figure.mean:.3f} ± {figure.ci95:.3f}"


def signed(gap: Estimate) -> str:
    """A difference of completion times; bold where less is certain."""
    words = difference(gap, 3)
    return f"**{words}**" if gap.mean + gap.ci95 < 0 else words


def verdicts(found: list[Found]) -> str:
    lines = [
        "| setting | best rival | agent | agent - rival | all seeds | planner / agent there | agent - planner | bound "
        "| way to it |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for one in found:
        rival, agent = one.rivals[0], one.ships
        seeds = ", ".join(f"{estimate(one.steps(who)).mean:.3f}" for who in one.agents)
        there = " / ".join(f"{estimate(one.steps(who, few=True)).mean:.3f}" for who in ("rollout", agent))
        planner = f"{there} | {signed(one.gap(agent, 'rollout'))}"
        bound, way = "", ""
        if one.few.bound:
            names = ("tuned-rule", agent)
            low, high, here = one.few.bound_mean, *(estimate(one.steps(who, few=True)).mean for who in names)
            bound, way = f"{low:.3f}", f"{100 * (high - here) / (high - low):.0f} %"
        lines.append(
            f"| {SETTINGS[one.name].title} | {rival} {mean(one.steps(rival))} | {mean(one.steps(agent))} | "
            f"{signed(one.gap(agent, rival))} | {seeds} | {planner} | {bound} | {way} |"
        )
    return "\n".join(lines)


def stated(found: list[Found]) -> str:
    against = ("optimus", "tiresias", "min", "random", "tuned-rule")
    lines = [
        f"| setting | the paper states | ours, to {' | '.join(against)} |",
        "|---|---|" + "---|" * len(against),
    ]
    for one in (one for one in found if one.name in STATED):
        mine = one.all.by_seed[one.ships]
        cells = []
        for rival in against:
            theirs, less = one.all.by_seed[rival], []
            for figure in ("completion_steps", "completion_p50_steps"):
                ours, other = estimate(mine[figure]).mean, estimate(theirs[figure]).mean
                less.append(f"{100 * (1 - ours / other):.1f}")
            cells.append(" / ".join(less))
        lines.append(f"| {SETTINGS[one.name].title} | {STATED[one.name]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def table(one: Found) -> str:
    """Everyone in a setting, best first."""
    lines = [
        "| policy | mean completion, steps | agent - it | median | p95 | privileges |",
        "|---|---|---|---|---|---|",
    ]
    few = SETTINGS[one.name].few
    names = [*one.all.by_seed, *(name for name in one.few.by_seed if name not in one.all.by_seed)]
    for name in sorted(names, key=lambda name: -one.gap(one.ships, name).mean):
        if name.startswith("runs/") and name not in one.agents:
            continue  # an ablation
        cell = one.all if name in one.all.by_seed else one.few
        median, p95 = (estimate(cell.by_seed[name][f"completion_{p}_steps"]).mean for p in ("p50", "p95"))
        about = one.policies[name]
        may = [
            *about["knows"],
            *(word for word, key in (("pre-empt", "preempts"), ("resize", "resizes")) if about[key]),
        ]
        shown = f"TapFinger, seed {name[-1]}" if name in one.agents else name
        shown = f"**{shown}**" if name == one.ships else shown
        only = f" ({few} workloads)" if cell is one.few else ""
        gap = "" if name == one.ships else signed(one.gap(one.ships, name))
        lines.append(
            f"| {shown}{only} | {mean(one.steps(name))} | {gap} | {median:.1f} | {p95:.1f} | {', '.join(may)} |"
        )
    if one.few.bound:
        gap = paired_difference(one.steps(one.ships, few=True), one.few.bound)
        lines.append(f"| *bound* ({few} workloads) | {mean(one.few.bound)} | {difference(gap, 3)} | | | |")
    return "\n".join(lines)


def ablations(one: Found) -> str:
    """Whole and ablated networks, three seeds each, by their mean."""
    lines = ["| network | seeds | mean of the seeds | more than the whole |", "|---|---|---|---|"]
    by_name = {name: [one.steps(f"runs/{name}-{seed}") for seed in range(3)] for name in ("t3", *ABLATIONS)}
    means = {name: [sum(row) / 3 for row in zip(*seeds, strict=True)] for name, seeds in by_name.items()}
    for name in sorted(means, key=lambda name: estimate(means[name]).mean):
        seeds = ", ".join(f"{estimate(values).mean:.3f}" for values in by_name[name])
        more = paired_difference(means[name], means["t3"])
        gap = "" if name == "t3" else difference(more, 3)
        lines.append(f"| {'whole' if name == 't3' else name} | {seeds} | {mean(means[name])} | {gap} |")
    return "\n".join(lines)


def rows(one: Found) -> list[dict[str, Any]]:
    found = []
    for cell in (one.all, one.few):
        for policy, values in cell.by_seed.items():
            row: dict[str, Any] = {"setting": one.name, "policy": policy, "workloads": len(values["completion_steps"])}
            for figure in ("completion_steps", "completion_p50_steps", "completion_p95_steps", "waiting_steps"):
                known = estimate(values[figure])
                row |= {figure: known.mean, f"{figure}_ci95": known.ci95}
            found.append(row)
    return found


def curves(name: str, over: str, label: str, *also: str) -> dict[str, Any]:
    """The gap to the tuned rule in validations, over seconds or decisions: a line for each training."""
    gap = "gap to the tuned rule, steps"
    values = [
        {"network": "whole" if who == name else who, "seed": seed, label: float(row[over]), gap: float(row["gap"])}
        for who in (name, *also)
        for seed in range(3)
        for row in csv.DictReader((CURVES / f"tapfinger-{who}-{seed}.csv").open())
    ]
    encoding = {
        "x": {"field": label, "type": "quantitative"},
        "y": {"field": gap, "type": "quantitative", "scale": {"type": "symlog", "constant": 0.1}},
        "color": {"field": "network" if also else "seed", "type": "nominal"},
        "detail": {"field": "seed", "type": "nominal"},
    }
    line = {"type": "line", "point": True}
    return {"width": 560, "height": 300, "data": {"values": values}, "mark": line, "encoding": encoding}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
