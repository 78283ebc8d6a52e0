// Reports as text and JSON (schemas in docs/formats/). A sink formats, it never computes.
//
//   std::fputs(mfu::to_text(report, {.width = 100}).c_str(), stdout);
#pragma once

#include <string>
#include <string_view>

#include "mfu/report.h"
#include "mfu/result.h"
#include "mfu/run.h"
#include "mfu/settings.h"
#include "mfu/table.h"

namespace mfu {

std::string to_text(const PeakReport& report, const TextStyle& style);
std::string to_text(const DoctorReport& report, const TextStyle& style);
std::string to_text(const NeedReport& report, const TextStyle& style);
std::string to_text(const ConversionReport& report, const TextStyle& style);
std::string to_text(const PlanReport& report, const TextStyle& style);
std::string to_text(const RunReport& report, const TextStyle& style);
// One line while it runs: step, step time, tokens/s, MFU, HFU, data wait.
std::string live_line(const RunReport& report);

// One line each, without the newline.
std::string to_json(const PeakReport& report);        // mfu.peak/1
std::string to_json(const DoctorReport& report);      // mfu.doctor/1
std::string to_json(const Error& error);              // mfu.error/1
std::string to_json(const NeedReport& report);        // mfu.flops/1
std::string to_json(const ConversionReport& report);  // mfu.convert/1
std::string to_json(const PlanReport& report);        // mfu.plan/1
std::string to_json(const RunReport& report);         // mfu.run/1
// mfu.config/1
std::string to_json(const std::vector<SettingKey>& keys, const Settings& settings,
                    const std::string& path);

// Text for people where a script asked for JSON: help, manual pages, scripts. mfu.text/1
std::string text_to_json(std::string_view text);

// "989.4 TFLOP/s", "207.4 GFLOP/s", "1,979 TOP/s".
std::string rate_text(FlopRate rate, Precision precision);
// "51.47 GFLOP", "3.8e25 FLOP" beyond the prefixes.
std::string count_text(FlopCount count);
// "8,030,261,248".
std::string grouped(std::uint64_t count);
// "3.35 TB/s", "80 GB", decimal.
std::string bandwidth_text(ByteRate rate);
std::string bytes_text(Bytes bytes);

}  // namespace mfu
