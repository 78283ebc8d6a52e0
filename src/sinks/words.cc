#include "sinks/words.h"

#include <fmt/format.h>

namespace mfu {

std::vector<std::string> with_peak(std::vector<std::string> notes, const ChosenPeak& peak) {
  if (peak.reason == PeakReason::wider_unit) {
    notes.push_back(fmt::format("the device has no unit for {}: its {} peak is taken",
                                name_of(*peak.precision), name_of(*peak.against)));
  }
  if (peak.confidence == Confidence::unverified) {
    notes.emplace_back("the peak is not verified in any source we found");
  }
  return notes;
}

}  // namespace mfu
