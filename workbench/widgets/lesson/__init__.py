"""What the lessons need beside the explorer.

- :class:`Prediction` (``prediction``): asks for a guess before it shows the answer.
- :func:`picture` (``picture``): a plan of few CTAs, drawn large enough to count its tiles.
- :func:`curves` (``curves``): numbers over a knob, as lines.
- :func:`dots` (``dots``): times of many contenders on several batches, each with its interval and its source.
- :func:`stacks` (``stacks``): where the time of a call goes, as bars made of parts.
- :func:`scatter` (``scatter``): points and straight lines through them.
- :func:`rank` (``ranking``): schedulers run on the kernel where there is a GPU, predicted where there is none.
- ``drawing``: what the drawings share.
"""

from workbench.widgets.lesson.curves import curves
from workbench.widgets.lesson.dots import Dot, dots
from workbench.widgets.lesson.drawing import Picture
from workbench.widgets.lesson.picture import picture
from workbench.widgets.lesson.prediction import Prediction
from workbench.widgets.lesson.ranking import Ranking, rank
from workbench.widgets.lesson.scatter import scatter
from workbench.widgets.lesson.stacks import stacks

__all__ = ["Dot", "Picture", "Prediction", "Ranking", "curves", "dots", "picture", "rank", "scatter", "stacks"]
