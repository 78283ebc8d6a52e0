// What the order of a CPU's operators tells about habits of the training loop.
#pragma once

#include <cstdint>
#include <vector>

#include "attribution/settled.h"
#include "attribution/work.h"

namespace mfu {

// The time in which tensors are updated: inside Optimizer.step after the last backward there, and
// where the program updates many tensors one after another by itself (an optimizer written as a
// loop, an average of the weights). With a closure (Lightning, LBFGS), forward and backward also
// run inside Optimizer.step.
class Updates {
 public:
  Updates(const Trace& trace, const Works& works);

  bool contains(std::uint32_t row) const { return by_hand(row) || in_step(row); }
  bool by_hand(std::uint32_t row) const { return by_hand_[row] != 0; }
  std::int64_t inside_ns(const Window& window) const;

 private:
  struct Range {
    std::int64_t start_ns = 0, end_ns = 0;
  };
  void find_steps();
  void find_loops(const Works& works);
  bool in_step(std::uint32_t row) const;
  std::uint32_t around(std::uint32_t row) const;

  const Trace& trace_;
  std::vector<std::int64_t> step_starts_;  // by row: of an Optimizer.step, where its work begins
  std::vector<Range> loops_;               // updates by hand
  std::vector<std::uint8_t> by_hand_;      // by row, for the rows of spans
};

// The most rows that one step takes out of tensors of one shape, one row at a time. 0 if it does
// not go through a tensor row by row.
std::uint64_t rows_taken(const Trace& trace, const Works& works, const Window& window,
                         std::uint64_t steps);
// How often a step calls one cell of a recurrent layer, instead of the layer.
std::uint64_t cells_called(const Trace& trace, const Works& works, const Window& window,
                           std::uint64_t steps);
// Whether the operator hands a number to Python. No fused kernel can span it.
bool reads_value(std::string_view name);

}  // namespace mfu
