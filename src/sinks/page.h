// A page in one file with style, script and data inside. It loads nothing, and its content policy
// lets only its own script run. Data goes in as JSON that cannot end its own element.
#pragma once

#include <string>
#include <string_view>

namespace mfu {

struct PageParts {
  std::string_view skeleton;  // with @TITLE@, @POLICY@, @STYLE@, @DATA@, @SCRIPT@, @VERSION@
  std::string_view style;
  std::string script;
  std::string title;
  std::string data;  // one JSON document
};
std::string assemble_page(const PageParts& parts);

}  // namespace mfu
