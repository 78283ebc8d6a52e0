// Between libmfu_shims.so, which stands in for torch's aoti_torch_* functions, and the observer,
// which counts what they did. Plain C, so that the stand-ins need neither torch nor its ABI.
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
  int64_t count;      // of a list; an integer's or boolean's value
};
// Told by the stand-ins after each call that returned well. Kept by libmfu_torch.so.
void mfu_observer_shim_done(const char* name, const struct mfu_shim_argument* arguments,
                            size_t count);
// +1 and -1 around the call: what it dispatches is counted already.
void mfu_observer_pause(int change);

// Of libmfu_shims.so: how it finds torch's own functions, and whom it tells.
void mfu_shims_connect(void* torch_library,
                       void (*done)(const char*, const struct mfu_shim_argument*, size_t),
                       void (*pause)(int));

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
