#include "sinks/sentences.h"

#include <vector>

#include "base/embed.h"
#include "base/text.h"
#include "mfu/result.h"

MFU_EMBED(mfu_sentences_txt, MFU_SINKS_DIR "/sentences.txt");

namespace mfu {

namespace {

struct Sentence {
  std::string_view kind, code, text;
};

std::vector<Sentence> read_sentences() {
  std::vector<Sentence> all;
  for (std::string_view line : split({mfu_sentences_txt, mfu_sentences_txt_end}, '\n')) {
    if (line.empty() || line[0] == '#') continue;
    std::size_t kind = line.find(' '), code = line.find(' ', kind + 1);
    MFU_ASSERT(code != std::string_view::npos);
    all.push_back(
        {line.substr(0, kind), line.substr(kind + 1, code - kind - 1), line.substr(code + 1)});
  }
  return all;
}

}  // namespace

std::string_view sentence_of(std::string_view kind, std::string_view code) {
  static const auto* const kSentences = new std::vector<Sentence>(read_sentences());
  for (const Sentence& each : *kSentences) {
    if (each.code == code && each.kind == kind) return each.text;
  }
  return {};
}

}  // namespace mfu
