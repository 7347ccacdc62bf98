/* JSON files that may come from elsewhere. */
#ifndef TOOLS_COMMON_JSON_FILE_H
#define TOOLS_COMMON_JSON_FILE_H

#include <jansson.h>

/* As Jansson's json_load_file (`error` may be NULL), but pipes are refused, and so are files of
 * more than 64 MiB, which no record comes near. A file of another format is called by its name. */
json_t *json_file_load(const char *path, size_t flags, json_error_t *error);

#endif
