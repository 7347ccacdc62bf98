/* Steps of several parameters by one launch have the bits of one launch each: of drawn sizes, types
 * and factors, of several kinds in any order, and nothing else changes. */
#include "support/devices.h"

#ifdef AC_HAVE_OPENCL
#include "backend/device.h"
#include "backend/opencl/shared/opencl.h"
#include "core/align.h"
#include "core/eight_bit.h"
#include "ops/update/lion.h"
#include "ops/update/optimizer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STEPS = 40, OPERANDS = 1 + AC_MAX_OUTPUTS, ROUNDS = 60 };
static int rounds = ROUNDS;

static uint32_t seed = 1;

static uint32_t draw(uint32_t below) {
  seed = seed * 1664525u + 1013904223u;
  return (seed >> 8) % below;
}

static float draw_float(float least, float most) {
  return least + (most - least) * (float)draw(1 << 20) / (1 << 20);
}

static const ac_run_state state = {
    .training = true, .seed = 11, .update = 7, .batch = 1, .loss_scale = 1};

/* ---- what is drawn --------------------------------------------------------------------------- */

typedef union attributes {
  ac_gradient_statistics_attributes statistics;
  ac_adamw_attributes adamw;
  ac_sgd_attributes sgd;
  ac_lion_attributes lion;
} attributes;

typedef struct list {
  int count;
  attributes own[MOST_STEPS];
  ac_op_args args[MOST_STEPS];
  uint64_t place[MOST_STEPS][OPERANDS], workspace, bytes;
} list;

static ac_operand vector(ac_dtype dtype, int64_t count) {
  return (ac_operand){.dtype = dtype, .rank = 1, .dim = {count}, .count = count};
}

static ac_operand kept(bool eight_bit, int64_t count) {
  const int64_t blocks = ac_eight_bit_blocks(count);
  if (!eight_bit) return vector(AC_F32, count);
  return (ac_operand){.dtype = AC_U8,
                      .rank = 2,
                      .dim = {blocks, AC_EIGHT_BIT_BYTES},
                      .count = blocks * AC_EIGHT_BIT_BYTES};
}

/* Mostly of one work-group, with some that end with one. */
static int64_t draw_count(void) {
  switch (draw(4)) {
  case 0:
    return 1 + draw(20000);
  case 1:
    return 256 * (1 + draw(17));
  default:
    return 1 + draw(700);
  }
}

/* Bits: 1 the gradient in bf16, 2 the parameter, 4 state in 8 bits, 8 a copy, 16 which is bf16. */
static const uint32_t all_kinds[] = {0, 1, 2, 3, 4, 8, 16 | 8, 16 | 8 | 4};
enum { KINDS = sizeof all_kinds / sizeof *all_kinds };

/* Of the first so many kinds. */
static void draw_step(list *l, int index, ac_op op, uint32_t kinds) {
  static const ac_dtype storages[] = {AC_F16, AC_BF16};
  ac_op_args *args = &l->args[index];
  attributes *own = &l->own[index];
  const int64_t n = draw_count();
  const uint32_t kind = all_kinds[draw(kinds)];
  const ac_dtype gradient = kind & 1 ? AC_BF16 : AC_F32, parameter = kind & 2 ? AC_BF16 : AC_F32;
  const bool eight_bit = kind & 4;
  const ac_operand copy = kind & 8 ? vector(storages[kind >> 4 & 1], n) : (ac_operand){0};
  const float factor = draw_float(0.1f, 2), rate = draw_float(0.01f, 0.1f),
              decay = draw_float(0, 0.1f);
  *args = (ac_op_args){.op = op,
                       .attributes = own,
                       .in = {vector(gradient, n)},
                       .run = &state,
                       .name_hash = draw(1 << 24),
                       .first = 8 * (int64_t)draw(100)};
  if (op == AC_OP_gradient_statistics) {
    own->statistics.scale = factor;
    args->out[0] = vector(AC_F32, 2);
    return;
  }
  args->out[0] = vector(parameter, n);
  args->out[1] = kept(eight_bit, n);
  if (op == AC_OP_adamw) {
    own->adamw = (ac_adamw_attributes){factor, rate, decay, 0.1f, 0.01f, 1e-6f, 0.5f, 0.7f};
    args->out[2] = kept(eight_bit, n);
    args->out[3] = copy;
  } else if (op == AC_OP_sgd) {
    own->sgd = (ac_sgd_attributes){factor, rate, decay, 0.9f, draw(2), draw(2)};
    if (!eight_bit && draw(2)) args->out[1] = (ac_operand){0};
    args->out[2] = copy;
  } else {
    own->lion = (ac_lion_attributes){factor, rate, decay, 0.9f, 0.1f, 0.01f};
    args->out[2] = copy;
  }
}

