#include "mfu/sink.h"
#include "sinks/table.h"

namespace mfu {

std::string to_text(const DoctorReport& report, const TextStyle& style) {
  std::string text;
  for (const Probe& probe : report.probes) {
    std::string mark = probe.works ? (style.unicode ? "✓" : "ok") : (style.unicode ? "–" : "--");
    text += inked(mark, probe.works ? Ink::green : Ink::yellow, style) + " " +
            inked(probe.name, Ink::bold, style) + "\n";
    text += "    " + wrapped(probe.finding, style.width, 4) + "\n";
    if (!probe.remedy.empty()) {
      text += "    " + inked("to mend:", Ink::cyan, style) + " " +
              wrapped(probe.remedy, style.width, 13) + "\n";
    }
  }
  return text;
}

}  // namespace mfu
