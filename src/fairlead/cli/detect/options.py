"""The options of `fairlead detect`. Imports nothing that `fairlead --help` can do without."""

from __future__ import annotations

from typing import Any

from fairlead.cli.options import command, number

_DETECT_EXAMPLES = """\
examples:
  fairlead detect                                    a table
  fairlead detect --json | jq .accelerators
  fairlead detect --root /host --labels              the host's, from inside a container that has it there
  fairlead detect --watch                            a line for each change
  fairlead detect --watch --nfd --output /etc/kubernetes/node-feature-discovery/features.d/fairlead
  fairlead detect --catalog mine.yaml                with devices of your own
"""


def add_detect(commands: Any) -> None:
    """`fairlead detect`."""
    detect = command(
        commands,
        "detect",
        "find the accelerators of this host",
        "Find the accelerators of this host by its device tree, USB, PCI and NVML, and show what they are, how they\n"
        "are attached and how busy they are. The command only reads. It tells missing hardware\n"
        "from places that it has no permission to read.",
        _DETECT_EXAMPLES,
    )
    form = detect.add_mutually_exclusive_group()
    form.add_argument("--json", dest="form", action="store_const", const="json", help="print everything as JSON")
    form.add_argument("--labels", dest="form", action="store_const", const="labels", help="print labels for Kubernetes")
    form.add_argument(
        "--nfd", dest="form", action="store_const", const="nfd", help="print a feature file for Node Feature Discovery"
    )
    detect.set_defaults(form="table")
    detect.add_argument("--output", metavar="FILE", help="write to FILE instead of standard output, in one step")
    detect.add_argument("--root", default="/", metavar="DIR", help="root folder of the host's files (default /)")
    detect.add_argument(
        "--catalog",
        action="append",
        default=[],
        metavar="FILE.yaml",
        help="a file with more devices, which come before the shipped ones",
    )
    detect.add_argument(
        "--watch", action="store_true", help="keep running and print changes, until Ctrl-C, SIGTERM or SIGHUP"
    )
    for name, default, words in (
        ("--static-every", 60.0, "look for hardware"),
        ("--dynamic-every", 5.0, "read load, temperature, clocks, memory and power"),
    ):
        detect.add_argument(
            name, type=number, default=default, metavar="S", help=f"{words} every S seconds (default {default:g})"
        )
    detect.add_argument(
        "--keep",
        type=number,
        default=300.0,
        metavar="S",
        help="keep removed hardware in the output for S seconds (default 300)",
    )