static const ac_operand *operand_of(const ac_op_args *args, int k) {
  return k ? &args->out[k - 1] : &args->in[0];
}

static void lay(list *l, const ac_device *device) {
  l->workspace = l->bytes = 0;
  for (int i = 0; i < l->count; i++) {
    l->args[i].workspace_bytes = device->backend->workspace(device->state, &l->args[i]);
    if (l->args[i].workspace_bytes > l->workspace) l->workspace = l->args[i].workspace_bytes;
    for (int k = 0; k < OPERANDS; k++) {
      const ac_operand *x = operand_of(&l->args[i], k);
      l->place[i][k] = l->bytes;
      l->bytes = ac_align(l->bytes + (uint64_t)x->count * ac_dtype_bytes(x->dtype),
                          device->info.alignment);
    }
  }
}

/* Finite numbers; what AdamW divides by is not negative. */
static void fill(unsigned char *to, const ac_operand *x, bool is_positive) {
  for (int64_t i = 0; i < x->count; i++) {
    const float v = draw_float(is_positive ? 0 : -1, 1);
    const uint16_t half = x->dtype == AC_F16 ? ac_f16_from_float(v) : ac_bf16_from_float(v);
    if (x->dtype == AC_F32) memcpy(to + 4 * i, &v, sizeof v);
    else if (x->dtype == AC_U8) to[i] = (unsigned char)draw(255);
    else memcpy(to + 2 * i, &half, sizeof half);
  }
  for (int64_t b = 0; x->dtype == AC_U8 && b < x->dim[0]; b++) {
    const float scale = draw_float(0.5f, 2);
    memcpy(to + b * AC_EIGHT_BIT_BYTES + AC_EIGHT_BIT_BLOCK, &scale, sizeof scale);
  }
}

static unsigned char *draw_memory(const list *l) {
  unsigned char *memory = malloc(l->bytes);
  assert_non_null(memory);
  memset(memory, 0x5a, l->bytes);
  for (int i = 0; i < l->count; i++)
    for (int k = 0; k < OPERANDS; k++)
      fill(memory + l->place[i][k], operand_of(&l->args[i], k), k == 3);
  /* An infinite gradient here and there. */
  for (int i = 0; i < l->count; i++)
    if (l->args[i].op == AC_OP_gradient_statistics && !draw(3)) {
      const ac_operand *g = &l->args[i].in[0];
      const float infinite = (float)INFINITY;
      unsigned char *at =
          memory + l->place[i][0] + draw((uint32_t)g->count) * ac_dtype_bytes(g->dtype);
      memcpy(at, (const char *)&infinite + 4 - ac_dtype_bytes(g->dtype), ac_dtype_bytes(g->dtype));
    }
  return memory;
}

/* ---- running it ------------------------------------------------------------------------------ */

/* What becomes of the memory, which is replaced. Returns the launches. */
static uint64_t run(ac_device *device, list *l, unsigned char *memory, bool joined) {
  const ac_backend *backend = device->backend;
  void *chunk, *whole, *views[MOST_STEPS][OPERANDS] = {{NULL}}, *workspace = NULL;
  const uint64_t total = l->bytes + l->workspace;
  assert_ok(ac_device_allocate(device, total, &chunk));
  assert_ok(backend->view(device->state, chunk, 0, l->bytes, &whole));
  assert_ok(backend->upload(device->state, whole, 0, memory, l->bytes));
  if (l->workspace)
    assert_ok(backend->view(device->state, chunk, l->bytes, l->workspace, &workspace));
  for (int i = 0; i < l->count; i++) {
    for (int k = 0; k < OPERANDS; k++) {
      ac_operand *x = (ac_operand *)operand_of(&l->args[i], k);
      if (!x->count) continue;
      assert_ok(backend->view(device->state, chunk, l->place[i][k],
                              (uint64_t)x->count * ac_dtype_bytes(x->dtype), &views[i][k]));
      x->data = views[i][k];
    }
    l->args[i].workspace = l->args[i].workspace_bytes ? workspace : NULL;
    assert_ok(backend->prepare(device->state, &l->args[i]));
  }
  const ac_opencl *cl = device->state;
  const uint64_t before = cl->launches;
  if (joined) assert_ok(backend->run_all(device->state, l->args, l->count));
  for (int i = 0; i < l->count && !joined; i++) assert_ok(backend->run(device->state, &l->args[i]));
  const uint64_t launches = cl->launches - before;
  assert_ok(backend->download(device->state, whole, 0, memory, l->bytes));
  for (int i = l->count - 1; i >= 0; i--)
    for (int k = OPERANDS - 1; k >= 0; k--)
      if (views[i][k]) backend->release_view(device->state, views[i][k]);
  if (workspace) backend->release_view(device->state, workspace);
  backend->release_view(device->state, whole);
  ac_device_release(device, chunk, total);
  return launches;
}

