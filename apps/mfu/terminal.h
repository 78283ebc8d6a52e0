// Finds out what the terminal can show, and leaves it clean at the end.
#pragma once

#include "sinks/table.h"

#include <string>

namespace mfu::app {

// Width, colour and character set of standard output, or of another descriptor. `color` is auto,
// always or never.
TextStyle terminal_style(const std::string& color, int descriptor = 1);

bool stderr_is_terminal();

// After this call an interrupt clears the line and ends the program quietly, a closed pipe ends it
// quietly, and an abort exits with status 70 and a message.
void set_signal_manners();

}  // namespace mfu::app
