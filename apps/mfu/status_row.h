// The last row of the terminal that standard error is, kept for a line of ours: what the program
// prints scrolls above it (DECSTBM, as apt's progress does). The terminal is given back on every
// way out but SIGKILL: by clear(), at exit, and by a handler for the signals of a crash.
#pragma once

#include <mutex>
#include <string>

namespace mfu::app {

class StatusRow {
 public:
  StatusRow();
  ~StatusRow();  // gives the terminal back
  StatusRow(const StatusRow&) = delete;
  StatusRow& operator=(const StatusRow&) = delete;

  // Shows the text; a window whose size has changed is laid out again. Nothing happens where there
  // is no terminal, it is too small or cannot do it (TERM=dumb), we are in the background, or a
  // program reads it key by key (an editor, a pager, curses), which then has the screen.
  void show(const std::string& text);
  // Where the window's size has changed, the line moves with it.
  void refresh();
  // Gives the row back; a later show() takes it again.
  void clear();

 private:
  void draw();
  void release(bool erase);

  std::mutex mutex_;
  bool able_ = false;
  unsigned short rows_ = 0, columns_ = 0;  // laid out for; 0: not laid out
  std::string text_;
};

}  // namespace mfu::app
