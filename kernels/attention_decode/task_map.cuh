// The task map on the device: which CTA reads which tokens of which request.
//
// An array of descriptors, 12 int32 each. CTA c starts at descriptor c and follows `next` until it is -1; a bin with
// nothing to do has num_tokens 0. So the first descriptor of a bin costs one load, with no offset table before it.
// Beside it a short header: the number of empty requests and their list, for which the kernel writes zeros.
#pragma once
#include "common/types.cuh"

struct __align__(16) Descriptor {
  int request;
  int kv_head;
  int first_token;
  int num_tokens;
  int length;      // live KV length of the request
  int chunk;       // number of this piece among those of (kv_head, request)
  int num_chunks;  // pieces of (kv_head, request); 1 = written straight to the output
  int slot_base;   // partial results of the pieces lie at slot_base + chunk
  int next;        // index of the bin's next descriptor, or -1
  int pad[3];
};
static_assert(sizeof(Descriptor) == 48);

enum TaskMapHeader { kNumEmpty = 0, kPolicyChosen = 1, kBudget = 2, kHeaderInts = 8 };
