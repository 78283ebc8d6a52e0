// Any bytes, taken as the file of one process of a run, are read and give a report.
#include <cstdint>

#include "mfu/run.h"
#include "mfu/sink.h"
#include "record/codec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  mfu::RunRecord record;
  record.processes.emplace_back();
  mfu::decode_process(bytes, "fuzz.steps", record.processes[0], record.notes);
  mfu::RunQuestion question;
  question.peak = mfu::FlopRate{1e12};
  mfu::RunReport report = mfu::report_run(record, question);
  mfu::to_json(report);
  mfu::to_text(report, {});
  return 0;
}
