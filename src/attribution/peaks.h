// The peak each data type is compared with on one device of a trace.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "mfu/attribution.h"
#include "mfu/ops.h"

namespace mfu {

class Peaks {
 public:
  // `named`: as the trace calls the device; the options win over it.
  Peaks(const AttributionOptions& options, const std::string& named);

  struct Choice {
    Precision precision = Precision::fp32;  // asked for
    FlopRate rate;
    std::string source;
  };
  // None where the type is no matrix type, or there is no peak for it.
  std::optional<Choice> of(ElementType type, bool tf32) const;
  const std::optional<Device>& device() const { return device_; }
  bool known() const { return device_.has_value() || options_.peak.has_value(); }
  // What to say of it, and what to pass where it is not known.
  const std::vector<std::string>& notes() const { return notes_; }
  // The fastest type a training matmul could use instead, where that is faster.
  std::optional<Choice> faster_than(Precision precision) const;

 private:
  const AttributionOptions& options_;
  std::optional<Device> device_;
  std::vector<std::string> notes_;
};

std::optional<Precision> precision_of(ElementType type);

}  // namespace mfu
