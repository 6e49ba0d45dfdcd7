"""Options of prediction that are numbers: `nan` is none, though click takes it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from tracline.cli import tracline


@pytest.mark.parametrize(
    "args",
    [
        "predict learn {0} --rules customer-service --out {0}/out --hold-out nan",
        "predict learn {0} --rules customer-service --out {0}/out --confidence nan",
        "predict score {0} {0} --miss nan",
        "predict sample {0} --session a --rules customer-service --model http://a/v1 --temperature nan",
        "audit {0} --rules customer-service --out {0}/out --predict {0} --above nan",
        "serve --rules customer-service --predict {0} --above nan",
        "stream monitor --rules customer-service --predict {0} --above nan",
    ],
)
def test_nan_is_a_usage_error(tmp_path: Path, args: str) -> None:
    """A threshold or a share that compares with nothing would switch off what it is to decide."""
    done = CliRunner().invoke(tracline, args.format(tmp_path).split())
    assert done.exit_code == 2
    assert "Invalid value for '--" in done.output
    assert not (tmp_path / "out").exists()
