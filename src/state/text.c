/* What a run remembers as metadata of a state file: its records, field by field. Numbers come
 * first, and then tables and other texts. */
#include "state/cells.h"

#include "core/error.h"
#include "core/platform/numbers.h"
#include "io/safetensors.h"

#include <stdlib.h>
#include <string.h>

/* ---- writing --------------------------------------------------------------------------------- */

static bool is_number(const ac_state_field *field) {
  return !field->rows && !field->text;
}

/* Lists what is kept, and its texts one after another; without a list it is measured alone: returns
 * the bytes of all texts. */
static size_t put_records(ac_state_texts *texts, const ac_run *run, bool numbers) {
  const ac_record *record;
  size_t used = 0;
  void *at;
  for (int i = 0; (record = ac_run_record(run, i, &at)); i++) {
    if (record->is_kept && !record->is_kept(at)) continue;
    for (const ac_state_field *field = record->fields; field->key; field++) {
      if (is_number(field) != numbers) continue;
      if (texts->list) {
        ac_state_field_put(field, at, texts->text + used);
        texts->list[texts->count] = (ac_metadata){field->key, texts->text + used};
      }
      used += ac_state_field_room(field, at);
      texts->count++;
    }
  }
  return used;
}

ac_status ac_state_put_run(ac_state_texts *texts, const ac_run *run, const ac_metadata *metadata,
                           int metadata_count) {
  *texts = (ac_state_texts){.count = metadata_count};
  const size_t numbers = put_records(texts, run, true),
               bytes = numbers + put_records(texts, run, false);
  texts->list = calloc((size_t)texts->count + 1, sizeof *texts->list);
  texts->text = malloc(bytes + 1);
  if (!texts->list || !texts->text) return AC_ERROR_MEMORY;
  for (int i = 0; i < metadata_count; i++) texts->list[i] = metadata[i];
  texts->count = metadata_count;
  const ac_plain_numbers plain = ac_plain_numbers_begin();
  char *const text = texts->text;
  put_records(texts, run, true);
  texts->text += numbers;
  put_records(texts, run, false);
  texts->text = text;
  ac_plain_numbers_end(&plain);
  return AC_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

static ac_status refuse(const ac_model_file *file, const ac_run *run, const char *key) {
  const char *path = ac_model_file_path(file);
  if (strcmp(key, AC_STATE_GROUPS) != 0)
    return ac_fail(AC_ERROR_FORMAT, "%s: %s is missing or makes no sense", path, key);
  return ac_fail(AC_ERROR_FORMAT,
                 "%s has settings of other groups of parameters than these %d (" AC_STATE_GROUPS
                 ")",
                 path, run->groups.count);
}

/* All fields of a record are needed where one of them is there. */
static bool is_there(const ac_model_file *file, const ac_record *record) {
  bool any = !record->is_kept;
  for (const ac_state_field *field = record->fields; field->key && !any; field++)
    any = ac_model_file_metadata(file, field->key);
  return any;
}

static ac_status read_fields(const ac_model_file *file, const ac_run *run, const ac_record *record,
                             void *at) {
  for (const ac_state_field *field = record->fields; field->key; field++) {
    const char *text = ac_model_file_metadata(file, field->key);
    if (!text || !ac_state_field_get(field, at, text)) return refuse(file, run, field->key);
    if (run->plan.version != AC_STATE_VERSION)
      return ac_fail(AC_ERROR_UNSUPPORTED, "%s is a state of version %lld; %d is read",
                     ac_model_file_path(file), (long long)run->plan.version, AC_STATE_VERSION);
  }
  if (record->came) record->came(at);
  return AC_OK;
}

static ac_status read_records(const ac_model_file *file, ac_run *run, bool of_model) {
  const ac_record *record;
  void *at;
  for (int i = 0; (record = ac_run_record(run, i, &at)); i++) {
    if (record->of_model != of_model) continue;
    if (record->anew) record->anew(at);
    if (is_there(file, record)) AC_TRY(read_fields(file, run, record, at));
    const char *bad = record->check ? record->check(at, run) : NULL;
    if (!bad) continue;
    char key[64] = "accrue.state.";
    return refuse(file, run, strcat(key, bad));
  }
  return AC_OK;
}

ac_status ac_state_check_file(const ac_model_file *file, const char *path) {
  return ac_model_file_metadata(file, ac_record_run.fields[0].key)
             ? AC_OK
             : ac_fail(AC_ERROR_FORMAT, "%s is not the state of a trainer", path);
}

ac_status ac_state_get_run(const ac_model_file *file, ac_run *run, bool of_model) {
  const ac_plain_numbers numbers = ac_plain_numbers_begin();
  const ac_status status = read_records(file, run, of_model);
  ac_plain_numbers_end(&numbers);
  return status;
}
