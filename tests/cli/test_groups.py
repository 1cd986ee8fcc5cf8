"""Options declared as the fields of a dataclass are those of every command that takes it, and no others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from workbench.cli.groups import takes


@dataclass(frozen=True, kw_only=True)
class Where:
    place: Annotated[str, typer.Argument()]
    depth: Annotated[int, typer.Option(min=1)] = 3


@dataclass(frozen=True, kw_only=True)
class How:
    often: Annotated[list[int] | None, typer.Option()] = None
    loud: Annotated[bool, typer.Option("--loud")] = False


@pytest.fixture
def said():
    """What the commands below were called with."""
    return []


@pytest.fixture
def app(said):
    app = typer.Typer()

    @app.command()
    @takes(Where, How)
    def both(where: Where, how: How, own: Annotated[str, typer.Option()] = "x") -> None:
        """Do both."""
        said.append((where, how, own))

    @app.command()
    @takes(Where, but=("depth",))
    def fewer(where: Where, own: Annotated[str, typer.Argument()]) -> None:
        said.append((where, own))

    return app


@pytest.fixture
def invoke(app):
    return lambda *words: CliRunner().invoke(app, list(words))


def test_objects_are_made_of_what_is_given_and_of_defaults(invoke, said):
    assert invoke("both", "here").exit_code == 0
    words = ("--depth", "7", "--often", "1", "--often", "2", "--loud", "--own", "y")
    assert invoke("both", "there", *words).exit_code == 0
    assert said == [
        (Where(place="here"), How(), "x"),
        (Where(place="there", depth=7), How(often=[1, 2], loud=True), "y"),
    ]


def test_a_field_that_is_left_out_is_no_option_and_has_its_default(invoke, said):
    assert invoke("fewer", "here", "mine").exit_code == 0
    assert said == [(Where(place="here", depth=3), "mine")]
    assert invoke("fewer", "here", "mine", "--depth", "4").exit_code == 2


def test_what_a_field_allows_is_checked_and_what_it_requires_is_needed(invoke, said):
    assert invoke("both", "here", "--depth", "0").exit_code == 2
    assert invoke("both").exit_code == 2
    assert said == []


def test_options_come_in_the_order_of_their_fields_and_before_the_commands_own(app):
    command = typer.main.get_command(app).commands["both"]
    assert [each.name for each in command.params] == ["place", "depth", "often", "loud", "own"]
    assert command.help == "Do both."
