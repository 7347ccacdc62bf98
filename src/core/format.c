/* Formats are told by their first bytes (the table), then by properties that the whole file must
 * have: records of CIFAR have a fixed size and small labels, text has no control characters, and
 * uint16 tokens are mostly small numbers. */
#include "core/format.h"

#include "core/error.h"
#include "core/little_endian.h"

#include <string.h>

/* ---- first bytes ----------------------------------------------------------------------------- */

typedef struct magic {
  uint32_t offset, length;
  const char *bytes;
  const char *name;
  ac_format format;
} magic;

#define MAGIC(offset, bytes, name, format) \
  { offset, sizeof bytes - 1, bytes, name, format }

static const magic magics[] = {
    MAGIC(0, "\x1f\x8b\x08", "gzip data", AC_FORMAT_GZIP),
    MAGIC(0, "PK\x03\x04", "a zip archive, as PyTorch writes models", AC_FORMAT_FOREIGN),
    MAGIC(0, "PK\x05\x06", "an empty zip archive", AC_FORMAT_FOREIGN),
    MAGIC(0, "\x89PNG\r\n\x1a\n", "a PNG picture", AC_FORMAT_FOREIGN),
    MAGIC(0, "\xff\xd8\xff", "a JPEG picture", AC_FORMAT_FOREIGN),
    MAGIC(0, "GIF89a", "a GIF picture", AC_FORMAT_FOREIGN),
    MAGIC(0, "GIF87a", "a GIF picture", AC_FORMAT_FOREIGN),
    MAGIC(8, "WEBPVP8", "a WebP picture", AC_FORMAT_FOREIGN),
    MAGIC(8, "WAVEfmt ", "a WAVE recording", AC_FORMAT_FOREIGN),
    MAGIC(0, "\x93NUMPY", "a NumPy array", AC_FORMAT_FOREIGN),
    MAGIC(0, "GGUF\x01\0\0\0", "a GGUF model", AC_FORMAT_FOREIGN),
    MAGIC(0, "GGUF\x02\0\0\0", "a GGUF model", AC_FORMAT_FOREIGN),
    MAGIC(0, "GGUF\x03\0\0\0", "a GGUF model", AC_FORMAT_FOREIGN),
    MAGIC(0, "\x88\xd8\x34\x01\x01\0\0\0", "an llm.c file of uint16 tokens", AC_FORMAT_LLMC_UINT16),
    MAGIC(0, "\xa1\xd9\x34\x01\x07\0\0\0", "an llm.c file of uint32 tokens", AC_FORMAT_LLMC_UINT32),
    MAGIC(0, "\x88\xd8\x34\x01", "an llm.c file of tokens of an unknown version",
          AC_FORMAT_FOREIGN),
    MAGIC(0, "\xa1\xd9\x34\x01", "an llm.c file of tokens of an unknown version",
          AC_FORMAT_FOREIGN),
    MAGIC(0, "\xc6\xd7\x34\x01", "an llm.c model", AC_FORMAT_FOREIGN),
    MAGIC(0, "%PDF-", "a PDF document", AC_FORMAT_FOREIGN),
    MAGIC(0,
          "\x7f"
          "ELF",
          "a program or library (ELF)", AC_FORMAT_FOREIGN),
    MAGIC(0, "\x28\xb5\x2f\xfd", "zstd data", AC_FORMAT_FOREIGN),
    MAGIC(0,
          "\xfd"
          "7zXZ\0",
          "xz data", AC_FORMAT_FOREIGN),
    MAGIC(4, "1AY&SY", "bzip2 data", AC_FORMAT_FOREIGN),
    MAGIC(257, "ustar", "a tar archive", AC_FORMAT_FOREIGN),
    MAGIC(0, "7z\xbc\xaf\x27\x1c", "a 7z archive", AC_FORMAT_FOREIGN),
    MAGIC(0, "\x89HDF\r\n\x1a\n", "an HDF5 file", AC_FORMAT_FOREIGN),
    MAGIC(0, "SQLite format 3\0", "an SQLite database", AC_FORMAT_FOREIGN),
    MAGIC(0, "PAR1\x15", "a Parquet table", AC_FORMAT_FOREIGN),
    MAGIC(0, "ARROW1\0\0", "an Arrow table", AC_FORMAT_FOREIGN),
    MAGIC(0, "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19", "a PyTorch file", AC_FORMAT_FOREIGN),
    MAGIC(0, "\x80\x04\x95", "a Python pickle", AC_FORMAT_FOREIGN),
};

static bool begins_with(const uint8_t *data, size_t count, const magic *m) {
  return count >= m->offset + m->length && !memcmp(data + m->offset, m->bytes, m->length);
}

/* Its length comes first, then an object of JSON. */
static bool is_safetensors(const uint8_t *data, size_t count, uint64_t file_bytes) {
  if (count < 10 || data[8] != '{' || !data[9] || !strchr("\"} \n\r\t", data[9])) return false;
  const uint64_t length = ac_little_endian(data, 8);
  return length >= 2 && length <= 100000000 && (!file_bytes || length <= file_bytes - 8);
}

