// What the names of kernels and host ranges tell. docs/ledger.md has the lists.
#pragma once

#include <string_view>

namespace mfu {

// Whether the kernel is a matrix multiply, convolution or fused attention, by the names that
// libraries use.
bool names_matmul(std::string_view kernel);
// Whether the kernel multiplies fp32 tensors in TF32.
bool names_tf32(std::string_view kernel);
// Whether the next batch is fetched in this host range.
bool names_data_loading(std::string_view range);
// Whether a thread only waits in this Python frame or builtin.
bool names_blocking_call(std::string_view frame);
// Whether the operator must wait for the device to know its result.
bool names_synchronizing_operator(std::string_view op);
// Whether the operator is the framework's own bookkeeping and not work of the user, however long it
// takes.
bool names_bookkeeping(std::string_view op);
// A runtime call that copies and returns when the copy is done.
bool names_blocking_copy(std::string_view call);
// An operator or range of the CPU that moves data between ranks.
bool names_communication(std::string_view range);
// Whether the range is a part of torch.compile's work. The compiler gives these names.
bool names_compilation(std::string_view range);

}  // namespace mfu
