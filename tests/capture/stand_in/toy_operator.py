"""An operator with an instrumented build, for a machine with no GPU: its stamps are those of the cost model."""

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
        found = timeline()

        def instrumented():
            return Instrumented(
                lambda: launch("stamped", bytes=1, ns=7), lambda: Stamped(found.to_npz(), found.makespan_us)
            )

        return Prepared(lambda: launch("toy", bytes=1, ns=5), 1, instrumented)
