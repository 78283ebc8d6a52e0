// The ledger while it is being written: which line each instant belongs to, by step.
#pragma once

#include <cstdint>
#include <vector>

#include "attribution/part.h"
#include "attribution/peaks.h"

namespace mfu {

class Book {
 public:
  // Starts from the ledgers that the steps already have. There must be at least one step.
  explicit Book(std::vector<StepLedger> steps) : steps_(std::move(steps)) {}

  // Calls must come in order of time.
  void charge(std::int64_t from_ns, std::int64_t to_ns, LedgerLine line);
  // The instant belongs to a useful matmul of that call. settle() decides how much of it is at
  // peak.
  void charge_matmul(std::int64_t from_ns, std::int64_t to_ns, std::uint32_t call);
  // Sets attributed_ns of the calls and splits matmul time into at peak and below.
  void settle(RankPart& part, Peaks& peaks);
  std::vector<StepLedger> take() { return std::move(steps_); }

 private:
  struct Piece {
    std::uint32_t call, step;
    std::int64_t ns;
  };
  template <typename Part>
  void by_step(std::int64_t from_ns, std::int64_t to_ns, Part part);

  std::vector<StepLedger> steps_;
  std::size_t at_ = 0;
  std::vector<Piece> pieces_;
};

}  // namespace mfu
