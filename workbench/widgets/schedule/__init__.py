"""The schedule explorer, in parts.

- ``explorer``: the widget; ``session``: its state and what follows from it, without a browser.
- ``measured``, ``timelines``, ``summary``, ``residual``: timelines laid beside plans.
- ``recorded``, ``figures``: what records hold of the workload on screen.
- ``side``: one evaluated plan; ``sentence``: the answer in words and numbers; ``panel``, ``scene``: what is drawn.
- ``card``: what is said about one chunk; ``strip``: all steps of a trace; ``svg``, ``export``: the screen as files.
"""
