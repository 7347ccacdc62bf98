#include "tools/event_reader.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t masked_crc(const unsigned char *data, size_t bytes) {
  uint32_t crc = 0xffffffff;
  for (size_t i = 0; i < 8 * bytes; i++) {
    const uint32_t bit = (uint32_t)(data[i / 8] >> i % 8 & 1) ^ (crc & 1);
    crc = crc >> 1 ^ (bit ? 0x82f63b78 : 0);
  }
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static uint64_t little_endian(const unsigned char *data, int bytes) {
  uint64_t x = 0;
  for (int i = bytes - 1; i >= 0; i--) x = x << 8 | data[i];
  return x;
}

static bool wrong(const char *path, int record, const char *what) {
  fprintf(stderr, "%s: record %d: %s\n", path, record, what);
  return false;
}

static bool add(event_list *list, const unsigned char *data, size_t bytes) {
  Tb__Event *event = tb__event__unpack(NULL, bytes, data);
  if (!event) return false;
  list->events = realloc(list->events, (size_t)(list->count + 1) * sizeof *list->events);
  list->events[list->count++] = event;
  return true;
}

/* Length, its checksum, data, their checksum. */
static bool read_records(event_list *list, const char *path, FILE *stream) {
  unsigned char head[12], tail[4];
  size_t got;
  while ((got = fread(head, 1, sizeof head, stream))) {
    const int record = list->count;
    if (got < sizeof head) return wrong(path, record, "ends in its length");
    if (little_endian(head + 8, 4) != masked_crc(head, 8))
      return wrong(path, record, "the checksum of its length is wrong");
    const size_t bytes = (size_t)little_endian(head, 8);
    unsigned char *data = malloc(bytes + 1);
    const bool whole =
        data && fread(data, 1, bytes, stream) == bytes && fread(tail, sizeof tail, 1, stream) == 1;
    const bool sound = whole && little_endian(tail, 4) == masked_crc(data, bytes);
    const bool added = sound && add(list, data, bytes);
    free(data);
    if (!whole) return wrong(path, record, "ends in its data");
    if (!sound) return wrong(path, record, "the checksum of its data is wrong");
    if (!added) return wrong(path, record, "is not an event");
  }
  return true;
}

bool event_list_read(event_list *list, const char *path) {
  *list = (event_list){0};
  FILE *stream = fopen(path, "rb");
  if (!stream) return wrong(path, 0, "cannot be opened");
  const bool good = read_records(list, path, stream);
  fclose(stream);
  return good;
}

bool event_list_read_folder(event_list *list, const char *folder) {
  *list = (event_list){0};
  char path[4096] = "";
  int files = 0;
  DIR *entries = opendir(folder);
  for (struct dirent *entry; entries && (entry = readdir(entries));) {
    if (strncmp(entry->d_name, "events.out.tfevents.", 20)) continue;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    files++;
  }
  if (entries) closedir(entries);
  if (files == 1) return event_list_read(list, path);
  fprintf(stderr, "%s: holds %d event files\n", folder, files);
  return false;
}

void event_list_free(event_list *list) {
  for (int i = 0; i < list->count; i++) tb__event__free_unpacked(list->events[i], NULL);
  free(list->events);
}

const Tb__Summary__Value *event_value(const Tb__Event *event) {
  const bool one = event->what_case == TB__EVENT__WHAT_SUMMARY && event->summary->n_value == 1;
  return one ? event->summary->value[0] : NULL;
}
