// The rules, one a cause: none where the cause is not there.
#pragma once

#include <optional>
#include <string>

#include "attribution/findings.h"

namespace mfu {

using Rule = std::optional<Finding> (*)(const Situation&);

// In rules_host.cc: what keeps the device waiting.
std::optional<Finding> data_rule(const Situation& situation);
std::optional<Finding> preprocessing_rule(const Situation& situation);
std::optional<Finding> launch_rule(const Situation& situation);
std::optional<Finding> synchronization_rule(const Situation& situation);
std::optional<Finding> unknown_rule(const Situation& situation);
// In rules_device.cc: what the device does beside matmuls.
std::optional<Finding> waiting_rule(const Situation& situation);
std::optional<Finding> transfer_rule(const Situation& situation);
std::optional<Finding> copies_rule(const Situation& situation);
std::optional<Finding> recomputation_rule(const Situation& situation);
std::optional<Finding> kernels_rule(const Situation& situation);
// In rules_machine.cc: what the observer saw beside the trace, and the loop's own habits.
std::optional<Finding> threads_rule(const Situation& situation);
std::optional<Finding> optimizer_rule(const Situation& situation);
std::optional<Finding> tiny_rule(const Situation& situation);
// What the optimizer takes of the window; the operators' times on a CPU only, and settled.
struct OptimizerUse {
  std::int64_t range_ns = 0;      // Optimizer.step from its start to its end
  std::int64_t operators_ns = 0;  // of it, operators at work
  std::int64_t overhead_ns = 0;   // of those, what is not their work
  std::int64_t held_up_ns = 0;    // of the range, calls that other processes held up
  std::uint64_t operators = 0;
  std::uint64_t tensors = 0;  // calls of the operator that is called most: one a tensor
};
OptimizerUse optimizer_use(const Situation& situation);
// What operators of a CPU that are no matmuls work, outside of the optimizer, without overhead.
std::int64_t other_work_ns(const Situation& situation);
// What a CPU spends on operators that checkpointing runs again.
std::int64_t recomputed_ns(const Situation& situation);
// In rules_matmul.cc.
std::optional<Finding> precision_rule(const Situation& situation);
std::optional<Finding> matmul_rule(const Situation& situation);

// Whether generated code of torch.compile runs.
bool is_compiled(const Trace& trace);
// The finding of one line of the ledger: its share of the window is the most there is to win.
Finding finding_of(const Situation& situation, std::string code, Cause cause, std::int64_t ns);
// The name a person knows a kernel by: template arguments and parameters cut.
std::string short_name(std::string_view kernel);
// What the host was in, of the idle lines of that cause, longest first.
std::vector<NotedItem> idle_list(const Situation& situation, LedgerLine cause, std::size_t most);
// Where in the user's code that cause shows first; empty where no stacks were recorded.
std::string idle_code(const Situation& situation, LedgerLine cause);

}  // namespace mfu
