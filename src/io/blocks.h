/* Weights in blocks, as GGUF files hold them: those that parameters can have (core/blocks.h), and
 * others that are only read. Their layout is ggml's; what they decode to is equal, bit for bit, to
 * what its reference yields. */
#ifndef AC_IO_BLOCKS_H
#define AC_IO_BLOCKS_H

#include "core/blocks.h"

/* By ggml's number of a type; NULL: there is none, or it is not in blocks. */
const ac_block_format *ac_block_format_of(uint32_t type);

#endif
