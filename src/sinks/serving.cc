// Formats a sweep over batches and contexts as mfu.flops_many/1 and as a small chart.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "mfu/sink.h"
#include "sinks/table.h"

namespace mfu {

namespace {

std::optional<std::uint64_t> crossover_of(const std::vector<NeedReport>& reports) {
  for (const NeedReport& each : reports) {
    if (each.roofline && each.roofline->compute_from_batch) {
      return each.roofline->compute_from_batch;
    }
  }
  return std::nullopt;
}

std::optional<double> best_rate(const std::vector<NeedReport>& reports) {
  std::optional<double> best;
  for (const NeedReport& each : reports) {
    if (!each.serving || !each.serving->roof_tokens_per_s) continue;
    best = std::max(best.value_or(0), *each.serving->roof_tokens_per_s);
  }
  return best;
}

}  // namespace

std::string sweep_json(const std::vector<NeedReport>& reports) {
  JsonWriter numbers;
  numbers.begin_object();
  numbers.member("crossover_batch", crossover_of(reports));
  numbers.member("roof_tokens_per_s", best_rate(reports));
  std::string rest = numbers.end_object().text();
  std::string results;
  for (const NeedReport& each : reports) results += (results.empty() ? "" : ",") + to_json(each);
  return R"({"schema":"mfu.flops_many/1","results":[)" + results + "]," + rest.substr(1);
}

std::string sweep_text(const std::vector<NeedReport>& reports, const TextStyle& style) {
  constexpr double kBar = 24;
  Table table({{"batch", Align::right},
               {"context", Align::right},
               {"FLOPs", Align::right},
               {"moved", Align::right},
               {"FLOP/byte", Align::right},
               {"tokens/s at the roof", Align::right},
               {"bound by"},
               {""}});
  double best = best_rate(reports).value_or(0);
  for (const NeedReport& each : reports) {
    if (!each.serving) {
      table.add({grouped(each.work.batch), grouped(each.work.context),
                 each.model_flop ? count_text(*each.model_flop) : "-", "-", "-", "-", "-", ""});
      continue;
    }
    const ServingNeed& need = *each.serving;
    double rate = need.roof_tokens_per_s.value_or(0);
    auto bar = static_cast<std::size_t>(best > 0 ? std::lround(kBar * rate / best) : 0);
    std::string drawn;
    for (std::size_t i = 0; i < std::max<std::size_t>(bar, best > 0 ? 1 : 0); ++i) drawn += "▇";
    double bytes = static_cast<double>(need.moved_bytes);
    table.add({grouped(each.work.batch), grouped(each.work.context), count_text(need.flop),
               bytes_text(Bytes{need.moved_bytes}),
               bytes > 0 ? fmt::format("{:.1f}", need.flop.to_double() / bytes) : "-",
               rate > 0 ? grouped(static_cast<std::uint64_t>(std::llround(rate))) : "-",
               rate > 0 ? need.compute_bound ? "compute" : "memory" : "-", drawn});
  }
  std::string text;
  if (!reports.empty()) {
    text = inked(fmt::format("{} of {}", name_of(reports[0].work.phase), reports[0].name),
                 Ink::bold, style) +
           "\n";
  }
  text += table.text(style);
  if (std::optional<std::uint64_t> batch = crossover_of(reports)) {
    text += fmt::format("from batch {} on compute binds, below it memory\n", grouped(*batch));
  } else if (best > 0) {
    text += "memory binds at every batch up to 1,048,576\n";
  } else if (!reports.empty() && !reports[0].serving) {
    text += "bytes and the roof are known for --phase prefill and --phase decode\n";
  } else {
    text += "tokens/s at the roof need a device whose peak and bandwidth are known: --device\n";
  }
  return text;
}

}  // namespace mfu
