"""The GPU: whether there is one, how kernels are compiled for it, and how they are launched."""
