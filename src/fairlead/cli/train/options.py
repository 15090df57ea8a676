"""The options of `fairlead train`. Imports nothing that `fairlead --help` can do without."""

from __future__ import annotations

import argparse
from typing import Any

from fairlead.cli.options import MOST_SEED, SCENARIO, add_set, command, number, whole_number
from fairlead.learn.shared.settings import TAPFINGER_STEPS

#: Default steps of a training; TapFinger's are known even where nothing else is installed.
ASET_STEPS, ECSRL_STEPS = 60_000, 6_000_000
_MOST_STEPS = 10**10

_DESCRIPTION = """\
Train a learned policy in the simulator and write it as a bundle: a folder that `fairlead compare` runs like any
policy, without torch. During training it is compared with the best rules on separate workloads.
Ctrl-C keeps what was learned so far, and --resume continues.
"""

_ASET = """\
The agent chooses the rule for each window of time. It sees the rates of requests and answers, the clients and the
load of each node. With several scenarios or rates, one agent learns to serve all of them.
"""

_ASET_EXAMPLES = """\
examples:
  fairlead train aset --scenario full-edge --out runs/mine
  fairlead train aset --scenario full-edge --scenario dc-cloud --rates 30,50,70,90 --validation-rates 40,80 \\
    --out runs/both
  fairlead train aset --scenario shifting --actions all --hyper groups=2 --steps 100000 --out runs/all
  fairlead compare full-edge --policies load-balancing,runs/mine
"""

_ECSRL = """\
The agent sends each request to a device and a variant, or rejects it. It learns to answer in time and accurately, at
little energy and degradation: as a weighted sum, or at the least cost with a required success rate (constraint).
"""

_ECSRL_EXAMPLES = """\
examples:
  fairlead train ecsrl --scenario ecsrl --out runs/mine
  fairlead train ecsrl --scenario ecsrl --rates 3400,12000,18000 --energy-weight 0.05 --out runs/frugal
  fairlead train ecsrl --scenario ecsrl --energy-weight 0:0.3 --degradation-weight 0:0.2 --out runs/pareto
  fairlead train ecsrl --scenario ecsrl --objective constraint --target 0.9 --energy-weight 1 --out runs/target
"""

_TAPFINGER = """\
The agents of all clusters together place tasks and choose how much of each resource a task gets. They start as the
scenario's tuned rule and learn to do better; the gap to it is shown during training. Training takes minutes on a
GPU and half an hour on one CPU core.
"""

_TAPFINGER_EXAMPLES = """\
examples:
  fairlead train tapfinger --scenario tapfinger-3 --device cuda --out runs/mine
  fairlead train tapfinger --scenario tapfinger-6 --rates 3,4 --size paper --device cuda --out runs/paper
  fairlead train tapfinger --scenario tapfinger-3 --world world.npz     (then, on a machine with torch and Numba alone:)
  python -m fairlead.learn.tapfinger --world world.npz --device cuda --out runs/mine
  fairlead compare tapfinger-3 --policies tuned-rule,runs/mine
"""


def add_train(commands: Any) -> None:
    """Add the command to the parser's."""
    train = command(commands, "train", "train a learned policy in the simulator", _DESCRIPTION, "")
    agents = train.add_subparsers(dest="agent", metavar="AGENT", required=True)
    aset = command(agents, "aset", "chooses the rule for each window (ASET)", _ASET, _ASET_EXAMPLES)
    _add_common(aset, ASET_STEPS, "actions of all worlds together, each held for some windows")
    aset.add_argument(
        "--actions",
        default="seven",
        metavar="SET",
        help="rules to choose from: seven (ASET's static ones), six (its agent's), all, or NAME,NAME (default seven)",
    )
    aset.add_argument("--window-ms", type=number, metavar="MS", help="length of a window (default: the scenario's)")
    aset.add_argument(
        "--mix",
        action=argparse.BooleanOptionalAction,
        help="let it see required deadlines and accuracies, and delays of links (default: with several scenarios)",
    )
    ecsrl = command(agents, "ecsrl", "sends each request to a device and variant (ECSRL)", _ECSRL, _ECSRL_EXAMPLES)
    _add_common(ecsrl, ECSRL_STEPS, "decisions of all worlds together, rounded up to whole roll-outs")
    ecsrl.add_argument(
        "--objective",
        choices=("weighted", "constraint"),
        default="weighted",
        help="objective of the training (default weighted)",
    )
    ecsrl.add_argument(
        "--energy-weight",
        default="0",
        metavar="W|FROM:TO[:W]",
        help="cost of a joule, if a success is worth 1; a range trains one network for all its weights, and the bundle "
        "uses W, or FROM if there is no W (default 0)",
    )
    ecsrl.add_argument(
        "--degradation-weight",
        default="0",
        metavar="W|FROM:TO[:W]",
        help="cost of doubling a request's service time by interference (default 0)",
    )
    ecsrl.add_argument(
        "--target", type=number, metavar="S", help="success rate to keep, with --objective constraint (default 0.9)"
    )
    tapfinger = command(
        agents, "tapfinger", "places tasks and sizes their allocations (TapFinger)", _TAPFINGER, _TAPFINGER_EXAMPLES
    )
    _add_common(tapfinger, TAPFINGER_STEPS, "joint decisions of all worlds together, rounded up to roll-outs", False)
    tapfinger.add_argument(
        "--size", default="small", metavar="SIZE", help="size of the network: small or paper (default small)"
    )
    tapfinger.add_argument(
        "--ablation", metavar="A", help="train without a part of the network: no-han, no-pointer or vanilla"
    )
    tapfinger.add_argument(
        "--device", choices=("cpu", "cuda"), help="device to train on (default: cuda if there is one)"
    )
    tapfinger.add_argument(
        "--world", metavar="FILE", help="only write the scenario as one file, for training on another machine"
    )


def _add_common(parser: argparse.ArgumentParser, steps: int, words: str, several: bool = True) -> None:
    parser.add_argument(
        "--scenario",
        action="append",
        default=[],
        metavar="S",
        dest="scenarios",
        help=f"scenario to train on: {SCENARIO}{'; can be given several times' if several else ''}",
    )
    add_set(parser, "change a field of the scenarios, as in `fairlead compare`")
    parser.add_argument("--rates", metavar="R,R", help="train at each of these rates (default: the scenario's)")
    if several:
        parser.add_argument(
            "--validation-rates",
            metavar="R,R",
            help="rates to validate at (default: --rates)",
        )
    parser.add_argument(
        "--steps", type=whole_number(1, _MOST_STEPS), default=steps, metavar="N", help=f"{words} (default {steps})"
    )
    parser.add_argument(
        "--seed",
        type=whole_number(0, MOST_SEED),
        default=0,
        metavar="N",
        help="seed of networks, choices and workloads (default 0)",
    )
    parser.add_argument(
        "--hyper",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change a setting of the training (--hyper list shows them)",
    )
    parser.add_argument("--resume", action="store_true", help="resume the training in DIR")
    parser.add_argument("--out", metavar="DIR", help="write the bundle, its checkpoint and its logs into DIR")
