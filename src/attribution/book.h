// The ledger while it is being written: what each instant is charged to, by step.
#pragma once

#include <cstdint>
#include <vector>

#include "attribution/window.h"
#include "attribution/work.h"

namespace mfu {

class Book {
 public:
  // `works` gets attributed_ns of its calls.
  Book(const WindowPlan& plan, Works& works);

  // In order of time.
  void charge(std::int64_t from_ns, std::int64_t to_ns, LedgerLine line);
  // An instant owned by a useful matmul of that call: at peak or below it is settled by finish().
  void charge_matmul(std::int64_t from_ns, std::int64_t to_ns, std::uint32_t call);
  // Steps with their ledgers; one without a number where none were marked.
  std::vector<StepLedger> finish();

 private:
  struct Piece {
    std::uint32_t call, step;
    std::int64_t ns;
  };
  template <typename Part>
  void by_step(std::int64_t from_ns, std::int64_t to_ns, Part part);

  std::vector<StepLedger> steps_;
  std::size_t at_ = 0;
  Works& works_;
  std::vector<Piece> pieces_;
};

// What a call would take at peak, ns, of the part that lies in the window. None without a peak.
std::optional<double> ideal_ns(const CostEntry& entry, const WorkCall& call);

}  // namespace mfu
