/* Reads an event file of TensorBoard: lengths and checksums of its records, which are computed here
 * by the plainest loop, and the messages in them. */
#ifndef TESTS_TOOLS_EVENT_READER_H
#define TESTS_TOOLS_EVENT_READER_H

#include <event.pb-c.h>
#include <stdbool.h>

typedef struct event_list {
  Tb__Event **events;
  int count;
} event_list;

/* False after a line on stderr that says what is wrong; the list then holds what came before it. */
bool event_list_read(event_list *list, const char *path);
/* The only event file of a folder. */
bool event_list_read_folder(event_list *list, const char *folder);
void event_list_free(event_list *list);

/* The only value of an event, or NULL if it is not a summary. */
const Tb__Summary__Value *event_value(const Tb__Event *event);

#endif
