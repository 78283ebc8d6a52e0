// What the end of a step may bring beyond its record: the beginning or the end of a window of
// profiled steps, and the end of the program after so many steps. Asked for by the launcher, before
// the program starts or through the region's request word. docs/explain.md has the rules.
#pragma once

#include <cstdint>
#include <string>

namespace mfu::observer {

// `directory`: where traces go. `asked`: "steps=3 after=5 ranks=0,1 stacks=1 stop=20", any order;
// each may be missing. Once a process, before its first step.
void ask_window(const std::string& directory, const std::string& asked) noexcept;

// On the thread that ended a step, right after its record was written. `steps`: ended so far.
void step_ended(std::uint64_t steps) noexcept;

// A pass ended on this thread: a window that no step comes to end is ended here.
void pass_ended() noexcept;

// Another profiler begins: ours must be off before, and stays off from now on.
void other_profiler() noexcept;

// Ends a window that this thread began, and waits for its trace to be written. `goodbye`: the
// process ends.
void end_window(bool goodbye) noexcept;

// True once the program was asked to end here.
bool is_stopping() noexcept;

// Told when a window begins (1), is about to end (2), or has ended (0).
void set_window_seen(void (*seen)(int)) noexcept;

// In a forked child: nothing is under way.
void forget_window() noexcept;

}  // namespace mfu::observer
