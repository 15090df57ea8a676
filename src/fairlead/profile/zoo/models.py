"""The zoo: real models that users and tests name, from packages of the extra `models`. Data: `zoo.yaml`.

Packages are found, never imported. A file that is ONNX already is used where it lies; another is turned into ONNX on
first use and kept in the user's cache. Every file is checked by its sum. Commands that take a model call `find_model`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import yaml

from fairlead.domain.errors import UserError, how_to_install, nearest, one_line
from fairlead.inputs.read_files import read_bytes
from fairlead.measure.user_folders import temporary_folder, user_cache
from fairlead.measure.write_files import check_folder, write_whole
from fairlead.profile.onnx_file import import_onnx

_DATA = Path(__file__).with_name("zoo.yaml")
_MOST_MB = 2000
_FORM = 1  # of what the converters make: another number, and everything is made anew


@dataclass(frozen=True, kw_only=True)
class ZooModel:
    """An entry of the zoo."""

    name: str
    package: str  # on PyPI
    version: str  # of the package, from which the sum is
    file: str  # inside of it
    sha256: str  # of the file
    task: str
    licence: str
    accuracy: float | None = None  # 0..1, where it is known
    measured_by: str = ""  # what the accuracy is a share of
    source: str = ""  # of the accuracy
    sizes: Mapping[str, int] = field(default_factory=dict)  # of inputs that the file leaves open, as in --size
    convert: Mapping[str, Any] = field(default_factory=dict)  # `by`: a converter; the rest goes to it

    @property
    def pip(self) -> str:
        """How to get its package."""
        return f"pip install '{self.package}=={self.version}'"

    def where(self) -> Path | None:
        """Its file in the package, if that is installed; whether it is the right file, `find` sees."""
        try:
            path = Path(str(distribution(self.package).locate_file(self.file)))
        except PackageNotFoundError:
            return None
        return path if path.is_file() else None


@cache
def zoo() -> dict[str, ZooModel]:
    """All entries by name."""
    found: dict[str, dict[str, Any]] = yaml.safe_load(_DATA.read_text())
    return {name: ZooModel(name=name, **entry) for name, entry in found.items()}


def find_model(name_or_path: str, lasting: bool = False) -> tuple[Path, dict[str, int]]:
    """The ONNX file that is meant, and the sizes of its open inputs unless others are given.

    What is a file, or ends in .onnx, is a path; all else is a name of the zoo. Where the user's cache can't be written,
    a file that has to be made is there until the process ends, or with `lasting` is an error.
    """
    path = Path(name_or_path)
    if path.suffix == ".onnx" or path.is_file():
        return path, {}
    if name_or_path not in zoo():
        raise UserError(
            f"{name_or_path}: neither a file nor a model of `fairlead models`{nearest(name_or_path, zoo())}"
        )
    model = zoo()[name_or_path]
    return _file(model, lasting), dict(model.sizes)


def _file(model: ZooModel, lasting: bool) -> Path:
    source = model.where()
    if source is None:
        raise UserError(
            f"{model.name}: its package is not installed: {model.pip}, or for all: {how_to_install('models')}"
        )
    content = read_bytes(source, _MOST_MB)
    if _sum(content) != model.sha256:
        raise UserError(f"{model.name}: {source} is not the file of {model.package} {model.version}: {model.pip}")
    return _converted(model, content, lasting) if model.convert else source


def _converted(model: ZooModel, content: bytes, lasting: bool) -> Path:
    """The ONNX file in the cache, made when it is not there as it was written; its sum lies beside it."""
    cache = user_cache()
    folder = cache / "models" / f"{model.sha256[:12]}-{_FORM}" if cache else None
    if folder and _is_whole(path := folder / f"{model.name}.onnx"):
        return path
    import_onnx()
    folder = _writable(folder, lasting)
    settings = dict(model.convert)
    try:
        made = _CONVERTERS[settings.pop("by")](content, **settings)
    except Exception as error:  # the sum was right, so our converter is not
        raise UserError(f"{model.name}: can't be turned into ONNX: {one_line(error)}") from error
    path = folder / f"{model.name}.onnx"
    write_whole(path, made)
    write_whole(_recorded(path), _line(made, path.name))
    return path


def _recorded(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _is_whole(path: Path) -> bool:
    try:
        return _recorded(path).read_text() == _line(path.read_bytes(), path.name)
    except (OSError, ValueError):
        return False


def _writable(folder: Path | None, lasting: bool) -> Path:
    """The folder, made if need be; where it can't be written, a temporary one, if that will do."""
    try:
        if folder is None:
            raise UserError("there is no home folder to keep the model in: set XDG_CACHE_HOME to a folder")
        check_folder(folder)
    except UserError:
        if lasting:
            raise
        return temporary_folder()
    return folder


def _line(content: bytes, name: str) -> str:
    """As `sha256sum --check` reads it."""
    return f"{_sum(content)}  {name}\n"


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _efficientnet_lite(content: bytes, size: int) -> bytes:
    from fairlead.profile.zoo.efficientnet_lite import efficientnet_lite
    from fairlead.profile.zoo.torch_file import read_tensors

    return efficientnet_lite(read_tensors(content), size)


_CONVERTERS: dict[str, Callable[..., bytes]] = {"efficientnet-lite": _efficientnet_lite}
