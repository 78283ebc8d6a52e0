// The subcommands, one file each: cmd_<verb>.cc.
#pragma once

#include "cli.h"

namespace mfu::app {

Command run_command();
Command explain_command();
Command compare_command();
Command flops_command();
Command convert_command();
Command plan_command();
Command peak_command();
Command export_command();
Command demo_command();
Command doctor_command();
Command config_command();
Command completion_command();
Command man_command();

}  // namespace mfu::app
