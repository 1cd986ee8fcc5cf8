// Stands in for the kernels' own types.cuh: the host has <cstdint>.
#pragma once
#include <cstdint>
