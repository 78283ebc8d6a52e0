// --sweep, --speculate and --chunk of `mfu flops`.
#pragma once

#include <mfu/mfu.h>

#include <CLI/App.hpp>
#include <string>
#include <vector>

namespace mfu::app {

struct SweepOptions {
  std::vector<std::string> sweeps;  // batch=1..256,context=1024,4096
  std::string speculate;            // K[:ACCEPTED]
  std::uint64_t chunk = 0;

  void add_to(CLI::App& app);
  bool given() const { return !sweeps.empty(); }
  Result<ServingQuestion> question() const;
  // One step for each context and batch: the first context with every batch, then the next.
  Result<std::vector<Workload>> points(const Workload& work) const;
};

}  // namespace mfu::app
