#include <array>
#include <numeric>

#include "mfu/attribution.h"

namespace mfu {

std::string_view name_of(LedgerLine line) {
  static constexpr std::array<std::string_view, kLedgerLineCount> kNames = {
      "matmul_at_peak",
      "matmul_below_peak",
      "matmul_flop_unknown",
      "recomputation",
      "other_kernels",
      "exposed_communication_wait",
      "exposed_communication_transfer",
      "exposed_copy",
      "idle_data",
      "idle_launch",
      "idle_synchronization",
      "idle_unknown"};
  return kNames[static_cast<std::size_t>(line)];
}

std::string_view name_of(Cause cause) {
  static constexpr std::array<std::string_view, 16> kNames = {
      "data_loading", "cpu_preprocessing", "kernel_launch", "synchronization", "communication",
      "copies",       "recomputation",     "precision",     "implementation",  "threads",
      "optimizer",    "validation",        "generation",    "straggler",       "host",
      "unknown"};
  return kNames[static_cast<std::size_t>(cause)];
}

std::int64_t Ledger::total_ns() const {
  return std::accumulate(ns_.begin(), ns_.end(), std::int64_t{0});
}

std::int64_t Ledger::idle_ns() const {
  const Ledger& self = *this;
  return self[LedgerLine::idle_data] + self[LedgerLine::idle_launch] +
         self[LedgerLine::idle_synchronization] + self[LedgerLine::idle_unknown];
}

std::int64_t Ledger::matmul_ns() const {
  const Ledger& self = *this;
  return self[LedgerLine::matmul_at_peak] + self[LedgerLine::matmul_below_peak] +
         self[LedgerLine::matmul_flop_unknown];
}

Ledger& Ledger::operator+=(const Ledger& other) {
  for (std::size_t i = 0; i < kLedgerLineCount; ++i) ns_[i] += other.ns_[i];
  return *this;
}

}  // namespace mfu
