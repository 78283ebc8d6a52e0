// The interface between libmfu_shims.so, which replaces torch's aoti_torch_* functions, and the
// observer, which counts what they did. It is plain C, so that the stand-ins need neither torch nor
// its ABI.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

// One argument of the operator behind a shim, in the order of the operator's schema.
struct mfu_shim_argument {
  char kind;          // t tensor, l list, i integer, b boolean, n number, a absent, r the result
  const void* value;  // the handle of a tensor; the first item of a list
  int64_t count;      // length of a list; value of an integer or boolean
};
// The stand-ins call it after each call that succeeded. libmfu_torch.so has it.
void mfu_observer_shim_done(const char* name, const struct mfu_shim_argument* arguments,
                            size_t count);
// +1 and -1 around the call, because what it dispatches is already counted.
void mfu_observer_pause(int change);

// A function of libmfu_shims.so: where torch's own functions are, and whom to tell.
void mfu_shims_connect(void* torch_library,
                       void (*done)(const char*, const struct mfu_shim_argument*, size_t),
                       void (*pause)(int));

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
