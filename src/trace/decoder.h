// Streaming decompression in bounded memory, whatever the archive claims.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace mfu {

class StreamDecoder {
 public:
  virtual ~StreamDecoder() = default;
  struct Step {
    std::size_t taken = 0;  // of the input
    std::size_t given = 0;  // to the output
    bool at_end = false;    // a member ended here; more may follow
  };
  // If nothing was taken and nothing given, the input is over.
  virtual Step decode(std::string_view in, char* to, std::size_t most) = 0;
  virtual std::optional<std::string> problem() const = 0;
  // Whether the input may end here, between members.
  virtual bool complete() const = 0;
};

// Null if the first bytes belong to neither format.
std::unique_ptr<StreamDecoder> decoder_for(std::string_view first_bytes);

}  // namespace mfu
