/* FNV-1a, 64 bits: keys and checksums of what is cached, random numbers by name. It tells apart
 * what chance would mix up, and nothing that is made on purpose. */
#ifndef AC_CORE_HASH_H
#define AC_CORE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define AC_HASH_BEGIN 0xcbf29ce484222325u

/* Continued from `hash`. */
static inline uint64_t ac_hash(uint64_t hash, const void *data, size_t bytes) {
  const unsigned char *byte = data;
  for (size_t i = 0; i < bytes; i++) hash = (hash ^ byte[i]) * 0x100000001b3u;
  return hash;
}

static inline uint64_t ac_hash_text(const char *text) {
  return ac_hash(AC_HASH_BEGIN, text, strlen(text));
}

#endif
