"""Finds the policies of third parties, of requests and of tasks, by the entry points of their packages."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from importlib import metadata
from typing import Any

from fairlead.domain.errors import one_line


def load_policies(group: str, noun: type[Any], taken: Container[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """What packages name in a group, by name, and what went wrong with the rest (entry point -> one line).

    `noun` is what a policy there must be, a dataclass with a name and a package; no name may be taken.
    """
    found: dict[str, Any] = {}
    broken: dict[str, str] = {}
    for entry in sorted(metadata.entry_points(group=group), key=lambda e: e.name):
        package = entry.dist.name if entry.dist else entry.value
        try:
            value = entry.load()
        except (Exception, SystemExit) as error:  # third-party code: whatever it raises is reported, ours goes on
            broken[entry.name] = f"policy {entry.name!r} of {package!r} did not load: {one_line(error)}"
            continue
        if not isinstance(value, noun):
            wanted = {"Policy": "@policy", "TaskPolicy": "@task_policy"}[noun.__name__]
            broken[entry.name] = f"policy {entry.name!r} of {package!r} is a {type(value).__name__}, not a {wanted}"
        elif value.name in taken or value.name in found:
            broken[entry.name] = f"policy {value.name!r} of {package!r} has a name that is taken"
        else:
            found[value.name] = replace(value, package=package)
    return found, broken
