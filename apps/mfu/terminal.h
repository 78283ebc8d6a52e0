// What the terminal can show, and leaving it clean.
#pragma once

#include "sinks/table.h"

#include <string>

namespace mfu::app {

// Width, colour and character set of standard output (or of another descriptor); `color` is auto,
// always or never.
TextStyle terminal_style(const std::string& color, int descriptor = 1);

bool stderr_is_terminal();

// An interrupt ends quietly with the line cleared; a closed pipe ends quietly.
void set_signal_manners();

}  // namespace mfu::app
