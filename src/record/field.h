/* What a run remembers on the host, as named fields of its records, and as text: one writer and one
 * reader for all. A field is written as its numbers with one character before each; a table is
 * numbers of the record, then rows, then one more number. What is read is just what is written of
 * values that there can be: the same text comes of it again. */
#ifndef AC_RECORD_FIELD_H
#define AC_RECORD_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is counted from window to window stays below: states hold no more, so that all can grow. */
#define AC_MOST_COUNT (INT64_MAX / 2)

typedef enum ac_state_kind {
  AC_NO_NUMBER, /* ends a list */
  AC_COUNT,     /* int64_t, from 0 to `most` */
  AC_SMALL,     /* int or an enum, in the same way */
  AC_FLAG,      /* bool: 0 or 1 */
  AC_UNSIGNED,  /* uint64_t */
  AC_REAL,      /* double, of any value */
  AC_FINITE,    /* and finite */
  AC_SQUARE,    /* and not negative */
  AC_SCALE      /* float: positive and finite */
} ac_state_kind;

typedef struct ac_state_number {
  ac_state_kind kind;
  size_t offset; /* in the record, or in a row */
  int64_t most;
  char before; /* what is written before it; 0: nothing */
} ac_state_number;

enum { AC_ROW_NUMBERS = 6, AC_HEAD_NUMBERS = 2 };

typedef struct ac_state_rows {
  ac_state_number of[AC_ROW_NUMBERS + 1];
  char between; /* 0: nothing */
  size_t begin, stride;
  ac_state_number count; /* of the record: how many rows there are */
  int most;              /* above 0: the text says how many, at most so many */
  ac_state_number room;  /* of the record, if it keeps rows only at times: 0 or 1 */
  ac_state_number after; /* of the record, after the rows */
} ac_state_rows;

/* A text that is neither numbers nor a table. */
typedef struct ac_state_text {
  size_t (*room)(const void *record); /* with the 0 at its end */
  void (*put)(const void *record, char *text);
  bool (*get)(void *record, const char *text);
} ac_state_text;

typedef struct ac_state_field {
  const char *key;
  ac_state_number head[AC_HEAD_NUMBERS + 1];
  int repeated; /* above 0: so many numbers like the first, one after another */
  const ac_state_rows *rows;
  const ac_state_text *text;
} ac_state_field;

#define AC_STATE_FIELD(key, kind, type, member, most) \
  { "accrue.state." key, {{kind, offsetof(type, member), most, 0}}, 0, 0, 0 }

/* How much room it takes as text, and writes it. Call both with plain numbers
 * (ac_plain_numbers_begin). */
size_t ac_state_field_room(const ac_state_field *field, const void *record);
void ac_state_field_put(const ac_state_field *field, const void *record, char *text);
/* False: it makes no sense. The record may then be read in part. */
bool ac_state_field_get(const ac_state_field *field, void *record, const char *text);

/* The number, for counts and flags. */
int64_t ac_state_number_of(const ac_state_number *number, const void *record);
size_t ac_state_number_bytes(const ac_state_number *number);
/* As a double, for all of them, and back: of a count the nearest, of a flag whether it is not 0. */
double ac_state_number_value(const ac_state_number *number, const void *record);
void ac_state_number_set(const ac_state_number *number, void *record, double value);

#endif