/* Two zeros are a weak sign, so the sizes in the header have to come to the file's. */
static bool is_idx(const uint8_t *data, size_t count, uint64_t file_bytes) {
  static const uint8_t element_bytes[16] = {
      [8] = 1, [9] = 1, [11] = 2, [12] = 4, [13] = 4, [14] = 8};
  if (count < 8 || data[0] || data[1] || data[2] > 15 || !element_bytes[data[2]]) return false;
  const size_t rank = data[3], header = 4 + 4 * rank;
  if (!rank || rank > 8 || count < header) return false;
  uint64_t bytes = element_bytes[data[2]];
  for (size_t i = 0; i < rank; i++) {
    const uint8_t *at = data + 4 + 4 * i;
    const uint64_t size =
        (uint64_t)at[0] << 24 | (uint64_t)at[1] << 16 | (uint64_t)at[2] << 8 | at[3];
    if (!size || bytes > (uint64_t)INT64_MAX / size) return false;
    bytes *= size;
  }
  return !file_bytes || bytes + header == file_bytes;
}

static ac_format found(ac_format format, const char *text, const char **name) {
  if (name) *name = text;
  return format;
}

ac_format ac_format_by_magic(const uint8_t *data, size_t count, uint64_t file_bytes,
                             const char **name) {
  for (size_t i = 0; i < sizeof magics / sizeof *magics; i++)
    if (begins_with(data, count, &magics[i])) return found(magics[i].format, magics[i].name, name);
  if (is_safetensors(data, count, file_bytes))
    return found(AC_FORMAT_SAFETENSORS, "a safetensors file", name);
  if (is_idx(data, count, file_bytes)) return found(AC_FORMAT_IDX, "an IDX file", name);
  return found(AC_FORMAT_UNKNOWN, NULL, name);
}

/* ---- what has no such bytes ------------------------------------------------------------------ */

static bool is_control(uint8_t byte) {
  return byte < 7 || (byte > 13 && byte < 27) || (byte > 27 && byte < 32) || byte == 127;
}

bool ac_format_is_binary(const uint8_t *data, size_t count) {
  enum { SEARCHED = 8000 };
  if (memchr(data, 0, count < SEARCHED ? count : SEARCHED)) return true;
  size_t controls = 0;
  for (size_t i = 0; i < count; i++) controls += is_control(data[i]);
  return controls > count / 100 + 4;
}

/* Every record's labels, as far as they are there. */
static bool is_cifar(const uint8_t *data, size_t count, uint64_t file_bytes, int label_bytes) {
  const size_t record = 3072 + (size_t)label_bytes;
  if (!file_bytes || file_bytes % record || count < 2) return false;
  for (size_t i = 0; i + 1 < count; i += record)
    if (data[i] >= (label_bytes == 1 ? 10 : 20) || (label_bytes == 2 && data[i + 1] >= 100))
      return false;
  return true;
}

/* Half of the high bytes or more are below 4 (the first 1,024 tokens are the frequent ones), while
 * the low bytes differ. */
static bool may_be_tokens(const uint8_t *data, size_t count) {
  bool seen[256] = {false};
  size_t small = 0, different = 0;
  for (size_t i = 0; i + 1 < count; i += 2) {
    small += data[i + 1] < 4;
    different += !seen[data[i]];
    seen[data[i]] = true;
  }
  return count >= 64 && small >= count / 4 && different >= 8;
}

/* A byte-order mark, then mostly characters below 256. */
static bool is_utf16(const uint8_t *data, size_t count) {
  if (count < 4 || (data[0] ^ data[1]) != 1 || (data[0] & data[1]) != 0xfe) return false;
  const size_t high = data[0] == 0xff;
  size_t zeros = 0;
  for (size_t i = 2; i + 1 < count; i += 2) zeros += !data[i + high];
  return zeros > count / 4;
}

static bool begins_as_json(const uint8_t *data, size_t count) {
  size_t i = 0;
  while (i < count && strchr(" \t\r\n", data[i]) && data[i]) i++;
  if (i >= count || (data[i] != '{' && data[i] != '[')) return false;
  for (i++; i < count && data[i] && strchr(" \t\r\n", data[i]);) i++;
  return i < count && data[i] && strchr("\"{}[]-0123456789tfn", data[i]);
}

ac_format ac_format_of(const uint8_t *data, size_t count, uint64_t file_bytes, const char **name) {
  const ac_format known = ac_format_by_magic(data, count, file_bytes, name);
  if (known != AC_FORMAT_UNKNOWN || !count) return known;
  if (is_utf16(data, count))
    return found(AC_FORMAT_FOREIGN, "text in UTF-16 (convert it to UTF-8)", name);
  if (!ac_format_is_binary(data, count))
    return begins_as_json(data, count) ? found(AC_FORMAT_JSON, "JSON", name)
                                       : found(AC_FORMAT_TEXT, "text", name);
  if (is_cifar(data, count, file_bytes, 1))
    return found(AC_FORMAT_CIFAR10, "a file of CIFAR-10's records", name);
  if (is_cifar(data, count, file_bytes, 2))
    return found(AC_FORMAT_CIFAR100, "a file of CIFAR-100's records", name);
  if (may_be_tokens(data, count))
    return found(AC_FORMAT_TOKENS, "a file of numbers, perhaps uint16 tokens", name);
  return found(AC_FORMAT_UNKNOWN, NULL, name);
}

const char *ac_format_name(const void *data, size_t count, uint64_t file_bytes) {
  const char *name = NULL;
  if (count && !AC_GIVEN(data)) return NULL;
  ac_format_of(data, count, file_bytes, &name);
  return name;
}