static void check(const list *l, const unsigned char *single, const unsigned char *joined,
                  const unsigned char *before) {
  bool changed = false;
  for (uint64_t b = 0; b < l->bytes; b++) {
    changed = changed || single[b] != before[b];
    if (single[b] == joined[b]) continue;
    for (int i = 0; i < l->count; i++)
      for (int k = 0; k < OPERANDS; k++) {
        const ac_operand *x = operand_of(&l->args[i], k);
        const uint64_t begin = l->place[i][k],
                       end = begin + (uint64_t)x->count * ac_dtype_bytes(x->dtype);
        if (b >= begin && b < end)
          fail_msg("%s, step %d of %d: element %llu of %lld of operand %d",
                   ac_op_name(l->args[i].op), i, l->count,
                   (unsigned long long)((b - begin) / ac_dtype_bytes(x->dtype)),
                   (long long)x->count, k);
      }
    fail_msg("byte %llu between operands was written", (unsigned long long)b);
  }
  assert_true(changed);
}

/* Returns the launches of what is joined. */
static uint64_t compare(ac_device *device, list *l) {
  lay(l, device);
  unsigned char *before = draw_memory(l), *single = malloc(l->bytes), *joined = malloc(l->bytes);
  assert_true(single && joined);
  memcpy(single, before, l->bytes);
  memcpy(joined, before, l->bytes);
  run(device, l, single, false);
  const uint64_t launches = run(device, l, joined, true);
  check(l, single, joined, before);
  free(before);
  free(single);
  free(joined);
  return launches;
}

static const ac_op ops[] = {AC_OP_gradient_statistics, AC_OP_adamw, AC_OP_sgd, AC_OP_lion};
enum { OPS = sizeof ops / sizeof *ops };

/* Of one op, in f32 or of any types. */
static void steps_of_one_op(void **unused) {
  static list l;
  ac_device *device = open_opencl("opencl");
  (void)unused;
  for (int round = 0; round < rounds; round++) {
    l.count = 1 + (int)draw(MOST_STEPS);
    for (int i = 0; i < l.count; i++)
      draw_step(&l, i, ops[round % OPS], round / OPS % 2 ? KINDS : 1);
    compare(device, &l);
  }
  ac_device_close(device);
}

/* More kinds than are gathered at a time. */
static void steps_of_all_ops(void **unused) {
  static list l;
  ac_device *device = open_opencl("opencl");
  (void)unused;
  for (int round = 0; round < rounds / 2; round++) {
    l.count = 1 + (int)draw(MOST_STEPS);
    for (int i = 0; i < l.count; i++) draw_step(&l, i, ops[draw(OPS)], KINDS);
    compare(device, &l);
  }
  ac_device_close(device);
}

/* Eight small ones a launch, and what is left of them; large ones by themselves. */
static void launches_are_few(void **unused) {
  static list l;
  ac_device *device = open_opencl("opencl");
  const int64_t small = ac_cl_small(device->state);
  (void)unused;
  for (int o = 0; o < OPS; o++) {
    l.count = 20;
    for (int i = 0; i < l.count; i++) {
      do draw_step(&l, i, ops[o], 1);
      while (l.args[i].in[0].count > small || (ops[o] == AC_OP_sgd && !l.args[i].out[1].count));
    }
    assert_int_equal(compare(device, &l), 3);
    do draw_step(&l, 7, ops[o], 1);
    while (l.args[7].in[0].count <= small);
    /* Statistics of a large one take two. */
    assert_int_equal(compare(device, &l), ops[o] == AC_OP_gradient_statistics ? 5 : 4);
  }
  ac_device_close(device);
}

/* --reduced: a round of each op and two of all, for oclgrind. */
int main(int count, char **arguments) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(steps_of_one_op),
      cmocka_unit_test(steps_of_all_ops),
      cmocka_unit_test(launches_are_few),
  };
  const bool reduced = count > 1 && !strcmp(arguments[1], "--reduced");
  if (reduced) rounds = OPS;
  if (reduced) cmocka_set_skip_filter("launches_are_few");
  return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) {
  return 0;
}
#endif
