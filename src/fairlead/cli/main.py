"""The `fairlead` command: the composition root. It parses, calls, and turns errors into one line.

Imports are lazy: `fairlead --help` loads neither NumPy nor Numba, and nothing here needs torch or a Kubernetes client.
"""

from __future__ import annotations

import argparse
import errno
import itertools
import os
import signal
import sys
from importlib import import_module
from typing import Any, NoReturn

from fairlead import __version__
from fairlead.cli.catalog.options import add_catalog
from fairlead.cli.degradation.options import add_degradation
from fairlead.cli.detect.options import add_detect
from fairlead.cli.experiments.options import add_compare, add_explain, add_report, add_sweep, add_tune
from fairlead.cli.models.options import add_models
from fairlead.cli.models.predict_options import add_calibrate, add_evaluate, add_predict
from fairlead.cli.models.profile_options import add_profile
from fairlead.cli.standard_streams import STANDARD_OUTPUT, note, prepare
from fairlead.cli.trace.options import add_trace
from fairlead.cli.train.options import add_train
from fairlead.domain.errors import NO_WORKING_FOLDER, RunError, UserError, as_typed, error_line, nearest
from fairlead.measure.interrupts import on_stop

_EXAMPLES = """\
examples:
  fairlead scenarios                               the scenarios that ship
  fairlead show full-edge                          a scenario, its sources and assumptions
  fairlead compare full-edge --seeds 5             all rules on the same seeds, with confidence intervals
  fairlead compare full-edge --set rate=100 --policies closest,load-balancing --json out.json
  fairlead sweep full-edge --param rate --values 20:120:20
  fairlead report out.json --plots plots           a page with plots, and the plots as PNG and SVG
  fairlead compare tapfinger-3 --seeds 50          the same for tasks on clusters (training jobs and the like)
  fairlead degradation simulate ecsrl              how models slow each other down on its devices
  fairlead train aset --scenario full-edge --out runs/mine        an agent that chooses the rule for each window
  fairlead explain ecsrl --policy ecsrl --at 30    why a learned policy decided as it did
  fairlead detect                                  the accelerators of this host
  fairlead profile model.onnx                      what a model is made of, and what it costs
  fairlead predict model.onnx --all                its time on all known devices
  fairlead calibrate                               this machine's rates, for predictions
  fairlead models                                  real models to try
  fairlead degradation measure a.onnx b.onnx       how models slow each other down on this machine
  fairlead trace convnet --cpu 1,2 --out traces    how fast a training is on 1 and on 2 CPUs
"""

_EXIT_CODES = """
exit codes:
  0     success
  1     the run failed: a full disk, a deleted folder, a process or policy that crashed
  2     wrong input; nothing was run
  130   interrupted by Ctrl-C, SIGTERM or SIGHUP; the last line says what is kept (`detect --watch` ends with 0)
"""


class _Parser(argparse.ArgumentParser):
    """Raises UserError instead of printing its usage. A command answers itself for what it does not know."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse has it, which leaves what is unknown to the parser of all commands."""
        if self._subparsers is not None:
            return super().parse_known_args(args, namespace)
        for text in itertools.takewhile(lambda text: text != "--", args):
            self._check_option(text)
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            self._refuse(rest[0])
        return found, rest

    def _check_option(self, text: str) -> None:
        name = text.partition("=")[0]
        if name.startswith("--") and " " not in text and name not in self._option_string_actions:
            hint = nearest(name, self._option_string_actions)
            self.error(f"unknown option {as_typed(name)}{hint if 'did you mean' in hint else ''}")

    def _refuse(self, text: str) -> None:
        """What is left over: one more than the positional arguments, or an option of one letter."""
        places = [action for action in self._actions if not action.option_strings]
        if text.startswith("-") or len(places) != 1 or places[0].nargs is not None:
            self.error(f"unknown argument {as_typed(text)}")
        self.error(f"{self.prog.partition(' ')[2]} takes one {places[0].metavar}, and {as_typed(text)} is one more")

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} (see {self.prog} --help)")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="fairlead",
        description="Fairlead decides where machine-learning work runs at the edge.",
        epilog=_EXAMPLES + _EXIT_CODES,
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
        add_trace,
        add_catalog,
    ):
        add(commands)
    return parser


#: Where each command is, as module:function below fairlead.cli; imported when it is run.
_RUN = {
    "compare": "experiments.compare:run_compare",
    "sweep": "experiments.compare:run_sweep",
    "report": "experiments.report:run_report",
    "tune": "experiments.tune:run_tune",
    "explain": "experiments.explain:run_explain",
    "degradation simulate": "degradation.simulate:run_simulate",
    "degradation measure": "degradation.measure:run_measure",
    "train": "train.agent_registry:run_train",
    "detect": "detect.command:run_detect",
    "profile": "models.profile:run_profile",
    "predict": "models.predict:run_predict",
    "calibrate": "models.calibrate:run_calibrate",
    "evaluate": "models.evaluate:run_evaluate",
    "models": "models.zoo:run_models",
    "trace": "trace.command:run_trace",
    "scenarios": "catalog.listing:run_scenarios",
    "policies": "catalog.listing:run_policies",
    "show": "catalog.listing:run_show",
}


#: Errors that a name has, wherever it is used; the machine is in order.
_OF_A_NAME = {errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTDIR}


def _run(arguments: list[str]) -> int:
    parser = _parser()
    command = next((a for a in arguments if not a.startswith("-")), None)
    known = {name.split()[0] for name in _RUN}
    if command is not None and command not in known:
        raise UserError(f"unknown command {command!r}{nearest(command, known)}")
    args = parser.parse_args(arguments)
    if args.command is None:
        parser.print_help()
        return 0
    name = " ".join([args.command, args.where] if "where" in args else [args.command])
    module, _, function = _RUN[name].partition(":")
    return int(getattr(import_module(f"fairlead.cli.{module}"), function)(args))


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the exit code, as `_EXIT_CODES` has them."""
    prepare()
    try:
        with on_stop(signal.default_int_handler):
            try:
                return _run(sys.argv[1:] if arguments is None else arguments)
            finally:
                sys.stdout.flush()  # here, where a reader that has gone is no error
    except UserError as error:
        return _told(error)
    except KeyboardInterrupt:
        note("fairlead: interrupted")
        return 130
    except BrokenPipeError:  # the reader of our output has gone, as `| head` does
        _silence()
        return 0
    except OSError as error:
        if error.filename == STANDARD_OUTPUT:
            _silence()
        return _told(_explained(error))
    except MemoryError:
        return _told(RunError("out of memory"))


def _told(error: UserError) -> int:
    """Say what is wrong; the exit code."""
    note(f"fairlead: {error_line(error)}")
    return error.exit_code


def _explained(error: OSError) -> UserError:
    """An error of the system as one of ours: of the input where a name or the working folder is at fault."""
    if error.filename is None and error.errno == errno.ENOENT and not _working_folder():
        return UserError(NO_WORKING_FOLDER)
    why = error.strerror or str(error)
    kind = UserError if error.errno in _OF_A_NAME else RunError
    return kind(f"{error.filename}: {why}" if error.filename else why)


def _working_folder() -> bool:
    try:
        return bool(os.getcwd())
    except FileNotFoundError:
        return False


def _silence() -> None:
    """Drop what waits to go to standard output, where it can't go."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
