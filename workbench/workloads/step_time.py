"""How long one step of the simulated engine takes. It moves the simulator's clock and is no measurement."""

from __future__ import annotations

from dataclasses import dataclass, fields

from workbench.errors import InvalidArgument

#: Picoseconds in a second. The clock is an integer, so that a jump over many steps ends where single steps end.
SECOND = 1_000_000_000_000


@dataclass(frozen=True)
class StepTime:
    """Linear model of a step: ``base + prefill_token * P + request * B + kv_token * L``, in picoseconds.

    P is the number of prompt tokens that the step prefills, B the number of requests that it decodes, L the sum of
    their KV lengths. The default constants are modelled, none is measured: a mixture-of-experts model of 80 layers
    with about 20 billion active parameters, tensor-parallel over 8 H200.

    Attributes
    ----------
    base : int
        Weights read and kernels launched whatever the batch: 10 ms.
    prefill_token : int
        A prompt token: 2 * 20e9 operations at half of 8 * 1e15 FP8 operations a second, 10 us.
    request : int
        A decoded request: more experts touched, sampling, 20 us.
    kv_token : int
        A token of KV cache read: 80 layers * 1 KV head a GPU * 2 * 128 bytes (FP8) at 4.3 TB/s, 4.76 ns.
    source : str
        Where the constants are from.

    Raises
    ------
    InvalidArgument
        A constant is not a whole number of picoseconds in its range: `base` from 1 (a step takes time), the others
        from 0, up to an hour.
    """

    base: int = 10_000_000_000
    prefill_token: int = 10_000_000
    request: int = 20_000_000
    kv_token: int = 4_760
    source: str = "modelled"

    def __post_init__(self) -> None:
        """Check the constants."""
        for constant in fields(self)[:4]:
            value, least = getattr(self, constant.name), int(constant.name == "base")
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 3600 * SECOND:
                raise InvalidArgument(
                    f"{constant.name}={value!r}; give a whole number of picoseconds from {least} to an hour "
                    f"({3600 * SECOND:,})"
                )

    def uniform(self, steps: int, batch: int, kv_tokens: int) -> int:
        """Duration of consecutive steps without prefill whose every request grows by one token a step.

        Parameters
        ----------
        steps
            How many, n.
        batch
            Requests decoded in each, B.
        kv_tokens
            Sum of the KV lengths in the first, L; it is ``L + B * k`` in step k.

        Returns
        -------
        int
            Picoseconds: ``n * (base + request * B) + kv_token * (n * L + B * n * (n - 1) / 2)``, exactly.
        """
        read = steps * kv_tokens + batch * (steps * (steps - 1) // 2)
        return steps * (self.base + self.request * batch) + self.kv_token * read
