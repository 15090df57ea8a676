"""The settings of trainings as text: what --hyper changes and lists. No torch. Used by the command and `tapfinger`."""

from __future__ import annotations

import ast
import inspect
import math
from dataclasses import asdict, fields, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fairlead.domain.errors import UserError, nearest

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

#: Settings that have options of their own; those that are shares; whole numbers that may be 0, and others that may not.
_OPTIONS = (
    "objective",
    "energy_weight",
    "degradation_weight",
    "energy_weights",
    "degradation_weights",
    "target",
    "mix",
    "size",
    "ablation",
    "rates",
)
_SHARES = ("gamma", "gae_lambda", "epsilon_first", "epsilon_last", "exploration", "clip", "discount", "trace")
_MAY_BE_NONE = ("clone",)
_NEVER_NONE = ("budget_us",)
TAPFINGER_STEPS: Final = 500_000  #: Joint decisions in a training of TapFinger, by default.
S = TypeVar("S", bound="DataclassInstance")


def numbers(option: str, text: str, separator: str = ",") -> list[float]:
    """Numbers as an option has them."""
    try:
        found = [float(part) for part in text.split(separator)]
    except ValueError:
        found = []
    if not found or not all(math.isfinite(n) and n >= 0 for n in found):
        raise UserError(f"{option} {text}: expected numbers, such as {separator.join(('30', '60'))}")
    return found


def tuned(settings: S, changes: list[str]) -> S:
    """The settings with what --hyper changes."""
    for change in changes:
        name, equals, text = change.partition("=")
        known = {f.name: getattr(settings, f.name) for f in fields(settings)}
        if name in _OPTIONS and name in known:
            option = name if name == "rates" else name.removesuffix("s").replace("_", "-")
            raise UserError(f"--hyper {change}: this has an option of its own, --{option}")
        if name not in known:
            raise UserError(f"--hyper {change}: unknown setting{nearest(name, known)}; --hyper list shows them")
        try:
            value = _like(known[name], text) if equals else None
        except ValueError:
            value = None
        if value is None:
            raise UserError(f"--hyper {change}: expected {name}=VALUE, such as {name}={_as_text(known[name])}")
        _check_setting(name, value)
        settings = replace(settings, **{name: value})
    return settings


def _check_setting(name: str, value: Any) -> None:
    """Refuse numbers that nothing can be trained with."""
    for number in value if isinstance(value, tuple) else (value,):
        if isinstance(number, bool):
            continue
        if isinstance(number, int) and number < 1 and not (number == 0 and name in _MAY_BE_NONE):
            raise UserError(f"--hyper {name}={number}: expected a whole number from 1 on")
        if isinstance(number, float) and not (math.isfinite(number) and number >= 0):
            raise UserError(f"--hyper {name}={number:g}: expected a number from 0 on")
        if number == 0 and name in _NEVER_NONE:
            raise UserError(f"--hyper {name}={number:g}: expected a number above 0")
        if name in _SHARES and number > 1:
            raise UserError(f"--hyper {name}={number:g}: expected a share, from 0 to 1")


def _like(default: Any, text: str) -> Any:
    """The text as a value of the default's type."""
    if isinstance(default, bool):
        return {"true": True, "false": False}[text] if text in ("true", "false") else None
    if isinstance(default, tuple):
        return tuple(type(default[0])(part) for part in text.split(","))
    return type(default)(text)


def _as_text(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def list_settings(settings: Any) -> int:
    """Print the settings that --hyper can change, and what each means."""
    words = _meanings(type(settings))
    for name, value in asdict(settings).items():
        if name not in _OPTIONS:
            print(f"{f'{name}={_as_text(value)}':28}{words.get(name, '')}".rstrip())
    return 0


def _meanings(settings: type) -> dict[str, str]:
    """What the docstrings below the fields say."""
    (body,) = ast.parse(inspect.getsource(settings)).body
    assert isinstance(body, ast.ClassDef)
    return {
        field.target.id: " ".join(str(words.value.value).split())
        for field, words in pairwise(body.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(words, ast.Expr) and isinstance(words.value, ast.Constant)
    }
