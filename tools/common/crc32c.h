/* CRC-32C (Castagnoli), as of RFC 3720, which guards records of event files. */
#ifndef TOOLS_COMMON_CRC32C_H
#define TOOLS_COMMON_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(const void *data, size_t bytes);

#endif
