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
// In rules_matmul.cc.
std::optional<Finding> precision_rule(const Situation& situation);
std::optional<Finding> matmul_rule(const Situation& situation);

// The finding of one line of the ledger: its share of the window is the most there is to win.
Finding finding_of(const Situation& situation, std::string code, Cause cause, std::int64_t ns);
// The name a person knows a kernel by: template arguments and parameters cut.
std::string short_name(std::string_view kernel);
// What the host was in, of the idle lines of that cause, longest first.
std::vector<NotedItem> idle_list(const Situation& situation, LedgerLine cause, std::size_t most);
// Where in the user's code that cause shows first; empty where no stacks were recorded.
std::string idle_code(const Situation& situation, LedgerLine cause);

}  // namespace mfu
