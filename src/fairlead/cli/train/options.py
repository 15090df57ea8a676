"""The options of `fairlead train`. Imports nothing that `fairlead --help` can do without."""

from __future__ import annotations

import argparse
from typing import Any

from fairlead.cli.options import SCENARIO, add_set, command
from fairlead.learn.shared.settings import TAPFINGER_STEPS

#: Steps of a training, unless told; TapFinger's are known where nothing else is installed, too.
ASET_STEPS, ECSRL_STEPS = 60_000, 6_000_000

_DESCRIPTION = """\
Train a learned policy in the simulator and make a bundle of it: a folder that `fairlead compare` runs like any policy,
and that needs no torch to run. While it learns, it is compared with the best rules on workloads kept for that.
Ctrl-C keeps what is there; --resume goes on with it.
"""

_ASET = """\
The agent picks, for each window of time, which rule decides. It sees the rates of requests and answers, the clients
and the load of each node. With several scenarios or rates, one agent learns to serve all of them.
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
little energy and degradation: as a weighted sum, or at the least cost that keeps a share of successes (constraint).
"""

_ECSRL_EXAMPLES = """\
examples:
  fairlead train ecsrl --scenario ecsrl --out runs/mine
  fairlead train ecsrl --scenario ecsrl --rates 3400,12000,18000 --energy-weight 0.05 --out runs/frugal
  fairlead train ecsrl --scenario ecsrl --energy-weight 0:0.3 --degradation-weight 0:0.2 --out runs/pareto
  fairlead train ecsrl --scenario ecsrl --objective constraint --target 0.9 --energy-weight 1 --out runs/target
"""

_TAPFINGER = """\
The agents of all clusters place tasks together and say how much of each resource a task gets. They begin as the tuned
rule of the scenario and learn to be better; the gap to it is shown as it goes. A GPU takes minutes, a core of a CPU
half an hour.
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
    aset = command(agents, "aset", "picks the rule of each window (ASET)", _ASET, _ASET_EXAMPLES)
    _add_common(aset, ASET_STEPS, "so many actions of all worlds together, each held for some windows")
    aset.add_argument(
        "--actions",
        default="seven",
        metavar="SET",
        help="rules to pick from: seven (ASET's static ones), six (its agent's), all, or NAME,NAME,... (default seven)",
    )
    aset.add_argument("--window-ms", type=float, metavar="MS", help="length of a window (default: the scenario's)")
    aset.add_argument(
        "--mix",
        action=argparse.BooleanOptionalAction,
        help="show it deadlines and accuracies asked for, and delays of links (default: with several scenarios)",
    )
    ecsrl = command(agents, "ecsrl", "sends each request to a device and variant (ECSRL)", _ECSRL, _ECSRL_EXAMPLES)
    _add_common(ecsrl, ECSRL_STEPS, "so many decisions of all worlds together, rounded up to whole roll-outs")
    ecsrl.add_argument(
        "--objective", choices=("weighted", "constraint"), default="weighted", help="what it learns (default weighted)"
    )
    ecsrl.add_argument(
        "--energy-weight",
        default="0",
        metavar="W|FROM:TO[:W]",
        help="what a joule costs, a success being 1; a range trains one network for all weights in it, and the bundle "
        "heeds W of these, or FROM (default 0)",
    )
    ecsrl.add_argument(
        "--degradation-weight",
        default="0",
        metavar="W|FROM:TO[:W]",
        help="what it costs that a request takes as long again as alone (default 0)",
    )
    ecsrl.add_argument("--target", type=float, metavar="S", help="constraint: share of successes to keep (default 0.9)")
    tapfinger = command(
        agents, "tapfinger", "places tasks and gives amounts (TapFinger)", _TAPFINGER, _TAPFINGER_EXAMPLES
    )
    _add_common(
        tapfinger, TAPFINGER_STEPS, "so many joint decisions of all worlds together, rounded up to roll-outs", False
    )
    tapfinger.add_argument(
        "--size", default="small", metavar="SIZE", help="of the network: small or paper (default small)"
    )
    tapfinger.add_argument("--ablation", metavar="A", help="leave something out: no-han, no-pointer or vanilla")
    tapfinger.add_argument("--device", choices=("cpu", "cuda"), help="where it learns (default: cuda if there is one)")
    tapfinger.add_argument(
        "--world", metavar="FILE", help="write the scenario as one file for the stand-alone form, no more"
    )


def _add_common(parser: argparse.ArgumentParser, steps: int, words: str, several: bool = True) -> None:
    parser.add_argument(
        "--scenario",
        action="append",
        default=[],
        metavar="S",
        dest="scenarios",
        help=f"where it learns: {SCENARIO}{'; can be given several times' if several else ''}",
    )
    add_set(parser, "change a field of the scenarios, as in `fairlead compare`")
    parser.add_argument("--rates", metavar="R,R", help="learn at each of these rates (default: the scenario's)")
    if several:
        parser.add_argument(
            "--validation-rates",
            metavar="R,R",
            help="validate at these, to see rates that it has not learnt at (default: --rates)",
        )
    parser.add_argument("--steps", type=int, default=steps, metavar="N", help=f"{words} (default {steps})")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of networks, choices, workloads (default 0)")
    parser.add_argument(
        "--hyper",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change a setting of the training (--hyper list shows them)",
    )
    parser.add_argument("--resume", action="store_true", help="go on with the training in DIR")
    parser.add_argument("--out", metavar="DIR", help="the bundle, its checkpoint and its logs go there")
