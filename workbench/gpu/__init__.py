"""Kernels: compiled at run time, with or without a GPU here, and launched where there is one.

========================== =====================================================================================
`compile.compile_kernel`   source and constants -> machine code, from memory, the disk cache or the compiler
`facts.ResourceFacts`      what a compiled kernel needs: registers, spills, shared memory
`occupancy.occupancy`      how many CTAs fit an SM of any GPU in the catalogue, and what stops the next one
`launch.Kernel`            run a compiled kernel: torch streams, clusters, dependent launch, graph capture
`tensor_map.tensor_map`    describe a tensor to the bulk copy engine
`disassemble`              machine code in words, and how often each instruction is in it
`driver.require_gpu`       pass where a kernel can run, say what is missing where it cannot
`report.gpu_report`        all of that about this machine
========================== =====================================================================================
"""
