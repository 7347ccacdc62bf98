/* Runs one op on a device. All operands and the workspace lie in one chunk with guards between
 * them:
 *
 *     | guard | in 0 | guard | in 1 | guard | ... | out 0 | guard | ... | workspace | guard |
 *
 * The chunk is first filled with ones (a NaN in every float), so a kernel that reads what it was
 * not given, or an output before it wrote it, shows in the result, and one that writes elsewhere
 * changes a guard. A second run starts from other garbage: sums with a NaN leave its bits as they
 * were. */
#include "driver.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int op_failures;
bool op_reduced;
#ifdef __SANITIZE_ADDRESS__ /* under which all takes some times as long */
int op_drawn = 50;
#else
int op_drawn = 200;
#endif

/* The first few of a place are enough to see what is wrong. */
void op_fail(const char *where, const char *format, ...) {
  static char last[256];
  static int repeated;
  op_failures++;
  if (strcmp(last, where) != 0) repeated = 0;
  snprintf(last, sizeof last, "%s", where);
  if (++repeated > 4) return;
  va_list list;
  va_start(list, format);
  fprintf(stderr, "%s: ", where);
  vfprintf(stderr, format, list);
  fprintf(stderr, "\n");
  va_end(list);
}

const char *op_where(const ac_device *device, const op_instance *instance,
                     const op_variant *variant) {
  static char text[4][256];
  static unsigned next;
  char *to = text[next++ % 4];
  snprintf(to, sizeof *text, "%s: %s \"%s\"%s%s%s%s", device ? device->info.id : "reference",
           ac_op_name(instance->args.op), instance->family_case,
           instance->storage != AC_F32 ? ", " : "",
           instance->storage != AC_F32 ? op_storage_name(instance->storage) : "",
           variant && variant->name ? ", " : "", variant && variant->name ? variant->name : "");
  return to;
}

enum { SLOTS = AC_MAX_INPUTS + AC_MAX_OUTPUTS + 1, WORKSPACE = SLOTS - 1, GUARD = 256 };

/* Where each operand lies: inputs, outputs, workspace. */
typedef struct layout {
  uint64_t offset[SLOTS], bytes[SLOTS], total;
} layout;

typedef struct run_state {
  ac_device *device;
  const op_instance *instance;
  const op_variant *variant;
  const char *where;
  layout at;
  ac_op_args args;
  void *chunk, *whole, *view[SLOTS];
  unsigned char *before, *after;
} run_state;

static bool ok(const run_state *s, ac_status status, const char *what) {
  if (status != AC_OK) op_fail(s->where, "%s: %s", what, ac_last_error());
  return status == AC_OK;
}

/* The arguments as the planner has them: shapes, no handles. */
static void shapes_only(run_state *s) {
  const op_variant *v = s->variant;
  s->args = s->instance->args;
  for (int i = 0; i < AC_MAX_INPUTS; i++) s->args.in[i].data = NULL;
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
    s->args.out[j].data = NULL;
    if (v->absent >> j & 1) s->args.out[j] = (ac_operand){0};
    s->args.add[j] = s->args.out[j].count && (v->add >> j & 1);
  }
}

static void lay_out(run_state *s) {
  layout *at = &s->at;
  uint64_t alignment = s->device->info.alignment ? s->device->info.alignment : 1, cursor = GUARD;
  for (int k = 0; k < SLOTS; k++) {
    const ac_operand *x = k < AC_MAX_INPUTS ? &s->args.in[k]
                          : k < WORKSPACE   ? &s->args.out[k - AC_MAX_INPUTS]
                                            : NULL;
    at->bytes[k] = x ? (uint64_t)x->count * ac_dtype_bytes(x->dtype) : s->args.workspace_bytes;
    at->offset[k] = (cursor + alignment - 1) / alignment * alignment;
    if (at->bytes[k]) cursor = at->offset[k] + at->bytes[k] + GUARD;
  }
  if (s->variant->in_place) at->offset[AC_MAX_INPUTS] = at->offset[s->variant->alias];
  at->total = cursor;
}

