// The ledger of any trace adds up, whatever its times are. Input that is text is read as a trace.
// Other bytes draw a trace, five bytes for each event, and its ledger must equal the rules applied
// to each nanosecond.
#include <cstdint>
#include <cstdlib>

#include "attribution/attribute.h"
#include "attribution/drawn_trace.h"
#include "attribution/reference.h"
#include "mfu/mfu.h"

namespace {

void write_out(mfu::Attribution found, unsigned turn) {
  mfu::ExplainReport report = mfu::report_explanation(std::move(found));
  switch (turn % 64) {  // the writers are slow, so they take turns
    case 0:
      mfu::to_json(report);
      break;
    case 1:
      mfu::to_text(report, {.width = 60, .color = true});
      break;
    case 2:
      mfu::to_markdown(report);
      break;
    case 3:
      mfu::to_csv(report);
      break;
    default:
      break;
  }
}

void attribute_text(std::string_view text) {
  mfu::ReadOptions reading;
  reading.threads = 1;
  auto trace = mfu::read_trace_bytes(text, "fuzz.json", reading);
  if (!trace.has_value()) return;
  for (mfu::WindowPolicy policy : {mfu::WindowPolicy::all, mfu::WindowPolicy::steps}) {
    mfu::AttributionOptions options;
    options.window.policy = policy;
    options.timeline = true;
    auto found = mfu::attribute({&trace.value(), 1}, options);
    if (!found.has_value()) continue;
    for (const mfu::RankAttribution& rank : found->ranks) {
      if (rank.ledger.total_ns() != rank.window.duration_ns()) std::abort();
    }
    write_out(std::move(found).value(), static_cast<unsigned>(text.size()));
  }
}

void attribute_drawing(const std::uint8_t* data, std::size_t size) {
  mfu::TraceText text = mfu::drawn_trace({data, size});
  auto trace = text.read();
  if (!trace.has_value()) return;
  mfu::AttributionOptions options;
  options.peak = mfu::FlopRate{1e12};
  options.dispatch_ns = 6;
  options.interpreter_ns = 12;
  options.window.policy = mfu::WindowPolicy::all;
  auto found = mfu::attribute({&trace.value(), 1}, options);
  if (!found.has_value()) return;
  const mfu::RankAttribution& rank = found->ranks.at(0);
  if (rank.ledger.total_ns() != rank.window.duration_ns()) std::abort();
  bool in_turn = data[size - 1] % 32 == 0;  // the check of each nanosecond is slow
  if (in_turn && trace->device.size() > 0) {
    mfu::Ledger expected = mfu::reference_ledger(*trace, rank.window, options);
    for (std::size_t i = 0; i < mfu::kLedgerLineCount; ++i) {
      auto line = static_cast<mfu::LedgerLine>(i);
      if (rank.ledger[line] != expected[line]) {
        fmt::print(stderr, "{}: {} ns, {} by the rules, in\n{}\n", name_of(line), rank.ledger[line],
                   expected[line], text.text());
        std::abort();
      }
    }
  }
  write_out(std::move(found).value(), data[size - 1]);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  if (text[0] == '{' || text[0] == '[' || text[0] == '\x1f') {
    attribute_text(text);
  } else {
    attribute_drawing(data, size);
  }
  return 0;
}
