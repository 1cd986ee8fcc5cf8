"""``python -m workbench``: the command line, for where the ``workbench`` script is not on the path."""

from __future__ import annotations

from workbench.cli import main

if __name__ == "__main__":  # worker processes import this module under another name
    main()
