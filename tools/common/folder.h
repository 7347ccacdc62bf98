/* A folder that the program writes to. */
#ifndef TOOLS_COMMON_FOLDER_H
#define TOOLS_COMMON_FOLDER_H

#include <stdbool.h>

enum { FOLDER_BYTES = 4096, FOLDER_NAME_BYTES = 32 }; /* of a path, and of a name within it */

/* Also true for anything else of this name. */
bool folder_is_there(const char *path);

/* Makes the folder and its parents, if they are missing. `flag` is the flag that names it, without
 * dashes. A status of message.h. */
int folder_make(const char *path, const char *flag);

#endif
