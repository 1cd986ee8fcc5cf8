"""A question that wants a guess before it shows its answer."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import ipywidgets as widgets

from workbench.errors import InvalidArgument

Answer: TypeAlias = float | int | str

CLOSE = 0.1
"""A guess within this share of the answer is called close."""


class Prediction(widgets.VBox):  # type: ignore[misc]  # ipywidgets publishes no types
    """Asks for a number or a choice; then computes the answer, compares, and shows why.

    The answer is computed when it is revealed, not before, so that it is nowhere on the page until then.

    Parameters
    ----------
    question : str
        HTML.
    answer : callable
        Returns a number, or one of ``choices``.
    why : callable, optional
        Returns what is shown below the answer: HTML text, widgets, objects with ``_repr_html_``, or a list of these.
    choices : sequence of str, optional
        The guess is one of them; a number is asked for without.
    unit : str
        Of the number.

    Raises
    ------
    InvalidArgument
        When ``choices`` holds fewer than two.
    """

    def __init__(
        self,
        question: str,
        answer: Callable[[], Answer],
        why: Callable[[], Any] | None = None,
        *,
        choices: Sequence[str] | None = None,
        unit: str = "",
    ) -> None:
        if choices is not None and len(choices) < 2:
            raise InvalidArgument(f"choices are {list(choices)}. Give two or more, or none to ask for a number.")
        self._compute, self._why = answer, why
        self._choices = list(choices) if choices is not None else None
        self._unit = unit
        self.answer: Answer | None = None
        self._guess: Any
        if self._choices:
            self._guess = widgets.ToggleButtons(options=self._choices, value=None, style={"button_width": "auto"})
            self._guess.observe(lambda _: self._enable(), "value")
        else:
            self._guess = widgets.Text(placeholder="your guess", layout={"width": "9em"})
            self._guess.observe(lambda _: self._enable(), "value")
        self._button = widgets.Button(
            description="Reveal", disabled=True, tooltip="Guess first", layout={"width": "7em"}
        )
        self._button.on_click(lambda _: self._reveal())
        self._verdict = widgets.HTML()
        asked = widgets.HTML(f'<div style="max-width: 52em; line-height: 1.5"><b>Predict.</b> {question}</div>')
        row = [self._guess, *([widgets.HTML(html.escape(unit))] if unit else []), self._button]
        line = widgets.HBox(row, layout={"flex_flow": "row wrap", "align_items": "center"})
        self._asked = [asked, line, self._verdict]
        super().__init__(
            children=self._asked, layout={"padding": "6px 0 10px 12px", "border_left": "3px solid #0b6bcb"}
        )

    @property
    def revealed(self) -> bool:
        """Whether the answer is on screen."""
        return self.answer is not None

    @property
    def verdict(self) -> str:
        """What is said about the guess, HTML; empty before."""
        return str(self._verdict.value)

    def submit(self, guess: Answer) -> None:
        """Guess, and reveal the answer, as a reader does with the keyboard.

        Raises
        ------
        InvalidArgument
            When the guess is not a number, or not among the choices.
        """
        if self._choices and guess not in self._choices:
            raise InvalidArgument(f"the guess is {guess!r}. Choose one of {', '.join(self._choices)}.")
        if not self._choices and _number(guess) is None:
            raise InvalidArgument(f"the guess is {guess!r}. Give a number.")
        self._guess.value = guess if self._choices else str(guess)
        self._reveal()

    def _enable(self) -> None:
        value = self._guess.value
        self._button.disabled = value is None if self._choices else _number(value) is None

    def _reveal(self) -> None:
        if self._button.disabled:
            return
        self.answer = self._compute()
        said = self._said(self._guess.value)
        self._verdict.value = f'<div style="max-width: 52em; line-height: 1.5">{said}</div>'
        self.children = [*self._asked, *_shown(self._why() if self._why else [])]

    def _said(self, guess: Any) -> str:
        if self._choices:
            right = f"<b>{html.escape(str(self.answer))}</b>"
            return f"Right: {right}." if guess == self.answer else f"You chose {html.escape(guess)}; it is {right}."
        number, answer = _number(guess), float(self.answer or 0)
        if number is None:
            raise AssertionError("the button is disabled without a number")
        told = f"You said {_written(number)}{self._after()}. It is <b>{_written(answer)}{self._after()}</b>"
        if abs(number - answer) <= CLOSE * abs(answer):
            return f"{told}: {'exactly' if number == answer else 'close'}."
        if number > 0 and answer > 0:
            way, factor = ("low", answer / number) if answer > number else ("high", number / answer)
            return f"{told}; your guess is {_written(factor)} times too {way}."
        return f"{told}."

    def _after(self) -> str:
        return f" {html.escape(self._unit)}" if self._unit else ""


def _number(text: object) -> float | None:
    try:
        value = float(str(text).strip().removesuffix("%").replace(",", ""))
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None


def _written(value: float) -> str:
    if value == round(value):
        return f"{value:,.0f}"
    if abs(value) < 0.1:
        return f"{value:.2g}"
    return f"{value:.2f}" if abs(value) < 10 else f"{value:,.1f}"


def _shown(what: Any) -> list[widgets.Widget]:
    items: Iterable[Any] = what if isinstance(what, (list, tuple)) else [what]
    shown = []
    for item in items:
        if isinstance(item, widgets.Widget):
            shown.append(item)
        elif isinstance(item, str):
            shown.append(widgets.HTML(f'<div style="max-width: 52em; line-height: 1.5">{item}</div>'))
        else:
            shown.append(widgets.HTML(item._repr_html_()))
    return shown
