// Any bytes that read as a trace are attributed: the ledger adds up whatever the times are.
#include <cstdint>
#include <cstdlib>

#include "mfu/mfu.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  mfu::ReadOptions reading;
  reading.threads = 1;
  auto trace =
      mfu::read_trace_bytes({reinterpret_cast<const char*>(data), size}, "fuzz.json", reading);
  if (!trace.has_value()) return 0;
  for (mfu::WindowPolicy policy : {mfu::WindowPolicy::all, mfu::WindowPolicy::steps}) {
    mfu::AttributionOptions options;
    options.window.policy = policy;
    options.timeline = true;
    auto found = mfu::attribute({&trace.value(), 1}, options);
    if (!found.has_value()) continue;
    for (const mfu::RankAttribution& rank : found->ranks) {
      if (rank.ledger.total_ns() != rank.window.duration_ns()) std::abort();
    }
    mfu::ExplainReport report = mfu::report_explanation(std::move(found).value());
    mfu::to_json(report);
    mfu::to_text(report, {.width = 60, .color = true});
    mfu::to_markdown(report);
    mfu::to_csv(report);
  }
  return 0;
}
