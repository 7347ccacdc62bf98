/* What may be at the path of an output, and what a run has written.
 *
 * An output is never written over what is not of its own kind: a flag that names a book, a model or
 * the record of a run by mistake must not cost it. Devices and pipes may be named: nothing is lost
 * there. */
#ifndef TOOLS_COMMON_OUTPUTS_H
#define TOOLS_COMMON_OUTPUTS_H

#include <stdbool.h>

typedef enum output_kind {
  OUTPUT_METRICS, /* lines of JSON with an event each */
  OUTPUT_SVG,     /* a picture */
  OUTPUT_PAGE,    /* of accrue report */
  OUTPUT_BENCH    /* what accrue bench --json writes */
} output_kind;

/* Whether two paths are of one file or folder, through links, be it there or not yet. */
bool outputs_same(const char *a, const char *b);

/* Whether a folder is that of a run or a pilot: it holds its record. */
bool outputs_is_of_run(const char *folder);

/* Whether a file is one that a run or a report has written, by what it holds: metrics, events for
 * TensorBoard, a page, a model or a state. */
bool outputs_is_written(const char *path);

/* Whether the name is one that a run gives to files in its folder. */
bool outputs_is_run_file(const char *name);

/* Whether an existing file has only content of the kind. True for an empty file, and for one that
 * cannot be read: writing to it will say why. */
bool outputs_holds(const char *path, output_kind kind);

/* Whether --FLAG PATH has a name that is free: not that of a run's file, in `run_folder` (NULL:
 * none) or in the folder of any run. A status of message.h. */
int outputs_check_name(const char *flag, const char *path, const char *run_folder);

/* Whether its name is free, and a file that is there holds nothing but what is of the kind. */
int outputs_check_file(const char *flag, const char *path, output_kind kind,
                       const char *run_folder);

/* Refuses a folder in which a pipe, a socket or a device has the name of a run's file, which would
 * be replaced by it. What has the name of a folder stays, and writing says so. A status of
 * message.h. */
int outputs_check_folder(const char *folder);

#endif
