// The rules, one per cause. A rule returns nothing if its cause is not there.
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
// In rules_device.cc: what the device does in addition to matmuls.
std::optional<Finding> waiting_rule(const Situation& situation);
std::optional<Finding> transfer_rule(const Situation& situation);
std::optional<Finding> copies_rule(const Situation& situation);
std::optional<Finding> recomputation_rule(const Situation& situation);
std::optional<Finding> kernels_rule(const Situation& situation);
// In rules_machine.cc: what the observer saw in addition to the trace, and habits of the loop.
std::optional<Finding> threads_rule(const Situation& situation);
std::optional<Finding> optimizer_rule(const Situation& situation);
std::optional<Finding> tiny_rule(const Situation& situation);
std::optional<Finding> compile_rule(const Situation& situation);
// In rules_matmul.cc.
std::optional<Finding> precision_rule(const Situation& situation);
std::optional<Finding> matmul_rule(const Situation& situation);

// The finding for one line of the ledger. At most, its share of the window can be won.
Finding finding_of(const Situation& situation, std::string code, Cause cause, std::int64_t ns);
// The name of a kernel as people know it, without template arguments and parameters.
std::string short_name(std::string_view kernel);
// What the host was doing during the idle time of that cause, longest first.
std::vector<NotedItem> idle_list(const Situation& situation, LedgerLine cause, std::size_t most);
// Where that cause first shows in the user's code. Empty if no stacks were recorded.
std::string idle_code(const Situation& situation, LedgerLine cause);

}  // namespace mfu
