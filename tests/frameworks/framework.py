"""The frameworks that are run, from `frameworks.toml`, and the environment that each has to itself."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FILE = HERE / "frameworks.toml"
ENVIRONMENTS = ROOT / ".frameworks"


@dataclass(frozen=True)
class Framework:
    """A framework with an instrumentation of it, as `frameworks.toml` describes them."""

    name: str
    title: str
    driver: str
    packages: tuple[str, ...]
    content: str
    session: str
    missing: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    expect: Mapping[str, Any] = field(default_factory=dict)
    script: Mapping[str, Any] = field(default_factory=dict)
    environment: str = ""

    @property
    def is_node(self) -> bool:
        """Return whether the driver runs in Node."""
        return self.driver.endswith(".mjs")

    @property
    def folder(self) -> Path:
        """The folder of its environment, which `environment` shares with a framework of the same packages."""
        return ENVIRONMENTS / (self.environment or self.name)

    @property
    def versions(self) -> dict[str, str]:
        """The version of each package that is pinned."""
        pairs = (package.rpartition("@" if self.is_node else "==") for package in self.packages)
        return {name.split("[")[0]: version for name, _, version in pairs}


def frameworks(names: str = "") -> list[Framework]:
    """Return the frameworks of the file: those named, else all. Raises KeyError for an unknown name."""
    data = tomllib.loads(FILE.read_text())
    return [
        Framework(name, packages=tuple(data[name].pop("packages")), **data[name])
        for name in names.split() or list(data)
    ]


def set_up(framework: Framework) -> None:
    """Install the framework's packages in an environment of its own, unless they are there already."""
    pinned = "\n".join(framework.packages) + "\n"
    ready = framework.folder / ".ready"
    if ready.exists() and ready.read_text() == pinned:
        return
    framework.folder.mkdir(parents=True, exist_ok=True)
    if framework.is_node:
        (framework.folder / "package.json").write_text('{"private": true, "type": "module"}\n')
        options = ["--no-audit", "--no-fund", "--save-exact", "--silent"]
        subprocess.run(["npm", "install", *options, *framework.packages], cwd=framework.folder, check=True)
    else:
        if not (framework.folder / "bin" / "python").exists():
            subprocess.run([sys.executable, "-m", "venv", str(framework.folder)], check=True)
        pip = [str(framework.folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-compile"]
        subprocess.run([*pip, *framework.packages], check=True)
    ready.write_text(pinned)


def command(framework: Framework) -> list[str]:
    """Return the command that runs the framework's driver."""
    driver = HERE / "drivers" / framework.driver
    if framework.is_node:
        # Node looks for packages beside the program that it runs.
        for file in driver.parent.glob("*.mjs"):
            (framework.folder / file.name).write_bytes(file.read_bytes())
        return ["node", str(framework.folder / driver.name)]
    return [str(framework.folder / "bin" / "python"), str(driver)]
