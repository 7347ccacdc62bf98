/* Describes ops in words: the shapes of their operands, and the attributes that also change the
 * work. Two ops that do different work have different words. */
#include "bench/bench.h"

#include "ops/words.h"

#include <inttypes.h>

/* Only where an op's operands may be of different types does the type belong to the shape. */
static void put_operand(ac_words *w, const ac_operand *x, char kind, bool add) {
  if (!x->count) {
    ac_words_put(w, "-");
    return;
  }
  if (add) ac_words_put(w, "+");
  if (!x->rank) ac_words_put(w, "1");
  for (int i = 0; i < x->rank; i++) ac_words_put(w, "%s%" PRId64, i ? "x" : "", x->dim[i]);
  if (kind == 'a' || kind == 'e' || x->dtype == AC_U8)
    ac_words_put(w, ":%s", ac_dtype_name(x->dtype));
}

static int present(const ac_operand *list, int most) {
  int count = 0;
  for (int i = 0; i < most; i++)
    if (list[i].count) count = i + 1;
  return count;
}

static void put_shapes(ac_words *w, const ac_op_args *args) {
  int inputs = present(args->in, AC_MAX_INPUTS), outputs = present(args->out, AC_MAX_OUTPUTS);
  for (int i = 0; i < inputs; i++) {
    put_operand(w, &args->in[i], ac_op_input_kind_of(args->op, args->attributes, i), false);
    ac_words_put(w, " ");
  }
  ac_words_put(w, "->");
  for (int j = 0; j < outputs; j++) {
    ac_words_put(w, " ");
    put_operand(w, &args->out[j], ac_op_output_kind_of(args->op, args->attributes, j),
                args->add[j]);
  }
}

void ac_bench_describe(char *text, size_t size, const ac_op_args *args) {
  const ac_op_desc *desc = ac_op_describe(args->op);
  ac_words words = {text, size, 0};
  put_shapes(&words, args);
  if (desc->words) desc->words(&words, args);
}
