"""The browser side of a widget as one module: plain files put together, no build step, nothing from the network.

A widget's script is written as several ES modules that import each other by file. A notebook takes one text, so each
file becomes a function with its own scope that returns what it exports; import lines become destructuring.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.resources import files

_IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./([a-z_]+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const) (\w+))", re.MULTILINE)
_DEFAULT = re.compile(r"^export default (?=\{)", re.MULTILINE)


def text(name: str) -> str:
    """One file of ``workbench/widgets/static``."""
    return files("workbench.widgets").joinpath("static", name).read_text(encoding="utf-8")


def module(names: Sequence[str]) -> str:
    """Join ES modules into one.

    Parameters
    ----------
    names
        Files, each after those that it imports; the last one has the default export that the notebook calls.
    """
    parts = [_scope(name) for name in names]
    last = names[-1].removesuffix(".js")
    return "\n".join([*parts, f"export default file_{last}.default;\n"])


def _scope(name: str) -> str:
    source = text(name)
    exports = [match.group(1) for match in _EXPORT.finditer(source)]
    body = _IMPORT.sub(r"const \1 = file_\2;", source)
    body = _EXPORT.sub("", body)
    if _DEFAULT.search(body):
        body = _DEFAULT.sub("const exported = ", body)
        exports.append("default: exported")
    scope = f"const file_{name.removesuffix('.js')} = (() => {{ // {name}"
    return f"{scope}\n{body}\nreturn {{ {', '.join(exports)} }};\n}})();"
