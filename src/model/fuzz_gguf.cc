// libFuzzer: any bytes as a GGUF header.
#include "model/tensors.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  mfu::Diagnostics diagnostics;
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  auto file = mfu::parse_gguf_header(bytes, "fuzz");
  if (file) (void)mfu::model_of_tensors(*file, diagnostics);
  return 0;
}
