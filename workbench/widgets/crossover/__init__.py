"""The crossover tuner: which router product for how many rows, and what a rule costs.

- ``tuner``: the widget. ``session``: the same without a browser. ``live``: measuring beside the notebook.
- ``figures``, ``traffic``, ``rule``: what goes in. ``pricing``, ``board``: what rules cost.
- ``scene``, ``words``, ``styles``, ``frames``, ``svg``: what is drawn. ``replies``, ``exports``: what is answered.
"""
