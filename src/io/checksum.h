/* Checksums in safetensors files: XXH3, 64 bits, of xxHash's header alone, so that nothing has to
 * be linked. They find damage, not forgery. The metadata has them as hexadecimal digits:
 *
 *   AC_TENSOR_CHECKSUMS   16 digits for each tensor's data, in the order of the data
 *   AC_HEADER_CHECKSUM    16 digits for all bytes before the data, these digits taken as zeros
 */
#ifndef AC_IO_CHECKSUM_H
#define AC_IO_CHECKSUM_H

#define XXH_INLINE_ALL
#include <xxhash.h>

#define AC_TENSOR_CHECKSUMS "accrue.xxh3"
#define AC_HEADER_CHECKSUM "accrue.header_xxh3"

enum { AC_CHECKSUM_DIGITS = 16 };

/* Where in the header's text the value of this metadata begins; NULL: nowhere. Quotes within names
 * and values are escaped, so nothing else looks like it. */
char *ac_checksum_digits(char *header, const char *key);

/* The checksum of the 8 bytes before the header and of its text of `length` bytes, which ends in a
 * 0. */
uint64_t ac_header_checksum(const unsigned char prefix[8], char *header, size_t length);

#endif
