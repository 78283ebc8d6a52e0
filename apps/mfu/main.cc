// mfu: how much of its hardware a model uses, where the rest went, what to change.
#include "cli.h"
#include "commands.h"

int main(int argc, char** argv) {
  using namespace mfu::app;
  Cli cli({
      run_command(),
      explain_command(),
      compare_command(),
      export_command(),
      flops_command(),
      peak_command(),
      plan_command(),
      convert_command(),
      demo_command(),
      doctor_command(),
      config_command(),
      completion_command(),
      man_command(),
  });
  return cli.run(argc, argv);
}
