#include "record/field.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_TEXT = 32, ROW_BYTES = 128 };

int64_t ac_state_number_of(const ac_state_number *number, const void *record) {
  const void *at = (const char *)record + number->offset;
  if (number->kind == AC_SMALL) return *(const int *)at;
  return number->kind == AC_FLAG ? *(const bool *)at : *(const int64_t *)at;
}

size_t ac_state_number_bytes(const ac_state_number *number) {
  if (number->kind == AC_SMALL) return sizeof(int);
  if (number->kind == AC_FLAG) return sizeof(bool);
  return number->kind == AC_SCALE ? sizeof(float) : sizeof(int64_t);
}

double ac_state_number_value(const ac_state_number *number, const void *record) {
  const void *at = (const char *)record + number->offset;
  if (number->kind <= AC_FLAG) return (double)ac_state_number_of(number, record);
  if (number->kind == AC_UNSIGNED) return (double)*(const uint64_t *)at;
  return number->kind == AC_SCALE ? (double)*(const float *)at : *(const double *)at;
}

void ac_state_number_set(const ac_state_number *number, void *record, double value) {
  void *at = (char *)record + number->offset;
  if (number->kind == AC_SMALL) *(int *)at = (int)value;
  else if (number->kind == AC_FLAG) *(bool *)at = value != 0;
  else if (number->kind == AC_COUNT) *(int64_t *)at = (int64_t)value;
  else if (number->kind == AC_UNSIGNED) *(uint64_t *)at = (uint64_t)value;
  else if (number->kind == AC_SCALE) *(float *)at = (float)value;
  else *(double *)at = value;
}

/* Enough digits for the same number again. */
static int put_number(const ac_state_number *number, const void *record, char text[NUMBER_TEXT]) {
  const void *at = (const char *)record + number->offset;
  if (number->kind <= AC_FLAG)
    return snprintf(text, NUMBER_TEXT, "%" PRId64, ac_state_number_of(number, record));
  if (number->kind == AC_UNSIGNED)
    return snprintf(text, NUMBER_TEXT, "%" PRIu64, *(const uint64_t *)at);
  const double x = number->kind == AC_SCALE ? (double)*(const float *)at : *(const double *)at;
  return snprintf(text, NUMBER_TEXT, "%.17g", x);
}

static bool set_count(const ac_state_number *number, void *at, int64_t value) {
  if (value < 0 || value > (number->kind == AC_FLAG ? 1 : number->most)) return false;
  if (number->kind == AC_FLAG) *(bool *)at = value != 0;
  else if (number->kind == AC_SMALL) *(int *)at = (int)value;
  else *(int64_t *)at = value;
  return true;
}

static bool set_real(const ac_state_number *number, void *at, double value) {
  if (number->kind == AC_SCALE) {
    *(float *)at = (float)value;
    return (float)value > 0 && !isinf((float)value);
  }
  *(double *)at = value;
  return number->kind == AC_REAL || (isfinite(value) && (number->kind != AC_SQUARE || value >= 0));
}

/* Moves *text past the number. */
static bool get_number(const ac_state_number *number, void *record, const char **text) {
  void *at = (char *)record + number->offset;
  char again[NUMBER_TEXT];
  if (number->before && *(*text)++ != number->before) return false;
  if (number->kind == AC_UNSIGNED) *(uint64_t *)at = strtoull(*text, NULL, 10);
  else if (number->kind <= AC_FLAG && !set_count(number, at, strtoll(*text, NULL, 10)))
    return false;
  else if (number->kind > AC_UNSIGNED && !set_real(number, at, strtod(*text, NULL))) return false;
  const int length = put_number(number, record, again);
  const bool same = !strncmp(*text, again, (size_t)length);
  *text += same ? length : 0;
  return same;
}

/* ---- writing --------------------------------------------------------------------------------- */

static char *put_numbers(const ac_state_number *numbers, const void *record, char *text) {
  for (; numbers->kind; numbers++) {
    if (numbers->before) *text++ = numbers->before;
    text += put_number(numbers, record, text);
  }
  return text;
}

static char *put_rows(const ac_state_rows *rows, const void *record, char *text) {
  const char *row = (const char *)record + rows->begin;
  const int64_t count = ac_state_number_of(&rows->count, record);
  const ac_state_number after[] = {rows->after, {AC_NO_NUMBER}};
  for (int64_t i = 0; i < count; i++, row += rows->stride) {
    if (i && rows->between) *text++ = rows->between;
    text = put_numbers(rows->of, row, text);
  }
  return put_numbers(after, record, text);
}

size_t ac_state_field_room(const ac_state_field *field, const void *record) {
  if (field->text) return field->text->room(record);
  size_t numbers = AC_HEAD_NUMBERS + (size_t)field->repeated;
  if (field->rows)
    numbers += 1 + (size_t)ac_state_number_of(&field->rows->count, record) * (AC_ROW_NUMBERS + 1);
  return numbers * (NUMBER_TEXT + 1) + 1;
}

/* One of several numbers. */
static ac_state_number number_at(const ac_state_field *field, int index) {
  ac_state_number number = field->head[0];
  number.offset += (size_t)index * sizeof(double);
  if (index) number.before = ' ';
  return number;
}

void ac_state_field_put(const ac_state_field *field, const void *record, char *text) {
  if (field->text) {
    field->text->put(record, text);
    return;
  }
  text = put_numbers(field->head, record, text);
  for (int i = 1; i < field->repeated; i++)
    text = put_numbers((ac_state_number[]){number_at(field, i), {AC_NO_NUMBER}}, record, text);
  if (field->rows) text = put_rows(field->rows, record, text);
  *text = 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool get_numbers(const ac_state_number *numbers, void *record, const char **text) {
  for (; numbers->kind; numbers++)
    if (!get_number(numbers, record, text)) return false;
  return true;
}

/* Rows that the record does not keep are checked alone. */
static bool get_rows(const ac_state_rows *rows, void *record, const char **text) {
  const int64_t most = rows->most ? rows->most : ac_state_number_of(&rows->count, record);
  const bool keeps = !rows->room.kind || ac_state_number_of(&rows->room, record);
  const ac_state_number after[] = {rows->after, {AC_NO_NUMBER}};
  char *row = (char *)record + rows->begin;
  int64_t unused[ROW_BYTES / sizeof(int64_t)], count = 0;
  if (!keeps && rows->stride > ROW_BYTES) return false; /* ROW_BYTES has to grow */
  while (count < most) {
    if (count && rows->between && *(*text)++ != rows->between) return false;
    if (!get_numbers(rows->of, keeps ? row : (void *)unused, text)) return false;
    row += rows->stride;
    count++;
    if (rows->most && **text != rows->between) break;
  }
  if (rows->most) *(int *)(void *)((char *)record + rows->count.offset) = (int)count;
  return get_numbers(after, record, text);
}

bool ac_state_field_get(const ac_state_field *field, void *record, const char *text) {
  if (field->text) return field->text->get(record, text);
  if (!get_numbers(field->head, record, &text)) return false;
  for (int i = 1; i < field->repeated; i++)
    if (!get_numbers((ac_state_number[]){number_at(field, i), {AC_NO_NUMBER}}, record, &text))
      return false;
  return (!field->rows || get_rows(field->rows, record, &text)) && !*text;
}
