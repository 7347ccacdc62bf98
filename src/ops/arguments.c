#include "ops/arguments.h"

#include <string.h>

static const char *const kinds[AC_OP_COUNT][2] = {
#define AC_OP_KINDS(name, in, out) [AC_OP_##name] = {in, out},
    AC_OP_LIST(AC_OP_KINDS)
#undef AC_OP_KINDS
};

const char *ac_op_name(ac_op op) {
  static const char *const names[AC_OP_COUNT] = {
#define AC_OP_NAME(name, in, out) [AC_OP_##name] = #name,
    AC_OP_LIST(AC_OP_NAME)
#undef AC_OP_NAME
  };
  return names[op];
}

static char kind_at(const char *letters, int index) {
  return (size_t)index < strlen(letters) ? letters[index] : 0;
}

/* What is moved is stored like all else, unless it is integers. */
static char kind_of(char letter) {
  return letter == 'm' ? 's' : letter;
}

char ac_op_input_kind(ac_op op, int input) {
  return kind_of(kind_at(kinds[op][0], input));
}

char ac_op_output_kind(ac_op op, int output) {
  return kind_of(kind_at(kinds[op][1], output));
}

bool ac_op_moves_integers(ac_op op) {
  return kinds[op][0][0] == 'm';
}

char ac_op_input_kind_of(ac_op op, const void *attributes, int input) {
  const char kind = ac_op_input_kind(op, input);
  return kind == 'c' && attributes ? ((const ac_op_kinds *)attributes)->in[input] : kind;
}

char ac_op_output_kind_of(ac_op op, const void *attributes, int output) {
  const char kind = ac_op_output_kind(op, output);
  return kind == 'c' && attributes ? ((const ac_op_kinds *)attributes)->out[output] : kind;
}

/* The operand numbered from 0 over all inputs and then all outputs. */
static const ac_operand *operand_at(const ac_op_args *args, int index, char *kind) {
  bool input = index < AC_MAX_INPUTS;
  int at = input ? index : index - AC_MAX_INPUTS;
  *kind = input ? ac_op_input_kind_of(args->op, args->attributes, at)
                : ac_op_output_kind_of(args->op, args->attributes, at);
  return input ? &args->in[at] : &args->out[at];
}

ac_dtype ac_op_storage(const ac_op_args *args) {
  for (int i = 0; i < AC_MAX_INPUTS + AC_MAX_OUTPUTS; i++) {
    char kind;
    const ac_operand *x = operand_at(args, i, &kind);
    if (kind == 's' && x->count && x->dtype != AC_F32 && !x->blocks) return x->dtype;
  }
  return AC_F32;
}

static bool is_float(ac_dtype dtype) {
  return dtype == AC_F32 || dtype == AC_F16 || dtype == AC_BF16;
}

/* Whether an input that is not stored as all others may be so. */
static bool is_taken(const ac_operand *x, uint32_t rounded, uint32_t decoded) {
  return x->blocks ? decoded & 1 : (rounded & 1) && x->dtype == AC_F32;
}

bool ac_op_dtypes_valid(const ac_op_args *args, uint32_t rounded, uint32_t decoded) {
  ac_dtype storage = ac_op_storage(args);
  const bool integers = storage == AC_I32 && ac_op_moves_integers(args->op);
  for (int i = 0; i < AC_MAX_INPUTS + AC_MAX_OUTPUTS; i++) {
    char kind;
    const ac_operand *x = operand_at(args, i, &kind);
    if (!x->count || (i < AC_MAX_INPUTS && is_taken(x, rounded >> i, decoded >> i))) continue;
    if (x->blocks && kind != 'e') return false;
    bool good = kind == 's'   ? (integers || is_float(x->dtype)) && x->dtype == storage
                : kind == 'a' ? is_float(x->dtype)
                : kind == 'e' ? (unsigned)x->dtype < AC_DTYPE_COUNT
                : kind == 'b' ? x->dtype == AC_F32 || x->dtype == AC_U8
                : kind == 'p' ? x->dtype == AC_F32 || x->dtype == AC_BF16
                : kind == 'f' ? x->dtype == AC_F32
                              : kind == 'i' && x->dtype == AC_I32;
    if (!good) return false;
  }
  return true;
}
