// Integer types. NVRTC brings no <cstdint>, and the CUDA C++ library is not installed everywhere.
#pragma once

using int64_t = long long;
using uint8_t = unsigned char;
using uint32_t = unsigned int;
using uint64_t = unsigned long long;
static_assert(sizeof(int64_t) == 8 && sizeof(uint32_t) == 4 && sizeof(uint64_t) == 8);
