#include "tensorboard/event_file.h"

#include "common/crc32c.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* TensorBoard reads the files of a folder in order of their names. A file of a resumed run must
 * come after the files that the run has written before, also within the same second, and if the
 * clock was set back. So its number is higher than all that are there. */
static long long seconds_for_name(const char *folder) {
  enum { DIGITS = 10 };
  const long long most = 9999999999; /* one more would need another digit, and sort first */
  static const char prefix[] = "events.out.tfevents.";
  long long seconds = (long long)time(NULL);
  DIR *directory = opendir(folder);
  struct dirent *entry;
  while (directory && (entry = readdir(directory))) {
    const char *number = entry->d_name + sizeof prefix - 1;
    if (strncmp(entry->d_name, prefix, sizeof prefix - 1) != 0) continue;
    if (strspn(number, "0123456789") != DIGITS || number[DIGITS] != '.') continue;
    const long long other = strtoll(number, NULL, 10);
    if (other >= seconds && other < most) seconds = other + 1;
  }
  if (directory) closedir(directory);
  return seconds;
}

/* Two runs that begin in the same second on hosts with the same name may have the same number. */
static int open_new(const char *folder, char path[EVENT_PATH_BYTES]) {
  enum { TRIES = 1000, HOST_BYTES = 256 };
  char host[HOST_BYTES] = "localhost";
  gethostname(host, sizeof host - 1);
  const long long now = seconds_for_name(folder);
  int descriptor = -1;
  errno = EEXIST;
  for (int number = 0; descriptor < 0 && errno == EEXIST && number < TRIES; number++) {
    snprintf(path, EVENT_PATH_BYTES, "%s/events.out.tfevents.%010lld.%s.%lld.%d", folder, now, host,
             (long long)getpid(), number);
    descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  }
  return descriptor;
}

bool event_file_open(event_file *file, const char *folder) {
  *file = (event_file){.error = 0};
  int descriptor = open_new(folder, file->path);
  if (descriptor < 0) return false;
  file->stream = fdopen(descriptor, "wb");
  if (!file->stream) {
    const int error = errno;
    close(descriptor);
    unlink(file->path);
    errno = error;
  }
  return file->stream != NULL;
}

static void put(unsigned char *out, uint64_t x, int bytes) {
  for (int i = 0; i < bytes; i++) out[i] = (unsigned char)(x >> 8 * i);
}

/* Masked, so that the CRC of data that contains CRCs is still useful. */
static uint32_t masked_crc(const void *data, size_t bytes) {
  uint32_t crc = crc32c(data, bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static bool write_record(FILE *stream, const void *data, size_t bytes) {
  unsigned char head[12], tail[4];
  put(head, bytes, 8);
  put(head + 8, masked_crc(head, 8), 4);
  put(tail, masked_crc(data, bytes), 4);
  return fwrite(head, sizeof head, 1, stream) == 1 &&
         (!bytes || fwrite(data, bytes, 1, stream) == 1) &&
         fwrite(tail, sizeof tail, 1, stream) == 1;
}

void event_file_add(event_file *file, const void *data, size_t bytes) {
  if (!file->error && !write_record(file->stream, data, bytes)) file->error = errno ? errno : EIO;
}

void event_file_flush(event_file *file) {
  if (!file->error && fflush(file->stream) != 0) file->error = errno ? errno : EIO;
}

int event_file_close(event_file *file) {
  event_file_flush(file);
  if (fclose(file->stream) != 0 && !file->error) file->error = errno ? errno : EIO;
  file->stream = NULL;
  return file->error;
}

void event_file_remove(event_file *file) {
  event_file_close(file);
  unlink(file->path);
}
