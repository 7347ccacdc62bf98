#include "program/fingerprint.h"

#include "common/message.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static uint64_t field_bytes(const ac_field *field) {
  return (uint64_t)field->elements * ac_dtype_bytes(field->dtype);
}

/* Room for one sample; free the first. */
static bool make_room(const ac_dataset *dataset, void *fields[AC_MAX_FIELDS]) {
  uint64_t bytes = 0;
  for (int k = 0; k < ac_dataset_field_count(dataset); k++)
    bytes += (field_bytes(ac_dataset_field(dataset, k)) + 63) / 64 * 64;
  char *room = malloc(bytes + 1);
  for (int k = 0; room && k < ac_dataset_field_count(dataset); k++) {
    fields[k] = room;
    room += (field_bytes(ac_dataset_field(dataset, k)) + 63) / 64 * 64;
  }
  return room;
}

static uint64_t sample_bytes(const ac_dataset *dataset) {
  uint64_t bytes = 0;
  for (int k = 0; k < ac_dataset_field_count(dataset); k++)
    bytes += field_bytes(ac_dataset_field(dataset, k));
  return bytes;
}

static ac_status add_samples(ac_dataset *dataset, bool decoded, XXH3_state_t *state,
                             void *const fields[AC_MAX_FIELDS]) {
  enum { PICTURES = 16 };
  const int64_t count = ac_dataset_count(dataset);
  const int64_t most =
      decoded ? PICTURES : 2 + (int64_t)(FINGERPRINT_BYTES / (sample_bytes(dataset) + 1));
  const int64_t taken = count < most ? count : most;
  for (int64_t i = 0; i < taken; i++) {
    const double part = taken > 1 ? (double)i / (double)(taken - 1) : 0;
    const int64_t place = taken == count ? i : (int64_t)(part * (double)(count - 1));
    const ac_sample_key key = {.index = place};
    ac_status status = ac_dataset_read(dataset, &key, fields);
    if (status != AC_OK) return status;
    for (int k = 0; k < ac_dataset_field_count(dataset); k++)
      XXH3_64bits_update(state, fields[k], field_bytes(ac_dataset_field(dataset, k)));
  }
  return AC_OK;
}

/* Of pictures the names of files and the classes, as decoding takes long. */
static void add_names(const ac_pictures *list, XXH3_state_t *state) {
  for (int64_t i = 0; i < ac_pictures_count(list); i++) {
    const char *path = ac_pictures_path(list, i), *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    const int64_t label = ac_pictures_label(list, i);
    XXH3_64bits_update(state, name, strlen(name) + 1);
    XXH3_64bits_update(state, &label, sizeof label);
  }
}

static int add_dataset(ac_dataset *dataset, const ac_pictures *list, XXH3_state_t *state) {
  const int64_t count = dataset ? ac_dataset_count(dataset) : 0;
  XXH3_64bits_update(state, &count, sizeof count);
  if (!dataset) return STATUS_CONTINUE;
  for (int k = 0; k < ac_dataset_field_count(dataset); k++) {
    const ac_field *field = ac_dataset_field(dataset, k);
    const int64_t numbers[] = {field->elements, field->dtype};
    XXH3_64bits_update(state, field->name, strlen(field->name) + 1);
    XXH3_64bits_update(state, numbers, sizeof numbers);
  }
  void *fields[AC_MAX_FIELDS] = {0};
  if (!make_room(dataset, fields)) return fail("out of memory");
  add_names(list, state);
  ac_status status = add_samples(dataset, list != NULL, state, fields);
  free(fields[0]);
  return status == AC_OK ? STATUS_CONTINUE : fail_library();
}

int fingerprint_file(const char *path, char text[17]) {
  enum { PIECE = 1 << 16 };
  FILE *file = fopen(path, "rb");
  char *piece = malloc(PIECE);
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  for (size_t bytes; file && piece && (bytes = fread(piece, 1, PIECE, file)) > 0;)
    XXH3_64bits_update(&state, piece, bytes);
  const bool good = file && piece && !ferror(file);
  const int error = piece ? errno : ENOMEM;
  if (file) fclose(file);
  free(piece);
  snprintf(text, 17, "%016" PRIx64, (uint64_t)XXH3_64bits_digest(&state));
  return good ? STATUS_CONTINUE : fail("cannot read %s: %s", path, strerror(error));
}

int fingerprint(const train_data *data, const char *rank, char text[17]) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  if (rank) XXH3_64bits_update(&state, rank, strlen(rank));
  const ac_pictures *training = data->training ? data->training : data->all;
  ac_dataset *validation = data->judged ? data->judged : data->validation;
  int status = add_dataset(data_plain(data), training, &state);
  if (status == STATUS_CONTINUE) status = add_dataset(validation, data->validating, &state);
  snprintf(text, 17, "%016" PRIx64, (uint64_t)XXH3_64bits_digest(&state));
  return status;
}
