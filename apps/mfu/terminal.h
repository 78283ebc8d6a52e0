// Finds out what the terminal can show, and leaves it clean at the end.
#pragma once

#include "sinks/table.h"

#include <string>

namespace mfu::app {

// Width, colour and character set of standard output, or of another descriptor. `color` is auto,
// always or never.
TextStyle terminal_style(const std::string& color, int descriptor = 1);

bool stderr_is_terminal();

// Where standard input, output or error is closed, the first file that we open would get its
// number, and what we print would go into that file. Opens /dev/null there; reads and writes fail
// as before. A command that we start does not get it.
void hold_standard_descriptors();

// After this call an interrupt clears the line and ends the program quietly, a closed pipe ends it
// quietly, an abort exits with status 70 and a message, and a write beyond the limit of file sizes
// fails.
void set_signal_manners();

}  // namespace mfu::app
