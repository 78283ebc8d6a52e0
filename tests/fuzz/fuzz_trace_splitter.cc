// The document reader gives the same events for pieces of two sizes.
#include <cstdint>
#include <string>
#include <vector>

#include "trace/document.h"

namespace {

struct Names : mfu::DocumentSink {
  void event(const mfu::EventText& event) override {
    texts.emplace_back(event.value(mfu::Key::name));
  }
  void member(std::string_view name, std::string_view) override { texts.emplace_back(name); }
  std::vector<std::string> texts;
};

struct Outcome {
  std::vector<std::string> texts;
  mfu::DocumentEnd end;
  std::uint64_t malformed, repaired;
};

Outcome read_in_pieces(std::string_view text, std::size_t piece) {
  Names names;
  mfu::DocumentReader reader(names);
  std::string window;
  std::size_t at = 0;
  for (bool last = false; !last && !reader.over();) {
    std::size_t size = std::min(piece, text.size() - at);
    window.append(text.substr(at, size));
    at += size;
    last = size == 0;
    const char* begin = window.data();
    const char* rest = reader.take(begin, begin + window.size(), last);
    if (rest < begin || rest > begin + window.size()) __builtin_trap();
    window.erase(0, static_cast<std::size_t>(rest - begin));
  }
  return {names.texts, reader.end(), reader.counts().malformed, reader.counts().repaired};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  Outcome whole = read_in_pieces(text, size + 1);
  Outcome pieces = read_in_pieces(text, size > 0 ? 1 + data[size - 1] % 31 : 1);
  // If something was mended or skipped, the result may depend on how much the reader sees at once.
  bool clean = whole.malformed + whole.repaired + pieces.malformed + pieces.repaired == 0;
  if (clean && (whole.texts != pieces.texts || whole.end != pieces.end)) __builtin_trap();
  return 0;
}
