"""The options of `fairlead detect`. Imports nothing that `fairlead --help` can do without."""

from __future__ import annotations

from typing import Any

from fairlead.cli.options import command

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
        "find out what accelerators this host has",
        "Find the accelerators of this host by its device tree, USB, PCI and NVML, and tell what they are, how they\n"
        "are attached and what they do now. Reads only; what it may not read is told apart from what is not there.",
        _DETECT_EXAMPLES,
    )
    form = detect.add_mutually_exclusive_group()
    form.add_argument("--json", dest="form", action="store_const", const="json", help="all of it, for programs")
    form.add_argument("--labels", dest="form", action="store_const", const="labels", help="labels for Kubernetes")
    form.add_argument("--nfd", dest="form", action="store_const", const="nfd", help="a file for Node Feature Discovery")
    detect.set_defaults(form="table")
    detect.add_argument("--output", metavar="FILE", help="write it there, whole or not at all")
    detect.add_argument("--root", default="/", metavar="DIR", help="the host's files are below it (default /)")
    detect.add_argument(
        "--catalog", action="append", default=[], metavar="FILE.yaml", help="more devices; they go before ours"
    )
    detect.add_argument("--watch", action="store_true", help="go on until Ctrl-C, SIGTERM or SIGHUP")
    for name, default, words in (
        ("--static-every", 60.0, "look for hardware"),
        ("--dynamic-every", 5.0, "read load, temperature, clocks, memory and power"),
    ):
        detect.add_argument(
            name, type=float, default=default, metavar="S", help=f"{words} every S seconds (default {default:g})"
        )
    detect.add_argument(
        "--keep",
        type=float,
        default=300.0,
        metavar="S",
        help="remember hardware that is gone for S seconds (default 300)",
    )