static bool make_views(run_state *s) {
  const ac_backend *backend = s->device->backend;
  void *state = s->device->state;
  if (!ok(s, ac_device_allocate(s->device, s->at.total, &s->chunk), "allocate")) return false;
  if (!ok(s, backend->view(state, s->chunk, 0, s->at.total, &s->whole), "view")) return false;
  for (int k = 0; k < SLOTS; k++) {
    if (!s->at.bytes[k]) continue;
    if (s->variant->in_place && k == AC_MAX_INPUTS) {
      s->args.out[0].data = s->view[s->variant->alias];
      continue;
    }
    if (!ok(s, backend->view(state, s->chunk, s->at.offset[k], s->at.bytes[k], &s->view[k]),
            "view"))
      return false;
    if (k < AC_MAX_INPUTS) s->args.in[k].data = s->view[k];
    else if (k < WORKSPACE) s->args.out[k - AC_MAX_INPUTS].data = s->view[k];
    else s->args.workspace = s->view[k];
  }
  return true;
}

static void store(unsigned char *to, const ac_operand *x, const double *values) {
  for (int64_t e = 0; e < x->count; e++)
    op_encode(x->dtype, values[e], to + e * (int64_t)ac_dtype_bytes(x->dtype));
}

/* What the chunk holds before the run. Bytes of no operand are NaN in any float type, or, if not
 * `first`, numbers that differ from their neighbours. */
static void fill(run_state *s, bool first) {
  const op_instance *instance = s->instance;
  for (uint64_t b = 0; b < s->at.total; b++)
    s->before[b] = (unsigned char)(first ? 0xFF : 0x30 + b / 4 % 13);
  for (int i = 0; i < AC_MAX_INPUTS; i++) {
    const ac_operand *x = &instance->args.in[i];
    if (x->dtype == AC_I32 && x->count)
      memcpy(s->before + s->at.offset[i], x->data, s->at.bytes[i]);
    else store(s->before + s->at.offset[i], x, op_reals(x));
  }
  for (int j = 0; j < AC_MAX_OUTPUTS; j++)
    if (s->args.add[j] || (op_reference_of(s->args.op)->in_out && s->args.out[j].count))
      store(s->before + s->at.offset[AC_MAX_INPUTS + j], &s->args.out[j], instance->initial[j]);
}

static bool run_once(run_state *s) {
  const ac_backend *backend = s->device->backend;
  void *state = s->device->state;
  return ok(s, backend->upload(state, s->whole, 0, s->before, s->at.total), "upload") &&
         ok(s, backend->run(state, &s->args), "run") &&
         ok(s, backend->download(state, s->whole, 0, s->after, s->at.total), "download");
}

/* Whether byte b is an output's or the workspace's. */
static void check_untouched(const run_state *s) {
  unsigned char *may = calloc(s->at.total, 1);
  for (int k = AC_MAX_INPUTS; k < SLOTS; k++)
    if (s->at.bytes[k]) memset(may + s->at.offset[k], 1, s->at.bytes[k]);
  for (uint64_t b = 0; b < s->at.total; b++) {
    if (may[b] || s->before[b] == s->after[b]) continue;
    int nearest = 0;
    for (int k = 0; k < SLOTS; k++)
      if (s->at.bytes[k] && s->at.offset[k] <= b) nearest = k;
    op_fail(s->where, "wrote where it must not: byte %lld of slot %d, which has %llu",
            (long long)(b - s->at.offset[nearest]), nearest,
            (unsigned long long)s->at.bytes[nearest]);
  }
  free(may);
}

static void read_results(const run_state *s, op_result *result) {
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
    const ac_operand *x = &s->args.out[j];
    if (!x->count) continue;
    result->out[j] = calloc((size_t)x->count, sizeof(double));
    const unsigned char *at = s->after + s->at.offset[AC_MAX_INPUTS + j];
    for (int64_t e = 0; e < x->count; e++, at += ac_dtype_bytes(x->dtype))
      result->out[j][e] = op_decode(x->dtype, at);
  }
}

