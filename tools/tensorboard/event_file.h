/* An event file of TensorBoard: records one after another, each
 *
 *   uint64  length of the data      little-endian, as all of them
 *   uint32  masked CRC-32C of the length
 *   bytes   data
 *   uint32  masked CRC-32C of the data
 *
 * What a record holds is the caller's. */
#ifndef TOOLS_TENSORBOARD_EVENT_FILE_H
#define TOOLS_TENSORBOARD_EVENT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { EVENT_PATH_BYTES = 8192 };

typedef struct event_file {
  char path[EVENT_PATH_BYTES];
  FILE *stream;
  int error; /* errno of the first record that could not be written; later ones are not tried */
} event_file;

/* Makes a new file in the folder, events.out.tfevents.SECONDS.HOST.PID.NUMBER. Its name comes after
 * those of the files that are there, which stay as they are. False leaves the reason in errno. */
bool event_file_open(event_file *file, const char *folder);
void event_file_add(event_file *file, const void *data, size_t bytes);
/* From here on readers of the file see what was added. */
void event_file_flush(event_file *file);
/* The errno of the first failed write, or 0. */
int event_file_close(event_file *file);
/* Closes the file and deletes it. */
void event_file_remove(event_file *file);

#endif
