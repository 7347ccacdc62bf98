/* Which files may be at the path of an output, and which ones a run has written.
 *
 * An output never replaces a file of another kind: a flag that names a book, a model or the record
 * of a run by mistake must not destroy it. Devices and pipes may be named: nothing is lost there.
 */
#ifndef TOOLS_COMMON_OUTPUTS_H
#define TOOLS_COMMON_OUTPUTS_H

#include <stdbool.h>

typedef enum output_kind {
  OUTPUT_METRICS, /* lines of JSON with an event each */
  OUTPUT_SVG,     /* a picture */
  OUTPUT_PAGE,    /* of accrue report */
  OUTPUT_BENCH    /* what accrue bench --json writes */
} output_kind;

/* Whether two paths lead to the same file or folder, through links, even if it does not exist yet.
 */
bool outputs_same(const char *a, const char *b);

/* Whether a folder is the folder of a run or a pilot: it has the record. */
bool outputs_is_of_run(const char *folder);

/* Whether a run or a report has written a file, judged by its content: metrics, events for
 * TensorBoard, a page, a model or a state. */
bool outputs_is_written(const char *path);

/* Whether a run gives this name to files in its folder. */
bool outputs_is_run_file(const char *name);

/* Whether an existing file has only content of the kind. True for an empty file, and for one that
 * cannot be read: writing to it will say why. */
bool outputs_holds(const char *path, output_kind kind);

/* Whether the name in --FLAG PATH is free: not the name of a run's file, in `run_folder` (NULL:
 * none) or in the folder of any run. A status of message.h. */
int outputs_check_name(const char *flag, const char *path, const char *run_folder);

/* Whether the name is free, and an existing file has only content of the kind. */
int outputs_check_file(const char *flag, const char *path, output_kind kind,
                       const char *run_folder);

/* Refuses a folder in which a pipe, a socket or a device has the name of a run's file, as that file
 * would replace it. Folders with such a name are not refused: writing says so. */
int outputs_check_folder(const char *folder);

#endif