/* The second run starts from other garbage and must end with the same bits. */
static void check_repeatable(run_state *s) {
  unsigned char *first = malloc(s->at.total);
  memcpy(first, s->after, s->at.total);
  fill(s, false);
  if (run_once(s)) {
    check_untouched(s);
    for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
      int k = AC_MAX_INPUTS + j;
      OP_EXPECT(s->where,
                !memcmp(first + s->at.offset[k], s->after + s->at.offset[k], s->at.bytes[k]),
                "a second run gave other bits in output %d", j);
    }
  }
  free(first);
}

static void release(run_state *s) {
  for (int k = 0; k < SLOTS; k++)
    if (s->view[k]) s->device->backend->release_view(s->device->state, s->view[k]);
  if (s->whole) s->device->backend->release_view(s->device->state, s->whole);
  if (s->chunk) ac_device_release(s->device, s->chunk, s->at.total);
  free(s->before);
  free(s->after);
}

bool op_run(ac_device *device, const op_instance *instance, const op_variant *variant,
            op_result *result) {
  const ac_backend *backend = device->backend;
  run_state s = {.device = device,
                 .instance = instance,
                 .variant = variant,
                 .where = op_where(device, instance, variant)};
  memset(result, 0, sizeof *result);
  result->rounds_factors = strcmp(device->info.bf16_products, "as floats") != 0;
  shapes_only(&s);
  if (!backend->supports(device->state, &s.args)) {
    op_fail(s.where, "not supported");
    return false;
  }
  uint64_t least = backend->workspace(device->state, &s.args);
  s.args.workspace_bytes = variant->workspace ? variant->workspace : least;
  OP_EXPECT(s.where, s.args.workspace_bytes >= least,
            "needs %llu bytes of workspace, a larger batch %llu", (unsigned long long)least,
            (unsigned long long)variant->workspace);
  lay_out(&s);
  s.before = malloc(s.at.total);
  s.after = malloc(s.at.total);
  bool ran = s.before && s.after && make_views(&s) &&
             ok(&s, backend->prepare(device->state, &s.args), "prepare");
  if (ran) {
    uint64_t objects = backend->objects(device->state);
    fill(&s, true);
    ran = run_once(&s);
    if (ran) {
      check_untouched(&s);
      read_results(&s, result);
      if (!variant->once && !op_reduced) check_repeatable(&s);
    }
    OP_EXPECT(s.where, backend->objects(device->state) == objects,
              "made device objects while running");
  }
  release(&s);
  return ran;
}

bool op_run_bits(ac_device *device, const ac_op_args *shapes, const void *in, void *out) {
  const ac_backend *backend = device->backend;
  op_variant plain = {0};
  char where[64];
  snprintf(where, sizeof where, "%s: bits of %s", device->info.id, ac_op_name(shapes->op));
  run_state s = {.device = device, .variant = &plain, .where = where, .args = *shapes};
  if (!backend->supports(device->state, &s.args)) {
    op_fail(where, "not supported");
    return false;
  }
  s.args.workspace_bytes = backend->workspace(device->state, &s.args);
  lay_out(&s);
  s.before = malloc(s.at.total);
  s.after = malloc(s.at.total);
  bool ran = s.before && s.after && make_views(&s) &&
             ok(&s, backend->prepare(device->state, &s.args), "prepare");
  if (ran) {
    memset(s.before, 0xFF, s.at.total);
    memcpy(s.before + s.at.offset[0], in, s.at.bytes[0]);
    memcpy(s.before + s.at.offset[AC_MAX_INPUTS], out, s.at.bytes[AC_MAX_INPUTS]);
    ran = run_once(&s);
  }
  if (ran) {
    check_untouched(&s);
    memcpy(out, s.after + s.at.offset[AC_MAX_INPUTS], s.at.bytes[AC_MAX_INPUTS]);
  }
  release(&s);
  return ran;
}

void op_result_free(op_result *result) {
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) free(result->out[j]);
}
