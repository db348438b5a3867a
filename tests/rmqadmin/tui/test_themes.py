"""The user's own themes, and the theme that was chosen last."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.color import Color

from rmqadmin.tui.remembered import read_remembered
from rmqadmin.tui.themes import DARK, read_themes, themes_dir
from tests.rmqadmin.tui.fixed import FixedClient
from tests.rmqadmin.tui.opened import Driver, drive
from tests.rmqadmin.tui.painted import painted


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    themes_dir().mkdir(parents=True)
    return themes_dir()


@pytest.mark.slow
def test_a_theme_of_ones_own_is_chosen_and_kept_and_a_bad_one_is_told(folder: Path, said: list[str]) -> None:
    (folder / "mine.toml").write_text('primary = "#102030"\nbackground = "white"\ndark = false\n')
    (folder / "broken.toml").write_text("primary = ")

    async def choose(driver: Driver) -> None:
        await driver.until(lambda: any("broken.toml" in text for text in said))
        assert "broken" not in driver.app.available_themes
        before = driver.app.theme
        driver.app.theme = "mine"
        await driver.until(lambda: read_remembered().theme == "mine")
        assert before != "mine"
        assert driver.app.current_theme.background == "white"

    async def look_again(driver: Driver) -> None:
        await driver.until(lambda: driver.app.theme == "mine")
        (folder / "mine.toml").unlink()

    async def without(driver: Driver) -> None:
        await driver.until(lambda: "the theme mine no longer exists" in said)
        assert driver.app.theme != "mine"
        assert read_remembered().theme == "mine", "it may come back"

    for test in (choose, look_again, without):
        drive(FixedClient, test)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("primary = 3", "primary = 3 is not a colour"),
        ('primary = "very red"', "primary = 'very red' is not a colour"),
        ('accent = "red"', "primary is missing"),
        ('primary = "red"\ndark = "no"', "dark must be true or false"),
        ('primary = "red"\nprimray = "red"', "primray is unknown"),
        ("[[", "bad.toml: "),
    ],
)
def test_what_is_wrong_with_a_file(folder: Path, text: str, said: str) -> None:
    (folder / "bad.toml").write_text(text)
    (folder / "good.toml").write_text('primary = "red"')
    themes, problems = read_themes(folder)
    assert [theme.name for theme in themes] == ["good"]
    assert len(problems) == 1
    assert "bad.toml" in problems[0]
    assert said in problems[0]


@pytest.mark.slow
async def test_the_first_screen_has_the_colours_of_the_theme(driver: Driver) -> None:
    """It had those of Textual's own, until another screen was opened."""
    await driver.until_shown("h Pulse")
    await driver.until(lambda: Color.parse(DARK.background or "") in {ground for *_, ground in painted(driver)})
