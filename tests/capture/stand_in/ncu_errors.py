"""What the stand-in for ``ncu`` prints when it is told to fail, by name; the known ones in Nsight Compute's words."""

ERRORS = {
    "forbidden": "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance "
    "Counters on the target device 0. For instructions on enabling permissions and to get more information see "
    "https://developer.nvidia.com/ERR_NVGPUCTRPERM",
    "busy": "==ERROR== Profiling failed because a driver resource was unavailable. Ensure that no other tool (like "
    "DCGM) is concurrently collecting profiling data.",
    "no driver": "==ERROR== failed to connect to the CUDA driver",
    "cannot start": "==ERROR== Failed to initialize the profiler: LibraryNotLoaded",
    "locked": "==ERROR== Failed to open/create lock file /tmp/nsight-compute-lock. Please check that this process has "
    "write permissions on it.",
    "unknown metric": "==ERROR== Failed to find metric sm__wrong.sum",
    "port": "==ERROR== bind: Address already in use",
    "unheard of": "==ERROR== The quantum flux is misaligned.",
}
