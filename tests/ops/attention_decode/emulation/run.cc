// Runs a kernel's CTAs on fibers. Compiled with -DKERNEL="file" and -DENTRY=name, the kernel's own macros,
// and this folder ahead of `kernels` among the include paths.
#include "common/ptx.cuh"

#include KERNEL

using namespace emulation;

namespace {

constexpr size_t kStackBytes = 64 * 1024;
// A round lets every fiber go on once.
constexpr uint64_t kEra = 256;         // rounds in one order
constexpr uint64_t kQuiet = 20'000;    // without progress: the run is stuck; no copy is as late
constexpr uint64_t kRounds = 500'000;  // of a run; some hundred slabs a CTA take 30,000

Params parameters;

void start() {
  ENTRY(parameters);
  fiber->done = true;
  ++progress;
  if (--cta->alive == 0 && !cta->copies.empty()) fail("a CTA ended while its copies were under way");
  give_way();
}

void begin(Fiber& f, Cta& c, int thread) {
  f.cta = &c, f.thread = thread;
  f.stack = std::make_unique_for_overwrite<uint8_t[]>(kStackBytes);
  auto* top = reinterpret_cast<void**>((reinterpret_cast<uintptr_t>(f.stack.get()) + kStackBytes) / 16 * 16);
  *--top = nullptr;  // where `start` would return to: aligns the stack as a call does
  *--top = reinterpret_cast<void*>(&start);
  for (int i = 0; i < 6; ++i) *--top = nullptr;  // the registers that a switch restores
  f.stack_pointer = top;
}

std::unique_ptr<Cta> begin(int index, int threads, int shared_bytes) {
  auto c = std::make_unique<Cta>();
  c->index = index, c->alive = threads, c->memory_bytes = shared_bytes;
  c->room = std::make_unique_for_overwrite<uint8_t[]>(shared_bytes + 1024);
  c->memory = reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(c->room.get()) + 1023) / 1024 * 1024);
  std::fill_n(reinterpret_cast<uint32_t*>(c->memory), shared_bytes / 4, 0x7fffffff);  // NaN of a GPU
  c->warps.resize(threads / 32), c->fibers.resize(threads);
  for (int t = 0; t < threads; ++t) begin(c->fibers[t], *c, t);
  return c;
}

// Lets bytes of the copies that are due land, and tells the barrier of one when they were its last.
void land(Cta& c, uint64_t round) {
  for (size_t i = 0; i < c.copies.size();) {
    Copy& copy = c.copies[i];
    // Late by up to 2, 4, ... 4096 rounds, each as likely: some are there at once, others when all else waits for them.
    if (copy.due == 0) copy.due = round + 1 + dice() % (2 << dice() % 12);
    for (size_t n = round < copy.due ? 0 : dice() % 2048; n && !copy.left.empty(); --n, ++progress) {
      *copy.left.back().first = copy.left.back().second;
      copy.left.pop_back();
    }
    if (!copy.left.empty()) { ++i; continue; }
    settle(ptx::barrier_at(copy.barrier), 0, copy.bytes);
    c.copies.erase(c.copies.begin() + long(i));
  }
}

}  // namespace

extern "C" int parameter_bytes() { return sizeof(Params); }

// Returns null, or what went wrong. As on a GPU, `resident` CTAs run at once, and another starts when one has ended. `seed`
// decides in which order fibers run and copies land.
extern "C" const char* emulate(const void* given, int grid, int resident, int threads, int shared_bytes, unsigned seed) {
  std::memcpy(&parameters, given, sizeof parameters);
  dice.seed(seed);
  progress = 0, trouble = nullptr;
  gridDim = {unsigned(grid), 1, 1};
  std::vector<std::unique_ptr<Cta>> running;
  std::vector<Fiber*> order;
  int begun = 0;
  for (uint64_t round = 0, quiet = 0; begun < grid || !running.empty(); ++round) {
    while (begun < grid && int(running.size()) < resident) running.push_back(begin(begun++, threads, shared_bytes));
    // Some warps fall far behind for a while, so that others meet what they have not done yet.
    if (round % kEra == 0) {
      order.clear();
      for (auto& c : running) {
        for (Warp& w : c->warps) w.slow = dice() % 3 == 0;
        for (Fiber& f : c->fibers) order.push_back(&f);
      }
      std::shuffle(order.begin(), order.end(), dice);
    }
    uint64_t before = progress;
    for (Fiber* f : order) {
      fiber = f, cta = f->cta;
      if (f->done || (cta->warps[f->thread / 32].slow && round % 32)) continue;
      threadIdx.x = f->thread, blockIdx.x = cta->index;
      emulation_switch(&scheduler, f->stack_pointer);
      if (trouble) return trouble;
    }
    for (auto& c : running) {
      cta = c.get();
      land(*c, round);
    }
    if (round % kEra == kEra - 1) std::erase_if(running, [](auto& c) { return c->alive == 0; });
    quiet = progress == before ? quiet + 1 : 0;
    if (quiet > kQuiet || round > kRounds) return "threads wait for one another";
  }
  return nullptr;
}
