"""An operator with an instrumented build, for a machine with no GPU: its stamps are those of the cost model."""

import math

from kernels import launch
from tests.capture.toy_timeline import timeline
from workbench.capture import Instrumented, Prepared, Stamped
from workbench.records import Workload


class Toy:
    providers = ("cuda", "other")
    default_policy = "balanced"

    def describe(self, workload):
        return Workload(case=workload or "default", parameters={})

    def identity(self, request):
        return {"size": 1, **request.configuration}, None

    def prepare(self, request, seed):
        found, how = timeline(), request.configuration.get("stamps", "good")

        def instrumented():
            if how == "raises":
                raise ValueError("the stamps have no room")
            call = (lambda: None) if how == "silent" else lambda: launch("stamped", bytes=1, ns=7)
            return Instrumented(call, lambda: Stamped(found.to_npz(), math.nan if how == "nan" else found.makespan_us))

        return Prepared(lambda: launch("toy", bytes=1, ns=5), 1, instrumented)
