// Counts what the stand-ins of shims/ saw.
#include <mutex>
#include <unordered_map>

#include "torch/arguments.h"
#include "torch/kernel.h"
#include "torch/shims/shims.h"

namespace mfu::observer {
namespace {

// Found by the address of the name, because each stand-in has one name.
Watched& row_of(const char* name) {
  static std::mutex* mutex = new std::mutex;
  static auto* rows = new std::unordered_map<const char*, Watched>;
  std::lock_guard lock(*mutex);
  return rows->try_emplace(name, name).first->second;
}

void add(Arguments& arguments, const mfu_shim_argument& given) {
  switch (given.kind) {
    case 't':
      return arguments.add(*static_cast<const at::Tensor*>(given.value));
    case 'l':
      return arguments.add(c10::IntArrayRef(static_cast<const std::int64_t*>(given.value),
                                            static_cast<std::size_t>(given.count)));
    case 'i':
      return arguments.add(given.count);
    case 'b':
      return arguments.add(given.count != 0);
    case 'r':
      if (given.value != nullptr) {
        arguments.set_result(c10::IValue(*static_cast<const at::Tensor*>(given.value)));
      }
      return;
    default:
      arguments.add(c10::IValue());
  }
}

}  // namespace
}  // namespace mfu::observer

void mfu_observer_shim_done(const char* name, const struct mfu_shim_argument* arguments,
                            size_t count) {
  using namespace mfu::observer;
  Thread& thread = this_thread;
  if (thread.quiet != 0 || !refresh_mode()) return;
  try {
    Arguments given;
    for (size_t i = 0; i < count; ++i) add(given, arguments[i]);
    row_of(name).count(thread, given);
  } catch (...) {  // a tensor that has no sizes; the call itself has run
  }
}
