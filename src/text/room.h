/* Arrays that grow. */
#ifndef AC_TEXT_ROOM_H
#define AC_TEXT_ROOM_H

#include "core/error.h"

#include <stdlib.h>
#include <string.h>

static inline ac_status ac_room(void **array, size_t *capacity, size_t needed, size_t size) {
  if (needed <= *capacity) return AC_OK;
  size_t wanted = *capacity + *capacity / 2;
  if (wanted < needed) wanted = needed;
  if (wanted < 16) wanted = 16;
  void *grown = wanted > PTRDIFF_MAX / size ? NULL : realloc(*array, wanted * size);
  if (!grown) return ac_fail(AC_ERROR_MEMORY, "tokenizer: no memory for %zu bytes", wanted * size);
  *array = grown;
  *capacity = wanted;
  return AC_OK;
}

/* Room for `needed` elements of an array with this capacity, which is one of size_t. */
#define AC_ROOM(array, capacity, needed) \
  ac_room((void **)&(array), &(capacity), needed, sizeof *(array))

#endif
