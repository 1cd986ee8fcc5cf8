"""State and moves of the simulated engine; `simulate` describes the rules that it follows."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import deque
from collections.abc import Callable

import numpy as np

from workbench.errors import WorkloadError
from workbench.workloads.request_trace import RequestTrace
from workbench.workloads.step_time import SECOND, StepTime
from workbench.workloads.timeline import Timeline

#: Longest simulated time, seconds: the clock is int64 picoseconds.
MAX_SIMULATED_SECONDS = 4_000_000
_NOBODY = -1


class Engine:
    """State of the engine between two steps, and the record of what it did."""

    def __init__(
        self,
        trace: RequestTrace,
        *,
        max_batch: int,
        capacity: int,
        budget: int,
        watermark: int,
        step_time: StepTime,
    ) -> None:
        self.max_batch, self.capacity, self.budget, self.watermark = max_batch, capacity, budget, watermark
        self.step_time = step_time
        self.arrival: list[int] = np.rint(trace.arrival_s * SECOND).astype(np.int64).tolist()
        self.prompt: list[int] = trace.input_tokens.tolist()  # tokens to prefill, grown by preemption
        self.left: list[int] = trace.output_tokens.tolist()  # tokens not generated yet
        self.clock = 0
        self.steps = 0  # decode steps done
        self.received = self.finished = self.preemptions = self.prefill_only = 0
        self.waiting: deque[int] = deque()
        self.partial, self.partial_left = _NOBODY, 0  # the prompt in progress
        self.batch = 0  # running requests
        self.running_kv = 0  # tokens they hold
        self.used = 0  # these and the prompts being prefilled
        # A ticket is an admission. Heaps and stack drop stale entries when they surface, told by the ticket.
        self.ticket = [_NOBODY] * len(self.prompt)
        self.tickets = 0
        self.admitted: list[tuple[int, int]] = []  # stack of (ticket, request)
        self.ends: list[tuple[int, int, int]] = []  # heap of (decode step after the last, ticket, request)
        self.longest: list[tuple[int, int, int]] = []  # heap of (first step - first length, ticket, request)
        self.interval = [_NOBODY] * len(self.prompt)
        self.intervals: list[list[int]] = []  # request, first step, step after the last, first length
        self.segments: list[tuple[int, ...]] = []  # rows of Timeline.segments

    def run(self, max_steps: int, progress: Callable[[int, int], None] | None) -> None:
        """Run until all requests are finished or `max_steps` decode steps are done."""
        total, told = len(self.prompt), 0
        while self.steps < max_steps:
            while self.received < total and self.arrival[self.received] <= self.clock:
                self.waiting.append(self.received)
                self.received += 1
            if not self.batch and self.partial == _NOBODY and not self.waiting:
                if self.received == total:
                    break
                self.clock = self.arrival[self.received]
                continue
            self._grow()
            prefilled, complete = self._prefill()
            self._decode(prefilled, 1 if prefilled else max_steps - self.steps)
            self._finish()
            for request in complete:
                self._start(request)
            if progress is not None and (self.finished - told) * 200 >= total:
                told = self.finished
                progress(told, total)
        if progress is not None:
            progress(self.finished, total)

    def _grow(self) -> None:
        """Reserve one token for every running request, preempting while that does not fit."""
        while self.used + self.batch > self.capacity:
            self._preempt()
        self.used += self.batch

    def _preempt(self) -> None:
        """Send the request admitted last back to the head of the queue."""
        ticket, request = self.admitted.pop()
        while self.ticket[request] != ticket:
            ticket, request = self.admitted.pop()
        self.ticket[request] = _NOBODY
        self.preemptions += 1
        self.waiting.appendleft(request)
        if request == self.partial:
            self.partial = _NOBODY
            self.used -= self.prompt[request]
            return
        interval = self.intervals[self.interval[request]]
        interval[2] = self.steps
        decoded = self.steps - interval[1]
        self.batch -= 1
        self.used -= self.prompt[request] + decoded
        self.running_kv -= self.prompt[request] + decoded
        self.prompt[request] += decoded + 1  # the last token generated is not in the cache yet
        self.left[request] -= decoded

    def _prefill(self) -> tuple[int, list[int]]:
        """Spend the step's budget; returns the tokens prefilled and the requests whose prompt is complete."""
        budget, complete = self.budget, []
        if self.partial != _NOBODY:
            taken = min(budget, self.partial_left)
            budget -= taken
            self.partial_left -= taken
            if not self.partial_left:
                complete.append(self.partial)
                self.partial = _NOBODY
        while budget and self.waiting and self.batch + len(complete) < self.max_batch:
            request = self.waiting[0]
            prompt = self.prompt[request]
            if self.used + prompt + (self.watermark if self.used else 0) > self.capacity:
                break
            self.waiting.popleft()
            self.used += prompt
            self.tickets += 1
            self.ticket[request] = self.tickets
            self.admitted.append((self.tickets, request))
            taken = min(budget, prompt)
            budget -= taken
            if taken < prompt:
                self.partial, self.partial_left = request, prompt - taken
            else:
                complete.append(request)
        return self.budget - budget, complete

    def _decode(self, prefilled: int, limit: int) -> None:
        """Do one step, or as many equal ones as `limit` and the next event allow."""
        if not self.batch:
            self.prefill_only += 1
            self.clock += self.step_time.base + self.step_time.prefill_token * prefilled
            return
        batch, kv_tokens = self.batch, self.running_kv + self.batch
        while self.ticket[self.ends[0][2]] != self.ends[0][1]:
            heapq.heappop(self.ends)
        while self.ticket[self.longest[0][2]] != self.longest[0][1]:
            heapq.heappop(self.longest)
        steps = min(limit, self.ends[0][0] - self.steps, (self.capacity - self.used) // batch + 1)
        duration = self.step_time.uniform(steps, batch, kv_tokens)
        if not self.waiting and batch < self.max_batch and self.received < len(self.arrival):  # an arrival matters
            gap = self.arrival[self.received] - self.clock
            if steps > 1 and duration > gap:
                steps = 1 + bisect_left(range(1, steps), gap, key=lambda n: self.step_time.uniform(n, batch, kv_tokens))
                duration = self.step_time.uniform(steps, batch, kv_tokens)
        self.segments.append((self.steps, self.clock, batch, kv_tokens, prefilled, -self.longest[0][0]))
        self.clock += duration + self.step_time.prefill_token * prefilled
        self.steps += steps
        self.used += batch * (steps - 1)
        self.running_kv += batch * steps

    def _finish(self) -> None:
        """Let go the requests whose last decode step is done."""
        while self.ends and self.ends[0][0] <= self.steps:
            _, ticket, request = heapq.heappop(self.ends)
            if self.ticket[request] != ticket:
                continue
            interval = self.intervals[self.interval[request]]
            interval[2] = self.steps
            held = self.prompt[request] + self.steps - interval[1]
            self.ticket[request] = _NOBODY
            self.batch -= 1
            self.used -= held
            self.running_kv -= held
            self.finished += 1

    def _start(self, request: int) -> None:
        """Count the token that a complete prompt has generated; the request runs from the next step, or is done."""
        self.left[request] -= 1
        prompt, ticket = self.prompt[request], self.ticket[request]
        if self.left[request] <= 0:
            self.ticket[request] = _NOBODY
            self.used -= prompt
            self.finished += 1
            return
        self.batch += 1
        self.running_kv += prompt
        heapq.heappush(self.ends, (self.steps + self.left[request], ticket, request))
        heapq.heappush(self.longest, (self.steps - prompt - 1, ticket, request))
        self.interval[request] = len(self.intervals)
        self.intervals.append([request, self.steps, _NOBODY, prompt + 1])

    def timeline(self) -> Timeline:
        """The record as arrays; requests still running end with the last step."""
        if self.clock > 2 * MAX_SIMULATED_SECONDS * SECOND:
            raise WorkloadError(
                f"the requests take {self.clock / SECOND:,.0f} s, and at most {MAX_SIMULATED_SECONDS:,} s can be "
                "simulated; give max_steps, fewer requests, or a faster step_time"
            )
        intervals = np.array(self.intervals, dtype=np.int64).reshape(-1, 4)
        intervals[intervals[:, 2] == _NOBODY, 2] = self.steps
        return Timeline(
            segments=np.array(self.segments, dtype=np.int64).reshape(-1, 6),
            intervals=intervals[intervals[:, 1] < intervals[:, 2]],
            num_steps=self.steps,
            step_time=self.step_time,
            finished=self.finished,
            preemptions=self.preemptions,
            prefill_only=self.prefill_only,
        )
