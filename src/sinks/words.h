// The words that people read, made of what the library found. Text, JSON and pages share them.
#pragma once

#include <string>
#include <vector>

#include "mfu/report.h"

namespace mfu {

// Notes, and what is worth saying of the peak: nothing where it is the type's own and sure.
std::vector<std::string> with_peak(std::vector<std::string> notes, const ChosenPeak& peak);

}  // namespace mfu
