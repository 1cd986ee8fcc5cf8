"""The main job without a notebook: a trace in, one self-contained HTML page out.

- ``kernel``: for which kernel and GPU; ``analysis``: every number of the report, as :class:`Analysis`.
- ``parallel``: the sweep on several processes (``workers``: processes that end with the work).
- ``figures``: strip, curve and histogram as SVG; ``page``: the HTML around them (``templates/``).
"""
