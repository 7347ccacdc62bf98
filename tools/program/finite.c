#include "program/finite.h"

#include "common/message.h"

#include <accrue/model_file.h>
#include <math.h>
#include <stdbool.h>

static bool is_finite(ac_model_file *file, int index) {
  enum { PIECE = 4096 };
  float values[PIECE];
  const ac_model_tensor *tensor = ac_model_file_tensor(file, index);
  int64_t elements = tensor->dtype == AC_I32 ? 0 : 1;
  for (int d = 0; d < tensor->rank; d++) elements *= tensor->shape[d];
  for (int64_t first = 0; first < elements; first += PIECE) {
    int64_t count = elements - first < PIECE ? elements - first : PIECE;
    if (ac_model_file_read(file, index, first, count, values) != AC_OK) return true;
    for (int64_t i = 0; i < count; i++)
      if (!isfinite(values[i])) return false;
  }
  return true;
}

int fail_not_finite(const char *path, const char *what) {
  ac_model_file *file = NULL;
  int found = -1;
  if (ac_model_file_open(&file, path) != AC_OK) return fail_library();
  for (int i = 0; found < 0 && i < ac_model_file_tensor_count(file); i++)
    if (!is_finite(file, i)) found = i;
  int status = found < 0 ? fail("%s: %s not finite, though its weights are", path, what)
                         : fail("%s: %s not finite, and neither is its tensor %s", path, what,
                                ac_model_file_tensor(file, found)->name);
  ac_model_file_close(file);
  return status;
}
