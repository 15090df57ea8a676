"""Real architectures to try the analyser and prediction on: torchvision's, with random weights, as ONNX files.

Speed and size don't depend on what the weights are. Counts of parameters and MACs are those that torchvision publishes
with its weights. Used by benchmarks and by tests; needs the packages of `dev`.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from functools import cached_property
from pathlib import Path
from typing import Any

#: Architectures by family, small and large, old and new.
FAMILIES = {
    "alexnet": ("alexnet",),
    "convnext": ("convnext_tiny",),
    "densenet": ("densenet121", "densenet169"),
    "efficientnet": ("efficientnet_b0", "efficientnet_b1", "efficientnet_v2_s"),
    "googlenet": ("googlenet", "inception_v3"),
    "mnasnet": ("mnasnet0_5", "mnasnet1_0", "mnasnet1_3"),
    "mobilenet": ("mobilenet_v2", "mobilenet_v3_small", "mobilenet_v3_large"),
    "regnet": ("regnet_y_400mf", "regnet_x_800mf", "regnet_y_1_6gf"),
    "resnet": ("resnet18", "resnet34", "resnet50"),
    "resnext": ("resnext50_32x4d", "wide_resnet50_2"),
    "shufflenet": ("shufflenet_v2_x0_5", "shufflenet_v2_x1_0", "shufflenet_v2_x2_0"),
    "squeezenet": ("squeezenet1_0", "squeezenet1_1"),
    "transformer": ("vit_b_32", "swin_t"),
    "vgg": ("vgg11", "vgg16_bn"),
}
NAMES = tuple(name for names in FAMILIES.values() for name in names)


class Architecture:
    """One of them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.family = next(family for family, names in FAMILIES.items() if name in names)

    @cached_property
    def _weights(self) -> Any:
        from torchvision.models import get_model_weights

        return get_model_weights(self.name).DEFAULT

    @property
    def side(self) -> int:
        """Of the square picture that it is published for."""
        return int(self._weights.transforms().crop_size[0])

    @property
    def parameters(self) -> int:
        """As published; of a model with auxiliary heads it includes them."""
        return int(self._weights.meta["num_params"])

    @property
    def macs(self) -> float:
        """As published, without auxiliary heads."""
        return float(self._weights.meta["_ops"]) * 1e9

    def module(self) -> Any:
        """It, in torch, with weights drawn from a fixed seed, all different: an exporter joins those that are equal."""
        import torch
        from torchvision.models import get_model

        auxiliary = {"init_weights": False} if self.family == "googlenet" else {}
        made = get_model(self.name, weights=None, **auxiliary).eval()
        draw = torch.Generator().manual_seed(0)
        for parameter in made.parameters():
            parameter.data = 0.05 * torch.randn(parameter.shape, generator=draw)
        return made

    def onnx(self, folder: Path) -> Path:
        """The file in this folder, made when it is not there yet. Nothing is folded, so all parameters are there."""
        import torch

        path = folder / f"{self.name}.onnx"
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            sample = torch.zeros(1, 3, self.side, self.side)
            with warnings.catch_warnings(), tempfile.TemporaryDirectory(dir=folder) as making:
                warnings.simplefilter("ignore")
                preserve = torch.onnx.TrainingMode.PRESERVE
                file = str(Path(making) / "model.onnx")
                torch.onnx.export(
                    self.module(), (sample,), file, dynamo=False, training=preserve, do_constant_folding=False
                )
                os.replace(file, path)
        return path
