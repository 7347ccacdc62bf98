#include "program/fingerprint.h"

#include "common/message.h"

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

static ac_status add_samples(ac_dataset *dataset, XXH3_state_t *state,
                             void *const fields[AC_MAX_FIELDS]) {
  const int64_t count = ac_dataset_count(dataset);
  const int64_t most = count < FINGERPRINT_SAMPLES ? count : FINGERPRINT_SAMPLES;
  for (int64_t i = 0; i < most; i++) {
    const ac_sample_key key = {
        .index = most > 1 ? (int64_t)((double)i * (double)(count - 1) / (double)(most - 1)) : 0};
    ac_status status = ac_dataset_read(dataset, &key, fields);
    if (status != AC_OK) return status;
    for (int k = 0; k < ac_dataset_field_count(dataset); k++)
      XXH3_64bits_update(state, fields[k], field_bytes(ac_dataset_field(dataset, k)));
  }
  return AC_OK;
}

int fingerprint(ac_dataset *dataset, char text[17]) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  const int64_t count = ac_dataset_count(dataset);
  XXH3_64bits_update(&state, &count, sizeof count);
  for (int k = 0; k < ac_dataset_field_count(dataset); k++) {
    const ac_field *field = ac_dataset_field(dataset, k);
    XXH3_64bits_update(&state, field->name, strlen(field->name) + 1);
    XXH3_64bits_update(&state, &field->elements, sizeof field->elements);
  }
  void *fields[AC_MAX_FIELDS] = {0};
  if (!make_room(dataset, fields)) return fail("out of memory");
  ac_status status = add_samples(dataset, &state, fields);
  free(fields[0]);
  if (status != AC_OK) return fail_library();
  snprintf(text, 17, "%016" PRIx64, (uint64_t)XXH3_64bits_digest(&state));
  return STATUS_CONTINUE;
}
