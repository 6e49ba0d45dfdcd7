"""Prediction: detectors of risen rates, estimates from counts, and the probabilities of Markov chains. Pure.

The names below are the Python API. Each is imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .error import PredictError
    from .estimation.sample_size import pac_local
    from .estimation.smoothing import laplace
    from .sampling.asker import Asker
    from .sampling.endpoint import ModelEndpoint
    from .sampling.sampler import Sampler

__all__ = ["Asker", "ModelEndpoint", "PredictError", "Sampler", "laplace", "pac_local"]

_MODULES = {
    "Asker": ".sampling.asker",
    "ModelEndpoint": ".sampling.endpoint",
    "PredictError": ".error",
    "laplace": ".estimation.smoothing",
    # Not among the names above: the folder `predict/folder/` imports this one.
    "load_chain": ".folder.load",
    "Sampler": ".sampling.sampler",
    "pac_local": ".estimation.sample_size",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name], __name__), name)
