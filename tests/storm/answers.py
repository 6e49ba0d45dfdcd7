"""The answers of the model checker Storm to tasks on standard input, a line each.

It runs in an environment of its own, which has `stormpy` and nothing of tracline. A task has the text of a
`model`, its `suffix`, a `property`, and `values`: `exact`, `double`, `least` or `greatest`.
"""

import json
import sys
import tempfile
from pathlib import Path

import stormpy
from stormpy import io

MODES = {
    "least": stormpy.UncertaintyResolutionMode.MINIMIZE,
    "greatest": stormpy.UncertaintyResolutionMode.MAXIMIZE,
}


def answer(task: dict[str, str], folder: Path) -> list[str]:
    """Return the probability of each state, as text."""
    path = folder / f"model{task['suffix']}"
    path.write_text(task["model"])
    wanted = stormpy.parse_property(task["property"])
    if task["values"] in MODES:
        model = stormpy.build_model_from_drn[stormpy.Interval](str(path))
        mode = MODES[task["values"]]
        result = stormpy.model_checking(
            model, wanted, only_initial_states=False, uncertainty_resolution_mode=mode
        )
    elif task["values"] == "exact":
        model = stormpy.build_model_from_drn[stormpy.Rational](str(path))
        environment = stormpy.environments.exact()
        result = stormpy.model_checking(model, wanted, only_initial_states=False, environment=environment)
    elif task["suffix"] == ".drn":
        model = stormpy.build_model_from_drn[float](str(path))
        result = stormpy.model_checking(model, wanted, only_initial_states=False)
    elif task["suffix"] == ".tra":
        (folder / "model.lab").write_text(task["labels"])
        model = stormpy.build_model_from_explicit(str(path), str(folder / "model.lab"))
        result = stormpy.model_checking(model, wanted, only_initial_states=False)
    else:
        model = stormpy.build_model[float](io.parse_prism_program(str(path)))
        result = stormpy.model_checking(model, wanted, only_initial_states=False)
    return [str(result.get_value(state)) for state in range(model.nr_states)]


def main() -> None:
    """Answer all tasks."""
    with tempfile.TemporaryDirectory() as folder:
        for line in sys.stdin:
            print(json.dumps(answer(json.loads(line), Path(folder))), flush=True)


main()
