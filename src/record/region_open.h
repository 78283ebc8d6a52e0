// Opens the region of another process. The drainer maps it; a reader copies it. A region of layout
// 1 is returned as layout 2.
#pragma once

#include <memory>
#include <string>

#include "mfu/result.h"
#include "record/region.h"
#include "record/region_v1.h"

namespace mfu {

class OpenRegion {
 public:
  static Result<OpenRegion> open(const std::string& path);

  // The current content. For layout 1, the content at the last refresh().
  const Region& region() const { return mapped_ ? *mapped_ : *copy_; }
  void refresh();
  void set_tail(std::uint64_t tail);
  // Asks the program for something (RequestKind). Returns false if its layout has no requests.
  bool request(std::uint64_t word);

 private:
  struct Unmapper {
    void operator()(Region* region) const;
    void operator()(v1::Region* region) const;
  };
  std::unique_ptr<Region, Unmapper> mapped_;
  std::unique_ptr<v1::Region, Unmapper> older_;
  std::unique_ptr<Region> copy_;
};

// Returns a copy, which no other process can change while it is read.
Result<std::unique_ptr<Region>> copy_region(const std::string& path);

}  // namespace mfu
