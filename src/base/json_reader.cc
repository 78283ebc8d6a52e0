#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "base/text.h"

namespace mfu {

namespace {

// A config is nested a dozen levels deep and has a few thousand values. A hostile one must not
// exhaust stack or memory.
constexpr int kDeepest = 128;
constexpr std::size_t kMostValues = 4'000'000;

void append_utf8(std::string& text, std::uint32_t point) {
  auto put = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xC0 | (point >> 6));
    put(0x80 | (point & 0x3F));
  } else if (point < 0x10000) {
    put(0xE0 | (point >> 12));
    put(0x80 | ((point >> 6) & 0x3F));
    put(0x80 | (point & 0x3F));
  } else {
    put(0xF0 | (point >> 18));
    put(0x80 | ((point >> 12) & 0x3F));
    put(0x80 | ((point >> 6) & 0x3F));
    put(0x80 | (point & 0x3F));
  }
}

}  // namespace

class JsonReader {
 public:
  JsonReader(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  Result<Json> document() {
    Json document = MFU_TRY(value(0));
    skip_blank();
    if (at_ != text_.size()) return wrong("something follows the end of the document");
    return document;
  }

 private:
  Failure wrong(std::string_view what) const {
    std::string_view before = text_.substr(0, std::min(at_, text_.size()));
    auto line = 1 + std::count(before.begin(), before.end(), '\n');
    std::size_t newline = before.rfind('\n');
    std::size_t column = newline == std::string_view::npos ? at_ + 1 : at_ - newline;
    return fail(ErrorCode::malformed,
                fmt::format("{}:{}:{}: not JSON: {}", name_, line, column, what));
  }

  void skip_blank() {
    while (at_ < text_.size() &&
           std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) {
      ++at_;
    }
  }

  bool take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  Result<Json> value(int depth) {
    if (depth > kDeepest) return wrong(fmt::format("nested deeper than {} levels", kDeepest));
    if (++values_ > kMostValues) return wrong("more values than a config can have");
    skip_blank();
    if (at_ == text_.size()) return wrong("it ends where a value was expected");
    switch (text_[at_]) {
      case '{':
        return object(depth);
      case '[':
        return array(depth);
      case '"':
        return string();
      default:
        return word_or_number();
    }
  }

  Result<Json> object(int depth) {
    Json json;
    json.kind_ = Json::Kind::object;
    ++at_;
    skip_blank();
    if (take("}")) return json;
    while (true) {
      skip_blank();
      if (at_ == text_.size() || text_[at_] != '"') return wrong("a name in quotes was expected");
      Json name = MFU_TRY(string());
      skip_blank();
      if (!take(":")) return wrong("':' was expected");
      Json content = MFU_TRY(value(depth + 1));
      json.members_.emplace_back(std::move(name.text_), std::move(content));
      skip_blank();
      if (take("}")) return json;
      if (!take(",")) return wrong("',' or '}' was expected");
    }
  }

  Result<Json> array(int depth) {
    Json json;
    json.kind_ = Json::Kind::array;
    ++at_;
    skip_blank();
    if (take("]")) return json;
    while (true) {
      json.elements_.push_back(MFU_TRY(value(depth + 1)));
      skip_blank();
      if (take("]")) return json;
      if (!take(",")) return wrong("',' or ']' was expected");
    }
  }

  Result<Json> string() {
    Json json;
    json.kind_ = Json::Kind::string;
    ++at_;
    while (at_ < text_.size()) {
      std::size_t end = std::min(text_.find_first_of("\"\\", at_), text_.size());
      json.text_ += text_.substr(at_, end - at_);
      at_ = end;
      if (at_ == text_.size()) break;
      if (text_[at_++] == '"') return json;
      if (!escape(json.text_)) return wrong("an escape that JSON does not have");
    }
    return wrong("a string does not end");
  }

  bool escape(std::string& text) {
    if (at_ == text_.size()) return false;
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kLetters = "\"\\/\b\f\n\r\t";
    char name = text_[at_++];
    std::size_t known = kNames.find(name);
    if (known != std::string_view::npos) {
      text += kLetters[known];
      return true;
    }
    auto point = name == 'u' ? hex() : std::nullopt;
    if (!point) return false;
    if (*point >= 0xD800 && *point < 0xDC00 && take("\\u")) {
      auto low = hex();
      if (!low || *low < 0xDC00 || *low > 0xDFFF) return false;
      point = 0x10000 + ((*point - 0xD800) << 10) + (*low - 0xDC00);
    } else if (*point >= 0xD800 && *point < 0xE000) {
      point = 0xFFFD;
    }
    append_utf8(text, *point);
    return true;
  }

  std::optional<std::uint32_t> hex() {
    if (text_.size() - at_ < 4) return std::nullopt;
    std::uint32_t point = 0;
    for (int i = 0; i < 4; ++i) {
      std::size_t digit =
          std::string_view("0123456789abcdef").find(to_lower(text_.substr(at_++, 1))[0]);
      if (digit == std::string_view::npos) return std::nullopt;
      point = point * 16 + static_cast<std::uint32_t>(digit);
    }
    return point;
  }

  Result<Json> word_or_number() {
    Json json;
    if (take("null")) return json;
    bool truth = text_[at_] == 't';
    if (take("true") || take("false")) {
      json.kind_ = Json::Kind::boolean;
      json.truth_ = truth;
      return json;
    }
    json.kind_ = Json::Kind::number;
    // Python's json writes these, so real configs have them. The value is not a finite number.
    for (std::string_view word : {"NaN", "Infinity", "-Infinity"}) {
      if (take(word)) {
        json.text_ = word;
        return json;
      }
    }
    std::size_t end = std::min(text_.find_first_not_of("+-.0123456789eE", at_), text_.size());
    json.text_ = text_.substr(at_, end - at_);
    if (!parse_number(json.text_)) return wrong("neither a value nor a number");
    at_ = end;
    return json;
  }

  std::string_view text_;
  std::string_view name_;
  std::size_t at_ = 0;
  std::size_t values_ = 0;
};

Result<Json> parse_json(std::string_view text, std::string_view name) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return JsonReader(text, name).document();
}

}  // namespace mfu
