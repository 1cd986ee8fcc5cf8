"""What the lessons need beside the explorer.

- :class:`Prediction` (``prediction``): asks for a guess before it shows the answer.
- :func:`picture` (``picture``): a plan of few CTAs, drawn large enough to count its tiles.
- :func:`curves` (``curves``): numbers over a knob, as lines.
"""

from workbench.widgets.lesson.curves import curves
from workbench.widgets.lesson.picture import Picture, picture
from workbench.widgets.lesson.prediction import Prediction

__all__ = ["Picture", "Prediction", "curves", "picture"]
