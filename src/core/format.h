/* The formats of files that are met where data or a model is asked for: one table of their first
 * bytes, which every reader uses, and what can be told of files that have no such bytes. */
#ifndef AC_CORE_FORMAT_H
#define AC_CORE_FORMAT_H

#include <accrue/format.h>

typedef enum ac_format {
  AC_FORMAT_UNKNOWN,
  AC_FORMAT_TEXT,
  AC_FORMAT_JSON,
  AC_FORMAT_GZIP,
  AC_FORMAT_SAFETENSORS,
  AC_FORMAT_IDX,
  AC_FORMAT_CIFAR10,
  AC_FORMAT_CIFAR100,
  AC_FORMAT_LLMC_UINT16,
  AC_FORMAT_LLMC_UINT32,
  AC_FORMAT_TOKENS,  /* perhaps: little-endian uint16 */
  AC_FORMAT_FOREIGN, /* one that the table names and no reader takes */
} ac_format;

/* `name` (may be NULL) gets what ac_format_name returns. Of a file without a header the answer is a
 * guess, good for a sentence about a file that is refused for another reason. */
ac_format ac_format_of(const uint8_t *data, size_t count, uint64_t file_bytes, const char **name);

/* The same by first bytes alone: no guesses. Text and JSON are unknown to it. */
ac_format ac_format_by_magic(const uint8_t *data, size_t count, uint64_t file_bytes,
                             const char **name);

/* True if bytes are not text in any encoding that contains ASCII: there is a zero among the first
 * 8000, as in Git's rule, or more than one in a hundred (and four) is a control character. */
bool ac_format_is_binary(const uint8_t *data, size_t count);

#endif
