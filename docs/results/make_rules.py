"""Make the tables against all rules, here and in the guide to comparing: `python docs/results/make_rules.py FOLDER`.

FOLDER has what the commands of both pages wrote: SCENARIO.json for the six topologies; ecsrl-rates.json and
ecsrl-rho.json. Writes the tables, aset-rules.csv and ecsrl-rules.csv. Not part of the package or the site.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from make_aset import SCENARIOS, own, rate
from make_ecsrl import FIGURES, table
from tables import Cell, fill, points, read, write_csv

from fairlead.learn.aset.agent import SEVEN
from fairlead.measure.statistics import Estimate, estimate
from fairlead.policies.interface import rules

ALL: Final = tuple(rules())
NEW: Final = ("least-taken", "slack", "slack-decline")
OLDER: Final = tuple(name for name in ALL if name not in NEW)


def main(folder: Path) -> None:
    cells = sorted(
        read(*(folder / f"{name}.json" for name in SCENARIOS)),
        key=lambda cell: (SCENARIOS.index(cell.scenario), rate(cell)),
    )
    write_csv("aset-rules.csv", [row for cell in cells for row in rows(cell)])
    fill("aset.md", "worth", worth([(cell, {who: name_in(cell, who) for who in AGENTS}) for cell in cells]))
    fill("aset.md", "rules", against(cells))
    fill("../guides/comparing.md", "at-60", at_60([cell for cell in cells if rate(cell) == 60]))
    fill("../guides/comparing.md", "over-rates", over_rates(cells))

    shared = read(folder / "ecsrl-rates.json", folder / "ecsrl-rho.json")
    write_csv("ecsrl-rules.csv", [row for cell in shared for row in rows(cell)])
    fill("ecsrl.md", "worth", worth([(cell, {"ecsrl": "ecsrl"}) for cell in shared]))
    fill("ecsrl.md", "rules", where_devices_are_shared(shared))
    for cell in shared:
        if cell.label in ("rate=3400", "rate=18500", "rate=28000"):
            fill("ecsrl.md", cell.label, table(cell))


AGENTS: Final = ("aset", "its own", "aset-all")


def name_in(cell: Cell, agent: str) -> str:
    return own(cell.scenario) if agent == "its own" else agent


def rows(cell: Cell) -> Iterator[dict[str, Any]]:
    best = cell.best(ALL)
    for policy, values in cell.by_seed.items():
        row: dict[str, Any] = {
            "scenario": cell.scenario,
            "cell": cell.label,
            "seeds": len(cell.seeds),
            "policy": policy,
        }
        for name in FIGURES:
            figure = estimate(values[name])
            row |= {name: figure.mean, f"{name}_ci95": figure.ci95}
        gain = cell.gain(policy, best)
        yield row | {"best_rule": best, "gain_on_best_rule": gain.mean, "gain_on_best_rule_ci95": gain.ci95}


def standing(cell: Cell, agent: str) -> int:
    """1: ahead of every rule with an interval above 0. -1: some rule is ahead of it so. 0: neither."""
    gains = [cell.gain(agent, rule) for rule in ALL if rule in cell.success]
    if all(gain.low > 0.0 for gain in gains):
        return 1
    return -1 if any(gain.high < 0.0 for gain in gains) else 0


def worth(cells: Sequence[tuple[Cell, dict[str, str]]]) -> str:
    """In how many cells agents are ahead of every rule, level, behind; of several, first the one that stands best."""
    lines = [f"| of {len(cells)} cells | ahead of every rule | level with the best | behind |", "|---|---|---|---|"]
    found = {who: [standing(cell, names[who]) for cell, names in cells] for who in cells[0][1]}
    if len(found) > 1:
        found = {"any agent": [max(of_cell) for of_cell in zip(*found.values(), strict=True)]} | found
    for who, standings in found.items():
        lines.append(f"| {who} | {standings.count(1)} | {standings.count(0)} | {standings.count(-1)} |")
    return "\n".join(lines)


def bold(gain: Estimate) -> str:
    return f"**{points(gain)}**" if gain.low > 0.0 else points(gain)


def against(cells: list[Cell]) -> str:
    """The new rules against the best of the older ones, and the agents against the best of all."""
    heads = ["scenario", "rate", "best of the older rules", *(f"`{name}`" for name in NEW), "best of all"]
    lines = [f"| {' | '.join([*heads, *(f'`{a}`' if a != 'its own' else a for a in AGENTS)])} |"]
    lines.append("|---" * (len(heads) + len(AGENTS)) + "|")
    for cell in cells:
        older, best = cell.best(OLDER), cell.best(ALL)
        entries = [cell.scenario, str(rate(cell)), f"{older} {100 * cell.mean(older):.1f}"]
        entries += [bold(cell.gain(name, older)) for name in NEW]
        entries += [f"{best} {100 * cell.mean(best):.1f}"]
        entries += [bold(cell.gain(name_in(cell, agent), best)) for agent in AGENTS]
        lines.append(f"| {' | '.join(entries)} |")
    return "\n".join(lines)


def where_devices_are_shared(cells: list[Cell]) -> str:
    """The same for the dispatcher; a place is a rate at the scenario's rho, or a rho for all boards."""
    lines = [
        "| place | bound | best of the older rules | `least-taken` | best of all | `ecsrl` | mJ per success, both |",
        "|---|---|---|---|---|---|---|",
    ]
    for cell in cells:
        older, best = cell.best(OLDER), cell.best(ALL)
        entries = [cell.label.removeprefix("devices.*.degradation."), f"{100 * cell.bound_mean:.2f}"]
        entries += [f"{older} {100 * cell.mean(older):.2f}", bold(cell.gain("least-taken", older))]
        entries += [f"{best} {100 * cell.mean(best):.2f}", bold(cell.gain("ecsrl", best))]
        energy = (estimate(cell.by_seed[name]["energy_per_success_mj"]).mean for name in (best, "ecsrl"))
        lines.append(f"| {' | '.join([*entries, ', '.join(f'{mj:.0f}' for mj in energy)])} |")
    return "\n".join(lines)


def at_60(cells: list[Cell]) -> str:
    lines = [
        f"| scenario | best of {len(ALL)} rules | success | best of ASET's seven |",
        "|---|---|---|---|",
    ]
    for cell in cells:
        best = cell.best(ALL)
        behind = f"{(seven := cell.best(SEVEN))} {points(cell.gain(seven, best), 1)}"
        success = estimate(cell.success[best])
        lines.append(f"| `{cell.scenario}` | {best} | {100 * success.mean:.1f} ± {100 * success.ci95:.1f} | {behind} |")
    return "\n".join(lines)


def over_rates(cells: list[Cell]) -> str:
    rates = sorted({rate(cell) for cell in cells})
    lines = [f"| scenario | {' | '.join(map(str, rates))} |", "|---" * (len(rates) + 1) + "|"]
    for scenario in SCENARIOS:
        row = [leader(cell) for cell in cells if cell.scenario == scenario]
        lines.append(f"| `{scenario}` | {' | '.join(row)} |")
    return "\n".join(lines)


def leader(cell: Cell) -> str:
    of_seven, of_all = cell.best(SEVEN), cell.best(ALL)
    lead = points(cell.gain(of_all, of_seven), 1)
    more = "" if lead.startswith("0.0") else f" ({of_all} {lead})"
    return f"{of_seven} {100 * cell.mean(of_seven):.1f}{more}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
