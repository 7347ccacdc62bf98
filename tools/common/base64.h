/* Bytes as text, for JSON and pages (RFC 4648). */
#ifndef TOOLS_COMMON_BASE64_H
#define TOOLS_COMMON_BASE64_H

#include <stdint.h>
#include <stdlib.h>

/* Free it; NULL: there was no memory. */
char *base64_text(const uint8_t *data, size_t bytes);

#endif
