// What names of kernels and host ranges tell. The lists are in docs/ledger.md.
#pragma once

#include <string_view>

namespace mfu {

// A matrix multiply, convolution or fused attention, by the names libraries give their kernels.
bool names_matmul(std::string_view kernel);
// A kernel that multiplies fp32 tensors in TF32.
bool names_tf32(std::string_view kernel);
// A host range in which the next batch is fetched.
bool names_data_loading(std::string_view range);
// A Python frame or builtin in which a thread only waits.
bool names_blocking_call(std::string_view frame);
// An operator that must wait for the device to know its result.
bool names_synchronizing_operator(std::string_view op);
// An operator of the framework's own: no work of the user's, however long.
bool names_bookkeeping(std::string_view op);
// A runtime call that copies and returns when the copy is done.
bool names_blocking_copy(std::string_view call);
// An operator or range of the CPU that moves data between ranks.
bool names_communication(std::string_view range);

}  // namespace mfu
