#include "ops/op.h"

#include <string.h>

#define AC_OP_DECLARE(name, in, out) extern const ac_op_desc ac_op_desc_##name;
AC_OP_LIST(AC_OP_DECLARE)
#undef AC_OP_DECLARE

static const ac_op_desc *const descriptions[AC_OP_COUNT] = {
#define AC_OP_ENTRY(name, in, out) [AC_OP_##name] = &ac_op_desc_##name,
    AC_OP_LIST(AC_OP_ENTRY)
#undef AC_OP_ENTRY
};

static const char *const kinds[AC_OP_COUNT][2] = {
#define AC_OP_KINDS(name, in, out) [AC_OP_##name] = {in, out},
    AC_OP_LIST(AC_OP_KINDS)
#undef AC_OP_KINDS
};

const ac_op_desc *ac_op_describe(ac_op op) {
  return descriptions[op];
}

const char *ac_op_name(ac_op op) {
  return descriptions[op]->name;
}

static char kind_at(const char *letters, int index) {
  return (size_t)index < strlen(letters) ? letters[index] : 0;
}

char ac_op_input_kind(ac_op op, int input) {
  return kind_at(kinds[op][0], input);
}

char ac_op_output_kind(ac_op op, int output) {
  return kind_at(kinds[op][1], output);
}

/* The operand numbered from 0 over all inputs and then all outputs. */
static const ac_operand *operand_at(const ac_op_args *args, int index, char *kind) {
  bool input = index < AC_MAX_INPUTS;
  int at = input ? index : index - AC_MAX_INPUTS;
  *kind = input ? ac_op_input_kind(args->op, at) : ac_op_output_kind(args->op, at);
  return input ? &args->in[at] : &args->out[at];
}

ac_dtype ac_op_storage(const ac_op_args *args) {
  for (int i = 0; i < AC_MAX_INPUTS + AC_MAX_OUTPUTS; i++) {
    char kind;
    const ac_operand *x = operand_at(args, i, &kind);
    if (kind == 's' && x->count) return x->dtype;
  }
  return AC_F32;
}

static bool is_float(ac_dtype dtype) {
  return dtype == AC_F32 || dtype == AC_F16 || dtype == AC_BF16;
}

bool ac_op_dtypes_valid(const ac_op_args *args) {
  ac_dtype storage = ac_op_storage(args);
  for (int i = 0; i < AC_MAX_INPUTS + AC_MAX_OUTPUTS; i++) {
    char kind;
    const ac_operand *x = operand_at(args, i, &kind);
    if (!x->count) continue;
    bool good = kind == 's'   ? is_float(x->dtype) && x->dtype == storage
                : kind == 'a' ? is_float(x->dtype)
                : kind == 'f' ? x->dtype == AC_F32
                              : kind == 'i' && x->dtype == AC_I32;
    if (!good) return false;
  }
  return true;
}

double ac_op_operand_bytes(const ac_op_args *args) {
  double bytes = 0;
  for (int i = 0; i < AC_MAX_INPUTS; i++) bytes += ac_operand_bytes(&args->in[i]);
  for (int i = 0; i < AC_MAX_OUTPUTS; i++)
    bytes += (args->add[i] ? 2 : 1) * ac_operand_bytes(&args->out[i]);
  return bytes;
}

ac_cost ac_op_cost(const ac_op_args *args) {
  const ac_op_desc *desc = ac_op_describe(args->op);
  return (ac_cost){desc->flops ? desc->flops(args) : 0,
                   desc->bytes ? desc->bytes(args) : ac_op_operand_bytes(args)};
}
