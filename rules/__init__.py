"""Rules: the rule language, its semantics, the compiler to machines and the kernel that runs them. Pure.

The names below are the Python API. Each is imported on first use, so that importing one does not load the
others.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..schemas.verdict import Recover, Severity, Verdict
    from .comparison.compare import Difference, compare
    from .compiler.compile import compile_rule
    from .engine.monitor import Monitor
    from .explanation.rule_status import explain
    from .model.problem import RuleError
    from .model.rule import Rule, RuleSet
    from .packs.load import load_packs

__all__ = [
    "Difference",
    "Monitor",
    "Recover",
    "Rule",
    "RuleError",
    "RuleSet",
    "Severity",
    "Verdict",
    "compare",
    "compile_rule",
    "explain",
    "load_packs",
]

_MODULES = {
    "Difference": ".comparison.compare",
    "Monitor": ".engine.monitor",
    "Recover": "..schemas.verdict",
    "Rule": ".model.rule",
    "RuleError": ".model.problem",
    "RuleSet": ".model.rule",
    "Severity": "..schemas.verdict",
    "Verdict": "..schemas.verdict",
    "compare": ".comparison.compare",
    "compile_rule": ".compiler.compile",
    "explain": ".explanation.rule_status",
    "load_packs": ".packs.load",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name], __name__), name)
