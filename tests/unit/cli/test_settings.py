"""Sources of settings, which source wins, and the errors of a setting that cannot be used."""

from pathlib import Path

import pytest
from tracline.cli.error import CommandError
from tracline.cli.settings import session_settings
from tracline.schemas.settings import SessionSettings


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_without_any_source_the_defaults_hold() -> None:
    """No file, no environment, no flag: the documented defaults."""
    assert session_settings() == SessionSettings(5, 60, 3600, 1, 60, ())


def test_a_later_source_wins(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is overridden by the environment, the environment by flags; a flag not given is None."""
    (folder / "tracline.toml").write_text(
        '[sessions]\nidle_s = 10\nskew_s = 11\ntick_s = 2\nscope = ["tenant"]\n'
    )
    monkeypatch.setenv("TRACLINE_SESSIONS_SKEW_S", "12.5")
    monkeypatch.setenv("TRACLINE_SESSIONS_TICK_S", "3")
    found = session_settings({"tick_s": 4, "idle_s": None})
    assert found == SessionSettings(idle_s=10, skew_s=12.5, tick_s=4, scope=("tenant",))


def test_scope_in_the_environment_is_divided_at_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list can be given as one variable."""
    monkeypatch.setenv("TRACLINE_SESSIONS_SCOPE", "tenant.id,service.name")
    assert session_settings().scope == ("tenant.id", "service.name")


def test_the_environment_can_name_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`TRACLINE_CONFIG` is read instead of tracline.toml, and must then exist."""
    (folder / "other.toml").write_text("[sessions]\nidle_s = 7\n")
    monkeypatch.setenv("TRACLINE_CONFIG", "other.toml")
    assert session_settings().idle_s == 7
    monkeypatch.setenv("TRACLINE_CONFIG", "missing.toml")
    with pytest.raises(CommandError, match=r"missing\.toml: TRL601 no such file"):
        session_settings()


@pytest.mark.parametrize(
    ("text", "code", "error"),
    [
        ("[sessions\n", "TRL610", "line 1"),
        ("[session]\nidle_s = 1\n", "TRL611", "unknown table or setting `session`"),
        ("[sessions]\nidel_s = 1\n", "TRL611", "did you mean `idle_s`"),
        ("[sessions]\nidle_s = -1\n", "TRL612", "idle_s"),
        ("[sessions]\nidle_s = inf\n", "TRL612", "idle_s"),
        ('[sessions]\nidle_s = "soon"\n', "TRL612", "idle_s"),
        ('[sessions]\nscope = ["tenant", ""]\n', "TRL612", "scope"),
        ("sessions = 5\n", "TRL612", "sessions"),
    ],
)
def test_a_wrong_file_is_refused_with_its_name(folder: Path, text: str, code: str, error: str) -> None:
    """The error has the file, a code, what is wrong, and a hint."""
    (folder / "tracline.toml").write_text(text)
    with pytest.raises(CommandError) as caught:
        session_settings()
    assert caught.value.message.startswith(f"tracline.toml: {code} ")
    assert error in caught.value.message
    assert "\n  hint: " in caught.value.message


def test_a_wrong_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown variable with the settings' prefix is as wrong as an unknown key."""
    monkeypatch.setenv("TRACLINE_SESSIONS_IDLE", "5")
    with pytest.raises(CommandError, match=r"the environment: TRL611 unknown setting `idle` in \[sessions\]"):
        session_settings()
