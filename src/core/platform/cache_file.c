#include "core/platform/cache_file.h"

#include "core/platform/atomic_file.h"
#include "core/error.h"
#include "core/platform/files.h"
#include "core/platform/folders.h"
#include "core/platform/memory.h"

#include <inttypes.h>
#include <stdio.h>

ac_cache_file ac_cache_file_of(const char *folder, const char *prefix, uint64_t key,
                               const char *suffix) {
  ac_cache_file file = {""};
  char parent[3072];
  if (!ac_cache_folder(parent, sizeof parent, folder)) return file;
  const int length =
      snprintf(file.path, sizeof file.path, "%s/%s%016" PRIx64 "%s", parent, prefix, key, suffix);
  if (length < 0 || (size_t)length >= sizeof file.path) file.path[0] = 0;
  return file;
}

static FILE *open_to_read(const ac_cache_file *file) {
  return file->path[0] ? ac_open_trusted(file->path) : NULL;
}

size_t ac_cache_file_bytes(const ac_cache_file *file) {
  FILE *stream = open_to_read(file);
  if (!stream) return 0;
  const int64_t bytes = ac_seek(stream, 0, SEEK_END) == 0 ? ac_tell(stream) : 0;
  fclose(stream);
  return bytes > 0 && (uint64_t)bytes < ac_memory_left() ? (size_t)bytes : 0;
}

bool ac_cache_file_read(const ac_cache_file *file, void *data, size_t bytes) {
  FILE *stream = open_to_read(file);
  if (!stream) return false;
  const bool good = fread(data, 1, bytes, stream) == bytes && fgetc(stream) == EOF;
  fclose(stream);
  return good;
}

static void write_whole(const char *path, const void *head, size_t head_bytes, const void *body,
                        size_t body_bytes) {
  ac_atomic_file whole;
  if (ac_atomic_open(&whole, path) != AC_OK) return;
  ac_atomic_keep_to_user(&whole);
  if (ac_atomic_write(&whole, head, head_bytes) == AC_OK &&
      ac_atomic_write(&whole, body, body_bytes) == AC_OK)
    ac_atomic_commit(&whole);
  else ac_atomic_abandon(&whole);
}

void ac_cache_file_write(const ac_cache_file *file, const void *head, size_t head_bytes,
                         const void *body, size_t body_bytes) {
  const ac_kept_error kept = ac_error_keep();
  if (file->path[0]) write_whole(file->path, head, head_bytes, body, body_bytes);
  ac_error_restore(&kept);
}
