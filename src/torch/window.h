// What the end of a step may cause in addition to its record: a window of profiled steps begins or
// ends, or the program ends after so many steps. The launcher asks for it, before the program
// starts or through the region's request word. docs/explain.md has the rules.
#pragma once

#include <cstdint>
#include <string>

namespace mfu::observer {

// `directory` is where traces go. `asked` is "steps=3 after=5 ranks=0,1 stacks=1 stop=20", in any
// order; each may be missing. Call it once per process, before its first step.
void ask_window(const std::string& directory, const std::string& asked) noexcept;

// Call it on the thread that ended a step, right after its record was written. `steps` have ended
// so far.
void step_ended(std::uint64_t steps) noexcept;

// A pass ended on this thread. If no step comes to end the window, it ends here.
void pass_ended() noexcept;

// Another profiler is about to start. Ours must stop first, and stays off from now on.
void other_profiler() noexcept;

// Ends a window that this thread began, and waits until its trace is written. `goodbye`: the
// process ends.
void end_window(bool goodbye) noexcept;

// True once the program was asked to end.
bool is_stopping() noexcept;

// `seen` is called when a window begins (1), is about to end (2), or has ended (0).
void set_window_seen(void (*seen)(int)) noexcept;

// For a forked child, where nothing is under way.
void forget_window() noexcept;

}  // namespace mfu::observer
