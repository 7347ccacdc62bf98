/* A JSON file object by object: one a line, or the elements of one array. Only the object that is
 * being read is in memory. */
#ifndef AC_CHAT_READER_H
#define AC_CHAT_READER_H

#include <accrue/base.h>

#include <jansson.h>

typedef struct ac_chat_reader ac_chat_reader;

/* The most bytes of one object. */
enum { AC_CHAT_MOST_BYTES = 1 << 26 };

ac_status ac_chat_reader_open(ac_chat_reader **reader, const char *path);
void ac_chat_reader_close(ac_chat_reader *reader); /* NULL: nothing */

/* *json gets the next object, to be given back by json_decref, or NULL at the end. The sentence of
 * a failure names the file, and line or item. */
ac_status ac_chat_reader_next(ac_chat_reader *reader, json_t **json);

/* Of the object read last: its line, or its place in the array, from 1 on. */
int64_t ac_chat_reader_line(const ac_chat_reader *reader);
/* "line" or "item". */
const char *ac_chat_reader_unit(const ac_chat_reader *reader);

/* Whether a file that may be plain or gzip begins as JSON does: with an object or an array. */
ac_status ac_chat_reader_is_json(const char *path, bool *is_json);

#endif
