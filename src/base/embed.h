// Puts a file of the source tree into the program, byte by byte. The assembler does it, because
// g++ 12 has no #embed and a generator would be one more thing to build. At namespace scope:
// MFU_EMBED(mfu_catalog_csv, MFU_HARDWARE_DIR "/catalog.csv"); then the text is
// {mfu_catalog_csv, mfu_catalog_csv_end}.
#pragma once

#define MFU_EMBED(symbol, path)                                               \
  asm(".section .rodata\n.global " #symbol "\n" #symbol ":\n.incbin \"" path  \
      "\"\n.global " #symbol "_end\n" #symbol "_end:\n.byte 0\n.previous\n"); \
  extern "C" const char symbol[];                                             \
  extern "C" const char symbol##_end[]
