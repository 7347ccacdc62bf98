#include "ops/words.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

void ac_words_put(ac_words *words, const char *format, ...) {
  if (words->used >= words->size) return;
  va_list list;
  va_start(list, format);
  words->used +=
      (size_t)vsnprintf(words->text + words->used, words->size - words->used, format, list);
  va_end(list);
}

void ac_words_put_pair(ac_words *words, const char *name, const int32_t pair[2], int32_t usual) {
  if (pair[0] == usual && pair[1] == usual) return;
  ac_words_put(words, ", %s %" PRId32, name, pair[0]);
  if (pair[1] != pair[0]) ac_words_put(words, "x%" PRId32, pair[1]);
}

void ac_words_put_layout(ac_words *words, ac_layout layout, const ac_operand *weight) {
  if (layout == AC_IN_OUT && weight->count && weight->dim[0] == weight->dim[1])
    ac_words_put(words, ", in-out");
}

void ac_words_put_evaluation(ac_words *words, const ac_run_state *run) {
  if (!run->training) ac_words_put(words, ", in evaluation");
}
