// Everything public, in data-flow order.
#pragma once

#include "mfu/ceiling.h"
#include "mfu/convention.h"
#include "mfu/diagnostics.h"
#include "mfu/hardware.h"
#include "mfu/machine.h"
#include "mfu/model.h"
#include "mfu/plan.h"
#include "mfu/report.h"
#include "mfu/result.h"
#include "mfu/settings.h"
#include "mfu/sink.h"
#include "mfu/suggest.h"
#include "mfu/table.h"
#include "mfu/units.h"
#include "mfu/utilization.h"
#include "mfu/workload.h"
