// Includes every public C++ header. docs/api.md says which header answers which question, and what
// may change.
//
//   mfu::RunRecord record = MFU_TRY(mfu::read_run("mfu-runs/gpt2"));
//   mfu::RunDevice device = MFU_TRY(mfu::device_of_run(record, mfu::Catalog::builtin(), ""));
//   std::puts(mfu::to_json(mfu::report_run(record, {.device = device})).c_str());
#pragma once

#include "mfu/attribution.h"
#include "mfu/hardware.h"
#include "mfu/machine.h"
#include "mfu/measure.h"
#include "mfu/model.h"
#include "mfu/monitor.h"
#include "mfu/ops.h"
#include "mfu/record.h"
#include "mfu/report.h"
#include "mfu/result.h"
#include "mfu/run.h"
#include "mfu/sink.h"
#include "mfu/steps.h"
#include "mfu/trace.h"
#include "mfu/units.h"
#include "mfu/utilization.h"
#include "mfu/workload.h"
