"""The `fairlead` command: the composition root. It parses, calls, and turns errors into one line.

Imports are lazy: `fairlead --help` loads neither NumPy nor Numba, and nothing here needs torch or a Kubernetes client.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from typing import NoReturn

from fairlead import __version__
from fairlead.cli.model_options import add_degrade, add_models
from fairlead.cli.options import (
    add_catalog,
    add_compare,
    add_degradation,
    add_detect,
    add_explain,
    add_report,
    add_sweep,
    add_tune,
)
from fairlead.cli.predict_options import add_calibrate, add_evaluate, add_predict
from fairlead.cli.profile_options import add_profile
from fairlead.cli.trace_options import add_trace
from fairlead.cli.train_options import add_train
from fairlead.domain.errors import UserError, nearest

_EXAMPLES = """\
examples:
  fairlead scenarios                               what ships
  fairlead show full-edge                          one scenario, with its assumptions
  fairlead compare full-edge --seeds 5             every policy, paired seeds, confidence intervals
  fairlead compare full-edge --set rate=100 --policies closest,load-balancing --json out.json
  fairlead sweep full-edge --param rate --values 20:120:20
  fairlead report out.json --plots plots           a page with plots, and the plots as PNG and SVG
  fairlead compare tapfinger-3 --seeds 50          the same for tasks on clusters (training jobs and the like)
  fairlead degradation ecsrl                       how workloads slow each other down on its devices
  fairlead train aset --scenario full-edge --out runs/mine        an agent that picks the rule of each window
  fairlead explain ecsrl --policy ecsrl --at 30    why a learned policy decided as it did
  fairlead detect                                  what accelerators this host has
  fairlead profile model.onnx                      what a model is made of, and what it costs
  fairlead predict model.onnx --all                how long it takes on devices, and where it can't run
  fairlead calibrate                               this machine's rates, for predictions
  fairlead models                                  real models to try this with
  fairlead degrade a.onnx b.onnx                   how they slow each other down on this machine
  fairlead trace convnet --cpu 1,2 --out traces    how fast a task is with so many CPUs, for the world of tasks
"""


class _Parser(argparse.ArgumentParser):
    """Raises UserError instead of printing its usage."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} (see {self.prog} --help)")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="fairlead",
        description="Fairlead decides where machine-learning work runs at the edge.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"fairlead {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for add in (
        add_compare,
        add_sweep,
        add_report,
        add_degradation,
        add_tune,
        add_train,
        add_explain,
        add_detect,
        add_profile,
        add_predict,
        add_calibrate,
        add_evaluate,
        add_models,
        add_degrade,
        add_trace,
        add_catalog,
    ):
        add(commands)
    return parser


#: Where each command is, as module:function below fairlead.cli; imported when it is run.
_RUN = {
    "compare": "compare:run_compare",
    "sweep": "compare:run_sweep",
    "report": "report:run_report",
    "degradation": "degradation:run_degradation",
    "tune": "tune:run_tune",
    "train": "train:run_train",
    "explain": "explain:run_explain",
    "detect": "detect:run_detect",
    "profile": "profile:run_profile",
    "predict": "predict:run_predict",
    "calibrate": "calibrate:run_calibrate",
    "evaluate": "evaluate:run_evaluate",
    "models": "models:run_models",
    "degrade": "degrade:run_degrade",
    "trace": "trace:run_trace",
    "scenarios": "catalog:run_scenarios",
    "policies": "catalog:run_policies",
    "show": "catalog:run_show",
}


def _run(arguments: list[str]) -> int:
    parser = _parser()
    command = next((a for a in arguments if not a.startswith("-")), None)
    if command is not None and command not in _RUN:
        raise UserError(f"unknown command {command!r}{nearest(command, _RUN)}")
    args = parser.parse_args(arguments)
    if args.command is None:
        parser.print_help()
        return 0
    module, _, function = _RUN[args.command].partition(":")
    return int(getattr(import_module(f"fairlead.cli.{module}"), function)(args))


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 0 when all went well, 2 on wrong input, 130 when interrupted."""
    try:
        try:
            return _run(sys.argv[1:] if arguments is None else arguments)
        finally:
            sys.stdout.flush()  # here, where a reader that has gone is no error
    except UserError as error:
        print(f"fairlead: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("fairlead: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has gone, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # of standard output, such as a full disk: files have their own words
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"fairlead: {error.strerror or error}", file=sys.stderr)
        return 1
