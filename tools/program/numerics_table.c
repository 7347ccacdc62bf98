#include "program/numerics_table.h"

#include "common/message.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Sums over the ops of one layer and direction. These are the ops from `first` on in the order of
 * the plan; a layer's backward ops are in a block of their own. */
static ac_numerics sum_layer(const ac_trainer *trainer, int first, int count) {
  ac_numerics sum, op;
  ac_trainer_numerics(trainer, first, &sum);
  for (int i = first + 1; i < count; i++) {
    ac_trainer_numerics(trainer, i, &op);
    if (strcmp(op.scope, sum.scope) != 0 || op.backward != sum.backward) continue;
    sum.values += op.values;
    sum.overflowed += op.overflowed;
    sum.flushed += op.flushed;
  }
  return sum;
}

static bool is_first_of_layer(const ac_trainer *trainer, int index) {
  ac_numerics own, op;
  ac_trainer_numerics(trainer, index, &own);
  for (int i = 0; i < index; i++) {
    ac_trainer_numerics(trainer, i, &op);
    if (!strcmp(op.scope, own.scope) && op.backward == own.backward) return false;
  }
  return true;
}

void numerics_table(const ac_trainer *trainer) {
  int count = ac_trainer_numerics_count(trainer);
  if (!count) {
    say("--debug-numerics: nothing is stored in 16 bits");
    return;
  }
  fprintf(stderr, "%-28s %-9s %16s %14s %16s\n", "layer", "direction", "values", "overflowed",
          "flushed to zero");
  for (int i = 0; i < count; i++) {
    if (!is_first_of_layer(trainer, i)) continue;
    ac_numerics layer = sum_layer(trainer, i, count);
    fprintf(stderr, "%-28s %-9s %16" PRId64 " %14" PRId64 " %16" PRId64 "\n",
            *layer.scope ? layer.scope : "(no name)", layer.backward ? "backward" : "forward",
            layer.values, layer.overflowed, layer.flushed);
  }
}
