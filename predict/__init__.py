"""Prediction: detectors of risen rates, estimates from counts, and the probabilities of Markov chains. Pure.

The names below are the Python API. Each is imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .error import PredictError
    from .estimation.sample_size import pac_local
    from .estimation.smoothing import laplace

__all__ = ["PredictError", "laplace", "pac_local"]

_MODULES = {
    "PredictError": ".error",
    "laplace": ".estimation.smoothing",
    "pac_local": ".estimation.sample_size",
    # Not among the names above: their folders import this one.
    "Asker": ".sampling.asker",
    "ModelEndpoint": ".sampling.endpoint",
    "Sampler": ".sampling.sampler",
    "learn": ".learning.learn",
    "load_chain": ".folder.load",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name], __name__), name)
