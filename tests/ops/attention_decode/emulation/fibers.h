// The threads of a grid as fibers of one OS thread (x86-64 Linux).
//
// A fiber gives way where a GPU thread waits for others: at barriers, warp functions, and each word exchanged with another
// CTA. In between it runs alone.
#pragma once
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

namespace emulation {

// An mbarrier: arrivals and bytes that its phase still waits for.
struct Barrier {
  int count, pending;
  long bytes;
  uint64_t phase;
};

// A copy under way that tells a barrier of its end: the bytes that have not landed yet.
struct Copy {
  uint32_t barrier;
  long bytes = 0;    // that it tells the barrier of
  std::vector<std::pair<uint8_t*, uint8_t>> left = {};
  uint64_t due = 0;  // the round from which on they do; 0: not drawn yet
};

// A place where fibers wait until all have come.
struct Meeting {
  int arrived = 0;
  uint64_t phase = 0;
};

struct Warp : Meeting {
  bool slow = false;
  const char* at = nullptr;
  uint64_t words[2][32][6];  // what the lanes brought, to this meeting and to the one before
};

struct Cta;

// A small asynchronous copy.
struct Word {
  uint8_t* to;
  uint32_t value;
};

// A barrier of whole warps, used again and again; `expected`: threads that the first to come waits for.
struct NamedBarrier : Meeting {
  int expected = 0;
};

struct Fiber {
  std::unique_ptr<uint8_t[]> stack;
  void* stack_pointer;
  Cta* cta;
  unsigned thread;
  bool done = false;
  std::vector<Word> open;  // of no group yet
  std::vector<std::vector<Word>> groups;
};

struct Cta {
  std::unique_ptr<uint8_t[]> room;
  uint8_t* memory;  // shared memory, in `room`
  int index, alive, memory_bytes;
  std::vector<Fiber> fibers;
  std::map<uint32_t, Barrier> barriers;
  std::vector<Warp> warps;
  NamedBarrier named[16];
  std::vector<Copy> copies;
};

static Cta* cta;
static Fiber* fiber;
static void* scheduler;
static std::mt19937 dice;
static uint64_t progress;    // counts events: a run without any is stuck
static const char* trouble;  // ends the run

extern "C" void emulation_switch(void** from, void* to);
asm(R"(
.pushsection .text
.globl emulation_switch
emulation_switch:
  pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
  ret
.popsection
)");

inline void give_way() { emulation_switch(&fiber->stack_pointer, scheduler); }

[[noreturn]] inline void fail(const char* what) {
  trouble = what;
  for (;;) give_way();
}

inline void meet(Meeting& m, int expected) {
  uint64_t phase = m.phase;
  ++progress;
  if (++m.arrived == expected) m.arrived = 0, ++m.phase;
  else while (m.phase == phase) give_way();
}

// All 32 lanes of a warp bring some words to function `at` and see everybody's.
template <int count>
inline const uint64_t (*exchange(const char* at, const uint64_t (&mine)[count]))[6] {
  Warp& w = cta->warps[fiber->thread / 32];
  if (w.arrived == 0) w.at = at;
  else if (std::strcmp(w.at, at)) fail("lanes of a warp are at different functions");
  auto& words = w.words[w.phase & 1];
  std::memcpy(words[fiber->thread % 32], mine, sizeof mine);
  meet(w, 32);
  return words;
}

// bar.sync, for which the lanes of a warp come together.
inline void meet_at(uint32_t id, int threads) {
  exchange("bar.sync", {0});
  if (id >= 16 || threads <= 0 || threads % 32 || threads > int(cta->fibers.size())) fail("no such barrier");
  NamedBarrier& b = cta->named[id];
  if (b.arrived == 0) b.expected = threads;
  else if (b.expected != threads) fail("threads at one barrier disagree on how many it is for");
  meet(b, threads);
}

// Arrivals at a barrier and bytes that it need not wait for any more; negative bytes are to come.
inline void settle(Barrier& b, int arrivals, long bytes) {
  ++progress;
  b.pending -= arrivals, b.bytes -= bytes;
  if (b.pending < 0) fail("more arrivals at a barrier than it counts");
  if (b.pending == 0 && b.bytes == 0) b.pending = b.count, ++b.phase;
}

}  // namespace emulation
