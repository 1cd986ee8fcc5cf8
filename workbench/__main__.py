"""``python -m workbench``: the command line, for where the ``workbench`` script is not on the path."""

from __future__ import annotations

from workbench.cli import main

main()
