/* Programs of functions of elements: a kernel is written for each program, for which operands are
 * repeated, and for storage; constants, sizes and strides are its arguments. Its source is
 *
 *   float f_exp(float a) { return exp(a); }               a function for each of the program's
 *   kernel ... void pointwise(const global storage *x0, ..., global storage *y0, ..., float k0,
 * ..., long n, int add, ...) { const float v0 = load(x0, i); ...                   a value for each
 * operand const float v32 = f_exp(v0); ...                    and for each step store(y0, i, ...);
 *   }
 */
#include "ops/pointwise/pointwise.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backend/opencl/shared/opencl.h"
#include "core/hash.h"
#include "ops/pointwise/functions.h"
#include "ops/pointwise/repetition.h"

/* ---- the source ------------------------------------------------------------------------------ */

/* What a kernel is written for. */
typedef struct variant {
  ac_program program; /* constants are 0 */
  uint32_t repeated;  /* operands */
} variant;

typedef struct source {
  char *text;
  size_t size, used;
} source;

static void put(source *s, const char *format, ...) {
  if (s->used >= s->size) return;
  va_list list;
  va_start(list, format);
  const int length = vsnprintf(s->text + s->used, s->size - s->used, format, list);
  s->used += length > 0 ? (size_t)length : 0;
  va_end(list);
}

/* The functions that the program uses. */
static void put_functions(source *s, const ac_program *p) {
  bool known[AC_FUNCTION_COUNT] = {false};
  for (int k = 0; k < p->steps; k++) {
    const int id = p->step[k].function;
    const ac_function *f = &ac_functions[id];
    if (known[id]) continue;
    known[id] = true;
    put(s, "float f_%s(float a%s%s) { %s }\n", f->name, f->operands > 1 ? ", float b" : "",
        f->operands > 2 ? ", float c" : "", f->opencl);
  }
}

static void put_arguments(source *s, const variant *v) {
  const ac_program *p = &v->program;
  put(s, "kernel WORK_GROUP(GROUP, 1) void pointwise(");
  for (int i = 0; i < p->operands; i++) put(s, "const global storage *x%d, ", i);
  for (int j = 0; j < p->results; j++) put(s, "global storage *y%d, ", j);
  for (int k = 0; k < p->constants; k++) put(s, "float v%d, ", AC_FIRST_CONSTANT + k);
  put(s, "long n, int add");
  if (v->repeated) put(s, ", int rank, long n0, long n1, long n2, long n3, long n4");
  for (int i = 0; i < p->operands; i++)
    if (v->repeated >> i & 1)
      for (int k = 0; k < AC_MAX_RANK; k++) put(s, ", long s%d_%d", i, k);
  put(s, ") {\n  const size_t i = element_id();\n  if (i >= n) return;\n");
}

static void put_operand(source *s, const variant *v, int i) {
  if (v->repeated >> i & 1)
    put(s,
        "  const float v%d = load(x%d, element_at(p, rank, s%d_0, s%d_1, s%d_2, s%d_3, s%d_4, "
        "s%d_5));\n",
        i, i, i, i, i, i, i, i);
  else put(s, "  const float v%d = load(x%d, i);\n", i, i);
}

static void put_step(source *s, const ac_program *p, int k) {
  const ac_program_step *step = &p->step[k];
  const ac_function *f = &ac_functions[step->function];
  put(s, "  const float v%d = f_%s(v%d", AC_FIRST_STEP + k, f->name, step->in[0]);
  for (int i = 1; i < f->operands; i++) put(s, ", v%d", step->in[i]);
  put(s, ");\n");
}

static void write_source(const void *of, char *text, size_t size) {
  const variant *v = of;
  const ac_program *p = &v->program;
  source s = {text, size, 0};
  put_functions(&s, p);
  put_arguments(&s, v);
  if (v->repeated) put(&s, "  const places p = places_of(i, rank, n0, n1, n2, n3, n4);\n");
  for (int i = 0; i < p->operands; i++) put_operand(&s, v, i);
  for (int k = 0; k < p->steps; k++) put_step(&s, p, k);
  for (int j = 0; j < p->results; j++)
    put(&s, "  store(y%d, i, add >> %d & 1 ? load(y%d, i) + v%d : v%d);\n", j, j, j, p->result[j],
        p->result[j]);
  put(&s, "}\n");
}

/* ---- arguments ------------------------------------------------------------------------------- */

