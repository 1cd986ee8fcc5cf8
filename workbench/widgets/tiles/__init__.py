"""The tile tuner: what a configuration needs, how long it takes, and which one becomes the default.

- ``tuner``: the widget. ``session``: the same without a browser. ``state``, ``work``: what goes in.
- ``compiler``: kernels compiled beside the notebook. ``study``, ``journal``: studies run beside it, and read back.
- ``times``, ``known``: what is known of each configuration, and from where.
- ``scene``, ``plots``, ``frames``, ``words``, ``svg``: what is drawn. ``replies``, ``exports``: what is answered.
"""
