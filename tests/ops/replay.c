#include "replay.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* The error of a step adds to those before it. */
static void compare(const char *where, int64_t t, const double *p, const double *wanted,
                    int64_t count) {
  for (int64_t i = 0; i < count; i++)
    OP_EXPECT(where, fabs(p[i] - wanted[i]) < 16 * (double)t * (double)FLT_EPSILON,
              "step %d, element %d: %.9g, not %.9g", (int)t, (int)i, p[i], wanted[i]);
}

/* One update, from what the last one left and to where the next one begins. */
static bool step(ac_device *device, op_instance *s, const op_variant *variant) {
  op_result result = {.out = {NULL}};
  op_instance_compute(s);
  const bool good = !device || op_run(device, s, variant, &result);
  for (int j = 0; good && j < AC_MAX_OUTPUTS; j++)
    if (s->args.out[j].count)
      memcpy(s->initial[j], device ? result.out[j] : op_reals(&s->args.out[j]),
             (size_t)s->args.out[j].count * sizeof(double));
  op_result_free(&result);
  return good;
}

static void replay(ac_device *device, const op_vector *v, op_update update) {
  const op_vector_tensor *p0 = op_vector_find(v, "p0"), *g = op_vector_find(v, "g"),
                         *p = op_vector_find(v, "p");
  op_case c = {.name = v->name, .batch = 1};
  c.in[0] = (op_operand_spec){.dtype = AC_F32, .rank = p0->rank};
  memcpy(c.in[0].dim, p0->dim, sizeof p0->dim);
  c.out[0] = c.in[0];
  update(&c, v, 1);
  op_instance s;
  op_instance_blank(&s, &c, AC_F32);
  memcpy(s.initial[0], p0->data, (size_t)p0->count * sizeof(double));
  const op_variant variant = {.name = "against the authors"};
  const char *where = op_where(device, &s, &variant);
  bool good = true;
  for (int64_t t = 0; good && t < g->dim[0]; t++) {
    memcpy(s.args.in[0].data, g->data + t * p0->count, (size_t)p0->count * sizeof(double));
    update(&c, v, t + 1);
    s.attributes = c.attributes;
    good = step(device, &s, &variant);
    if (good) compare(where, t + 1, s.initial[0], p->data + t * p0->count, p0->count);
  }
  op_instance_free(&s);
}

void op_replay(ac_device *device, const char *file, op_update update) {
  int count = 0;
  op_vector *vectors = op_vectors_read(file, &count);
  OP_EXPECT(file, vectors, "tests/vectors/%s.safetensors cannot be read", file);
  for (int i = 0; i < count; i++) replay(device, &vectors[i], update);
  op_vectors_free(vectors, count);
}
