"""Dispatch tables of the router product: plain data that choose a provider by the number of rows M.

============== ========================================================================================
`precision`    `CLASSES`: how far scores may be from exact ones
`models`       `MODELS`: routers of the models this project is about; `parse_shape`
`choice`       `Choice`: a provider for every M, the common form of tables, thresholds and constants
`dispatch`     `DispatchTable`: a saved table with all that it rests on
`files`        `load_table`, `save_table`, `find_table`: where tables lie
`providers`    `ROUTER_PROVIDERS`, `Dispatch`: names, and what ``router_gemm(provider="auto")`` asks
`sglang`       `SGLANG`: the table that SGLang uses; read and written in its form
`module`       `module_source`: tables as a Python module that needs nothing else
============== ========================================================================================
"""

from __future__ import annotations

from workbench.tables.choice import Choice
from workbench.tables.dispatch import DispatchTable, RegretNote, Span, TrafficNote, same_gpu
from workbench.tables.files import find_table, forget_tables, load_table, save_table, table_path
from workbench.tables.models import MODELS, RouterModel, parse_shape
from workbench.tables.module import module_source
from workbench.tables.precision import CLASSES, allows, check_class, class_of
from workbench.tables.providers import ROUTER_PROVIDERS, Dispatch, RouterProvider, canonical
from workbench.tables.sglang import SGLANG, check_sglang, format_sglang, read_sglang, sglang_choice

__all__ = [
    "CLASSES",
    "MODELS",
    "ROUTER_PROVIDERS",
    "SGLANG",
    "Choice",
    "Dispatch",
    "DispatchTable",
    "RegretNote",
    "RouterModel",
    "RouterProvider",
    "Span",
    "TrafficNote",
    "allows",
    "canonical",
    "check_class",
    "check_sglang",
    "class_of",
    "find_table",
    "forget_tables",
    "format_sglang",
    "load_table",
    "module_source",
    "parse_shape",
    "read_sglang",
    "same_gpu",
    "save_table",
    "sglang_choice",
    "table_path",
]
