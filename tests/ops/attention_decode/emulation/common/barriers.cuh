// Stands in for the kernels' barriers.cuh: ptx.cuh beside it has these words too.
#pragma once
#include "common/ptx.cuh"
