// Keeps the last row of the terminal for one line of ours. What the program prints scrolls above it
// (DECSTBM, as apt does for its progress). The terminal is given back by clear(), at exit, and by
// handlers of the signals that end a process; only SIGKILL leaves it changed.
#pragma once

#include <chrono>
#include <mutex>
#include <string>

namespace mfu::app {

class StatusRow {
 public:
  StatusRow();
  ~StatusRow();  // gives the terminal back
  StatusRow(const StatusRow&) = delete;
  StatusRow& operator=(const StatusRow&) = delete;

  // Shows the text, in the window's current size. Does nothing if standard error is not a terminal,
  // if the terminal is too small or too simple (TERM=dumb), if we are in the background, or if a
  // program reads it key by key (an editor, a pager, curses).
  void show(const std::string& text);
  // Moves the line if the size of the window has changed. Any thread may call it.
  void refresh();
  // Gives the row back. A later show() takes it again.
  void clear();
  // Gives the row back and shows nothing until resume(). While we are stopped, the terminal belongs
  // to the shell.
  void pause();
  void resume();

 private:
  void draw();
  void release(bool erase);

  std::mutex mutex_;
  bool able_ = false, paused_ = false;
  unsigned short rows_ = 0, columns_ = 0;  // size of the window when we drew; 0: nothing drawn
  std::chrono::steady_clock::time_point resized_{};
  std::string text_;
};

}  // namespace mfu::app
