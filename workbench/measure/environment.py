"""What a measurement on this machine holds for, and which kernel sources it was made with."""

from __future__ import annotations

import datetime
import hashlib
import json
from importlib import metadata
from pathlib import Path

import torch

from workbench.errors import NoGpu
from workbench.gpu.source import Source
from workbench.measure.clocks import ClocksUnreadable, Reader, driver_release, reader
from workbench.records import Environment

KERNELS = {
    ("attention_decode", "cuda"): "attention_decode/attention.cu",
    ("task_map", "cuda"): "attention_decode/task_map.cu",
    ("router_gemm", "cuda"): "router_gemm/router_gemm.cu",
}
TRITON_KERNELS = {
    ("attention_decode", "triton"): "attention_decode/triton_kernels.py",
    ("router_gemm", "triton"): "router_gemm/triton_kernels.py",
}


def environment_here() -> Environment:
    """GPU, driver and software of this process; the clocks belong to each measurement.

    Without a GPU torch raises an error of its own: call `workbench.gpu.driver.require_gpu` before.
    """
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    try:
        driver = driver_release()
    except ClocksUnreadable:
        driver = None
    try:
        triton = metadata.version("triton")
    except metadata.PackageNotFoundError:
        triton = None
    return Environment(
        gpu=properties.name,
        date=datetime.date.today(),
        sms=properties.multi_processor_count,
        driver=driver,
        cuda=torch.version.cuda,
        torch=torch.__version__,
        triton=triton,
    )


def check_torch() -> None:
    """Pass where torch can use the GPU that the driver shows.

    Raises
    ------
    NoGpu
        It cannot, for it was built for another CUDA version or for none.
    """
    if not torch.cuda.is_available():
        raise NoGpu(
            f"There is a GPU, but torch {torch.__version__} cannot use it. Install a build of torch for CUDA, at most "
            "the version that `workbench doctor` says the driver serves."
        )


def clocks_here() -> Reader:
    """What reads the clocks of torch's current GPU.

    Raises
    ------
    ClocksUnreadable
    """
    return reader(str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid))


def source_digests() -> dict[tuple[str, str], str]:
    """SHA-256 over the source and the headers of each kernel of ours, by operator and provider, as they are now."""
    contents = {key: Source.file(path).digests() for key, path in KERNELS.items()}
    folder = Path(__file__).resolve().parents[1] / "ops"
    for key, name in TRITON_KERNELS.items():
        contents[key] = {Path(name).name: hashlib.sha256((folder / name).read_bytes()).hexdigest()}
    return {
        key: hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()
        for key, digests in contents.items()
    }
