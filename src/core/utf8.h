/* Whether a text is UTF-8, as RFC 3629 has it: what JSON, and so every model file, can hold. */
#ifndef AC_CORE_UTF8_H
#define AC_CORE_UTF8_H

#include <stdbool.h>

bool ac_is_utf8(const char *text);

#endif
