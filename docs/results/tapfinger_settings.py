"""The settings of tapfinger.md: `python docs/results/tapfinger_settings.py` prints the commands of its documents.

Each setting has a tuned rule of its own, found by `fairlead tune` with the same --set on workloads that no comparison
uses. The agents of a setting are trained where `trained` says. Read by `make_tapfinger`.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

FIRST_SEED, SEEDS, FEW = 40_000, 200, 24
RULES = "random,min,tuned-rule,thrifty-rule,shortest-first,optimus,afs,hesrpt,tiresias"
SLOW = "tuned-rule,sia,rollout"  # seconds a workload each, and so is the bound


def rule(wanted: str, least: str, packing: str, first: str = "") -> tuple[str, ...]:
    return (
        f"tuned_rule.first=[{first}]",
        f"tuned_rule.wanted={{{wanted}}}",
        f"tuned_rule.least={{{least}}}",
        f"tuned_rule.packing={packing}",
    )


HALF = ("clusters.*.amounts.cpu=16", "clusters.*.amounts.gpu=8")
LONG = ("--hyper", "horizon=32")  # decisions there matter for longer
SINGLE = ("mode=single", "switching=0.5")


@dataclass(frozen=True)
class Training:
    """Where agents are trained, for how many decisions, with what options, and the name by which the best one ships."""

    scenario: str
    overrides: tuple[str, ...] = ()
    steps: int = 500_000
    options: tuple[str, ...] = ()
    ships: str = ""

    def command(self, name: str, seed: int, out: Path = Path("runs")) -> list[str]:
        changes = [word for change in self.overrides for word in ("--set", change)]
        how = ["--steps", str(self.steps), "--seed", str(seed), "--out", str(out / f"{name}-{seed}")]
        return ["fairlead", "train", "tapfinger", "--scenario", self.scenario, *changes, *self.options, *how]


@dataclass(frozen=True)
class Setting:
    """Where agents and rules are judged."""

    title: str
    scenario: str
    trained: str
    overrides: tuple[str, ...] = ()
    few: int = FEW  # workloads of what is slow

    def command(self, name: str, policies: str, seeds: int) -> list[str]:
        changes = [word for change in self.overrides for word in ("--set", change)]
        which = ["--policies", policies, "--first-seed", str(FIRST_SEED), "--seeds", str(seeds)]
        return ["fairlead", "compare", self.scenario, *changes, *which, "--json", f"{name}.json"]


NOISE = ("progress_noise=0.2", *rule("sensitive: {gpu: 11}", "sensitive: {gpu: 4}", "best"))
PAPER = ("speed=paper", *rule("sensitive: {gpu: 9}", "sensitive: {gpu: 5}", "best"))
ALONE = (*SINGLE, "rate=2", *rule("sensitive: {gpu: 10}", "sensitive: {gpu: 7}", "worst", "sensitive"))

TRAININGS = {
    "t3": Training("tapfinger-3", ships="tapfinger-3-agents"),
    "t3n": Training("tapfinger-3", NOISE, 1_000_000, LONG, "tapfinger-3-noise-agents"),
    "t3p": Training("tapfinger-3", PAPER, ships="tapfinger-3-paper-agents"),
    "t3r": Training("tapfinger-3", options=("--rates", "1.5,2.5,3,3.5"), ships="tapfinger-3-rates-agents"),
    "t3s": Training("tapfinger-3", ALONE, ships="tapfinger-3-single-agents"),
    "t6": Training("tapfinger-6", ships="tapfinger-6-agents"),
    "t6h": Training("tapfinger-6-hetero", ships="tapfinger-6-hetero-agents"),
    "tb3": Training(
        "tapfinger-testbed-3",
        (
            *HALF,
            "rate=0.75",
            "tasks=300",
            *rule(
                "convnet: {cpu: 14, gpu: 7}, transformer: {cpu: 6, gpu: 3}, wav2vec2: {cpu: 2}",
                "convnet: {gpu: 3}",
                "worst",
            ),
        ),
        options=LONG,
        ships="tapfinger-testbed-3-agents",
    ),
    "tb6": Training(
        "tapfinger-testbed-6",
        (
            *HALF,
            "rate=1.5",
            "tasks=600",
            *rule(
                "convnet: {cpu: 16, gpu: 8}, transformer: {cpu: 4, gpu: 3}, wav2vec2: {cpu: 4}",
                "convnet: {gpu: 3}",
                "best",
                "wav2vec2",
            ),
        ),
        options=LONG,
        ships="tapfinger-testbed-6-agents",
    ),
    "pt": Training("pointer-test", ships="pointer-test-agents"),
    "no-han": Training("tapfinger-3", options=("--ablation", "no-han")),
    "no-pointer": Training("tapfinger-3", options=("--ablation", "no-pointer")),
    "vanilla": Training("tapfinger-3", options=("--ablation", "vanilla")),
}

SETTINGS = {
    "t3": Setting("3 clusters, 3 arrivals a step", "tapfinger-3", "t3", few=SEEDS),
    "t3n": Setting("the same, with the paper's noise", "tapfinger-3", "t3n", NOISE),
    "t3p": Setting("the same, with the paper's speed", "tapfinger-3", "t3p", PAPER),
    "t3l2": Setting(
        "3 clusters, 2 arrivals a step",
        "tapfinger-3",
        "t3r",
        ("rate=2", *rule("insensitive: {gpu: 1}, sensitive: {gpu: 10}", "sensitive: {gpu: 5}", "best")),
    ),
    "t3l4": Setting(
        "3 clusters, 4 arrivals a step",
        "tapfinger-3",
        "t3r",
        ("rate=4", *rule("sensitive: {gpu: 10, cpu: 4}", "sensitive: {gpu: 4, cpu: 4}", "best")),
    ),
    "t6": Setting("6 clusters, 4 arrivals a step", "tapfinger-6", "t6"),
    "t6l3": Setting(
        "6 clusters, 3 arrivals a step",
        "tapfinger-6",
        "t6",
        ("rate=3", *rule("sensitive: {gpu: 10}", "sensitive: {gpu: 7}", "worst", "insensitive")),
    ),
    "t6l2": Setting(
        "6 clusters, 2 arrivals a step",
        "tapfinger-6",
        "t6",
        ("rate=2", *rule("insensitive: {gpu: 1}, sensitive: {gpu: 10}", "sensitive: {gpu: 7}", "best")),
    ),
    "t6h": Setting("6 unlike clusters, 6 arrivals a step", "tapfinger-6-hetero", "t6h"),
    "tb3": Setting("test-bed tasks, 3 clusters, 1,000 tasks", "tapfinger-testbed-3", "tb3"),
    "tb6": Setting("test-bed tasks, 6 clusters, 2,000 tasks", "tapfinger-testbed-6", "tb6", few=8),
    "t3s": Setting("3 clusters, single-task, 2 arrivals a step", "tapfinger-3", "t3s", ALONE),
    "pt": Setting("pointer test", "pointer-test", "pt"),
}


def main() -> None:
    for name, training in TRAININGS.items():
        for seed in range(3):
            print(shlex.join(training.command(name, seed)))
    for name, setting in SETTINGS.items():
        names = [setting.trained, *(("no-han", "no-pointer", "vanilla") if name == "t3" else ())]
        agents = ",".join(f"runs/{who}-{seed}" for who in names for seed in range(3))
        print(shlex.join([*setting.command(f"{name}-rules", RULES, SEEDS), "--no-bound"]))
        print(shlex.join([*setting.command(f"{name}-agents", agents, SEEDS), "--no-bound"]))
        print(shlex.join(setting.command(f"{name}-slow", SLOW, setting.few)))


if __name__ == "__main__":
    main()
