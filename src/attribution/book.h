// The ledger while it is being written: what each instant is charged to, by step.
#pragma once

#include <cstdint>
#include <vector>

#include "attribution/part.h"
#include "attribution/peaks.h"

namespace mfu {

class Book {
 public:
  // Goes on from the ledgers that the steps have. Contract: at least one step.
  explicit Book(std::vector<StepLedger> steps) : steps_(std::move(steps)) {}

  // In order of time.
  void charge(std::int64_t from_ns, std::int64_t to_ns, LedgerLine line);
  // An instant owned by a useful matmul of that call: at peak or below it is settled by settle().
  void charge_matmul(std::int64_t from_ns, std::int64_t to_ns, std::uint32_t call);
  // Sets attributed_ns of the calls, and says what of the matmuls was at peak.
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