enum {
  MOST = AC_PROGRAM_OPERANDS * (1 + AC_MAX_RANK) + AC_PROGRAM_RESULTS + AC_PROGRAM_CONSTANTS + 8
};

typedef struct arguments {
  ac_cl_argument list[MOST];
  int count;
} arguments;

static void add_argument(arguments *a, ac_cl_argument argument) {
  a->list[a->count++] = argument;
}

/* The dimensions of the results, without those of 1, neighbours joined where all operands that are
 * repeated go along with both in the same way; and each operand's strides in them. */
typedef struct joined {
  int rank;
  int64_t dim[AC_MAX_RANK], stride[AC_PROGRAM_OPERANDS][AC_MAX_RANK]; /* innermost first */
} joined;

static void put_dimension(joined *j, int64_t dim, const int64_t stride[AC_PROGRAM_OPERANDS]) {
  bool joins = j->rank > 0;
  for (int i = 0; joins && i < AC_PROGRAM_OPERANDS; i++)
    joins = stride[i] == j->stride[i][j->rank - 1] * j->dim[j->rank - 1];
  if (joins) {
    j->dim[j->rank - 1] *= dim;
    return;
  }
  for (int i = 0; i < AC_PROGRAM_OPERANDS; i++) j->stride[i][j->rank] = stride[i];
  j->dim[j->rank++] = dim;
}

static void join(joined *j, const ac_op_args *args, uint32_t repeated) {
  const ac_operand *y = &args->out[0];
  int64_t stride[AC_PROGRAM_OPERANDS], next[AC_PROGRAM_OPERANDS];
  *j = (joined){0};
  for (int i = 0; i < AC_PROGRAM_OPERANDS; i++) next[i] = 1;
  for (int k = 1; k <= y->rank; k++) {
    const int64_t dim = y->dim[y->rank - k];
    for (int i = 0; i < AC_PROGRAM_OPERANDS; i++) {
      const ac_operand *x = &args->in[i];
      const int64_t own = k <= x->rank ? x->dim[x->rank - k] : 1;
      stride[i] = (repeated >> i & 1) && own != 1 ? next[i] : 0;
      next[i] *= own;
    }
    if (dim != 1) put_dimension(j, dim, stride);
  }
}

static void add_places(arguments *a, const ac_op_args *args, const variant *v) {
  joined j;
  if (!v->repeated) return;
  join(&j, args, v->repeated);
  add_argument(a, AC_CL_INT(j.rank));
  for (int k = 0; k < AC_MAX_RANK - 1; k++) add_argument(a, AC_CL_LONG(k < j.rank ? j.dim[k] : 1));
  for (int i = 0; i < v->program.operands; i++)
    if (v->repeated >> i & 1)
      for (int k = 0; k < AC_MAX_RANK; k++)
        add_argument(a, AC_CL_LONG(k < j.rank ? j.stride[i][k] : 0));
}

static ac_status run(ac_opencl *cl, const ac_op_args *args) {
  const ac_pointwise_attributes *attributes = args->attributes;
  const ac_program *p = &attributes->program;
  variant v;
  memset(&v, 0, sizeof v);
  v.program = *p;
  memset(v.program.constant, 0, sizeof v.program.constant);
  v.repeated = attributes->repeated;
  arguments a = {.count = 0};
  int add = 0;
  for (int i = 0; i < p->operands; i++) {
    if (args->in[i].count != args->out[0].count) v.repeated |= 1u << i;
    add_argument(&a, AC_CL_OPERAND(args->in[i]));
  }
  for (int j = 0; j < p->results; j++) {
    add |= (args->add[j] ? 1 : 0) << j;
    add_argument(&a, AC_CL_OPERAND(args->out[j]));
  }
  for (int k = 0; k < p->constants; k++) add_argument(&a, AC_CL_FLOAT(p->constant[k]));
  add_argument(&a, AC_CL_LONG(args->out[0].count));
  add_argument(&a, AC_CL_INT(add));
  add_places(&a, args, &v);
  const ac_cl_writer writer = {ac_hash(1, &v, sizeof v), write_source, &v};
  return ac_cl_launch_written(cl, (ac_cl_kernel){"pointwise", "pointwise", NULL}, &writer,
                              ac_cl_elements(cl, args->out[0].count), a.list, a.count);
}

const ac_cl_op ac_cl_op_pointwise = {.run = run};
