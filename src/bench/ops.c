/* The list of ops to measure: taken from plans, so that shapes are those of real models, and from
 * calibration's table. Entries with the same op, shapes, dtypes and words are one entry: other
 * differences between two nodes, such as the stream of their random numbers, do not change their
 * work. */
#include "bench/bench.h"

#include "core/error.h"
#include "core/platform/processors.h"
#include "ops/linear/linear.h"
#include "plan/cost.h"
#include "plan/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ac_status ac_bench_create(ac_bench **bench, ac_device *device, const ac_bench_desc *desc) {
  AC_CREATES(bench);
  AC_REQUIRE(device);
  ac_bench_desc resolved;
  AC_TRY(ac_bench_resolve(&resolved, desc));
  ac_bench *made = calloc(1, sizeof *made);
  if (!made) return ac_fail(AC_ERROR_MEMORY, "bench: no memory");
  made->device = device;
  made->desc = resolved;
  ac_status status = ac_timing_pattern_create(&made->pattern);
  if (status == AC_OK) *bench = made;
  else ac_bench_free(made);
  return status;
}

void ac_bench_free(ac_bench *bench) {
  if (!bench) return;
  for (int i = 0; i < bench->count; i++) free(bench->entries[i]);
  free(bench->entries);
  for (int i = 0; i < bench->kept_count; i++) ac_block_free(bench->kept[i]);
  free(bench->kept);
  ac_timing_pattern_free(&bench->pattern);
  free(bench);
}

/* ---- adding ---------------------------------------------------------------------------------- */

static bool same_operand(const ac_operand *a, const ac_operand *b) {
  return a->count == b->count && (!a->count || (a->dtype == b->dtype && a->rank == b->rank &&
                                                !memcmp(a->dim, b->dim, sizeof a->dim)));
}

static bool same_work(const ac_bench_entry *a, const ac_bench_entry *b) {
  if (a->args.op != b->args.op || a->run.batch != b->run.batch) return false;
  for (int i = 0; i < AC_MAX_INPUTS; i++)
    if (!same_operand(&a->args.in[i], &b->args.in[i])) return false;
  for (int j = 0; j < AC_MAX_OUTPUTS; j++)
    if (!same_operand(&a->args.out[j], &b->args.out[j]) || a->args.add[j] != b->args.add[j])
      return false;
  return !strcmp(a->shapes, b->shapes) && !strcmp(ac_op_title(a->args.op, a->args.attributes),
                                                  ac_op_title(b->args.op, b->args.attributes));
}

static ac_status append(ac_bench *bench, const ac_bench_entry *entry) {
  if (bench->count == bench->capacity) {
    int capacity = bench->capacity ? 2 * bench->capacity : 64;
    ac_bench_entry **grown = realloc(bench->entries, (size_t)capacity * sizeof *grown);
    if (!grown) return ac_fail(AC_ERROR_MEMORY, "bench: no memory for a list of ops");
    bench->entries = grown;
    bench->capacity = capacity;
  }
  ac_bench_entry *copy = malloc(sizeof *copy);
  if (!copy) return ac_fail(AC_ERROR_MEMORY, "bench: no memory for a list of ops");
  *copy = *entry;
  if (entry->args.attributes == entry->attributes) copy->args.attributes = copy->attributes;
  copy->args.run = &copy->run;
  bench->entries[bench->count++] = copy;
  return AC_OK;
}

/* Counts an entry that is there already. */
static ac_status add(ac_bench *bench, ac_bench_entry *entry) {
  entry->args.run = &entry->run;
  ac_bench_describe(entry->shapes, sizeof entry->shapes, &entry->args);
  for (int i = 0; i < bench->count; i++) {
    ac_bench_entry *other = bench->entries[i];
    if (!same_work(entry, other)) continue;
    other->count += entry->count;
    return AC_OK;
  }
  ac_device *device = bench->device;
  entry->args.workspace_bytes = device->backend->workspace(device->state, &entry->args);
  return append(bench, entry);
}

/* The plan's attributes go with the plan, and with its graph what they point to. */
static ac_status keep_blocks(ac_bench *bench, const ac_plan *plan) {
  const ac_graph *graph = plan->graph;
  const size_t count = (size_t)bench->kept_count + (size_t)graph->kept_count;
  if (!graph->kept_count) return AC_OK;
  ac_block **grown = realloc(bench->kept, count * sizeof *grown);
  if (!grown) return ac_fail(AC_ERROR_MEMORY, "bench: no memory for a list of ops");
  bench->kept = grown;
  for (int i = 0; i < graph->kept_count; i++)
    bench->kept[bench->kept_count++] = ac_block_share(graph->kept[i]);
  return AC_OK;
}

static void own_attributes(ac_bench_entry *entry) {
  memcpy(entry->attributes, entry->args.attributes, sizeof entry->attributes);
  entry->args.attributes = entry->attributes;
}

static ac_run_state run_of(int64_t batch) {
  return (ac_run_state){.training = true, .seed = 1, .batch = batch, .loss_scale = 1};
}

/* The shape does not matter for a step that works element by element. */
static ac_operand flat(ac_operand x) {
  return (ac_operand){.dtype = x.dtype, .rank = x.count > 0, .dim = {x.count}, .count = x.count};
}

static void flatten(ac_op_args *args) {
  for (int i = 0; i < AC_MAX_INPUTS; i++) args->in[i] = flat(args->in[i]);
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) args->out[j] = flat(args->out[j]);
}

/* A step of another phase than the micro-batch's, at any place of its sequence. */
static ac_status add_update(ac_bench *bench, const ac_plan *plan, const ac_step *step,
                            int64_t times) {
  ac_bench_entry entry = {.run = run_of(1), .update = true, .count = times};
  ac_step_arguments(step, plan->graph, &entry.run, &entry.args);
  if (ac_op_describe(entry.args.op)->by_element) flatten(&entry.args);
  own_attributes(&entry);
  return add(bench, &entry);
}

static ac_status add_step(ac_bench *bench, const ac_plan *plan, const ac_step *step,
                          int64_t samples, int64_t times, bool fresh) {
  const ac_node *node = ac_node_at(plan->graph, step->node);
  if (node->phase != AC_PHASE_MICRO_BATCH) return add_update(bench, plan, step, times);
  ac_bench_entry entry = {.run = run_of(samples), .backward = node->backward, .count = times};
  entry.run.training = plan->main.training;
  ac_step_arguments(step, plan->graph, &entry.run, &entry.args);
  for (int j = 0; j < AC_MAX_OUTPUTS && fresh; j++)
    if (step->write[j] == AC_ADD_UNLESS_FIRST) entry.args.add[j] = false;
  own_attributes(&entry);
  return add(bench, &entry);
}

/* What `times` micro-batches of so many samples run. `fresh`: they begin their windows, so what
 * others add to they overwrite. `later`: they follow one that has run what runs once. */
static ac_status add_steps(ac_bench *bench, const ac_plan *plan, int64_t samples, int64_t times,
                           bool fresh, bool later) {
  const ac_sequence *main = &plan->main;
  for (int i = 0; i < ac_sequence_end(main) && times; i++)
    if (!later || !main->steps[i].once)
      AC_TRY(add_step(bench, plan, &main->steps[i], samples, times, fresh));
  return AC_OK;
}

/* What ends a window: other phases, or a second pass over its micro-batch. */
static ac_status add_updates(ac_bench *bench, const ac_plan *plan) {
  const ac_sequence *main = &plan->main, *stepping = &plan->stepping;
  for (int i = ac_sequence_end(main); i < main->step_count; i++)
    AC_TRY(add_update(bench, plan, &main->steps[i], 1));
  for (int i = 0; i < stepping->step_count; i++)
    AC_TRY(add_step(bench, plan, &stepping->steps[i], plan->info.micro_batch, 1, true));
  return AC_OK;
}

static ac_status check_plan(const ac_bench *bench, const ac_plan *plan) {
  if (plan->device == bench->device) return AC_OK;
  return ac_fail(AC_ERROR_ARGUMENT, "bench: the plan is for another device");
}

ac_status ac_bench_add_plan(ac_bench *bench, const ac_plan *plan) {
  AC_REQUIRE(bench, plan);
  AC_TRY(check_plan(bench, plan));
  AC_TRY(keep_blocks(bench, plan));
  AC_TRY(add_steps(bench, plan, plan->info.micro_batch, 1, false, false));
  return plan->problem.desc.purpose == AC_TRAIN ? add_updates(bench, plan) : AC_OK;
}

ac_status ac_bench_add_window(ac_bench *bench, const ac_plan *plan) {
  AC_REQUIRE(bench, plan);
  AC_TRY(check_plan(bench, plan));
  AC_TRY(keep_blocks(bench, plan));
  int64_t size = plan->info.micro_batch, rest = plan->info.batch % size;
  AC_TRY(add_steps(bench, plan, size, 1, true, false));
  AC_TRY(add_steps(bench, plan, size, plan->info.batch / size - 1, false, true));
  if (rest) AC_TRY(add_steps(bench, plan, rest, 1, false, true));
  return plan->problem.desc.purpose == AC_TRAIN ? add_updates(bench, plan) : AC_OK;
}

static ac_dtype storage_of(ac_precision precision) {
  return ac_plan_storage(&(ac_plan_desc){.precision = precision});
}

static ac_status check_precision(ac_precision precision) {
  if ((unsigned)precision <= AC_PRECISION_BF16) return AC_OK;
  return ac_fail(AC_ERROR_ARGUMENT, "bench: unknown precision %d", (int)precision);
}

static bool has_op(const ac_bench *bench, int op) {
  for (int i = 0; i < bench->count; i++)
    if (bench->entries[i]->args.op == (ac_op)op) return true;
  return false;
}

/* Whether there is an op that is called the same. */
static bool has_title(const ac_bench *bench, const ac_op_args *args) {
  const char *title = ac_op_title(args->op, args->attributes);
  for (int i = 0; i < bench->count; i++) {
    const ac_op_args *other = &bench->entries[i]->args;
    if (other->op == args->op && !strcmp(ac_op_title(other->op, other->attributes), title))
      return true;
  }
  return false;
}

/* One op may be called for what it does, forward and backward: then its name says which. */
static bool is_gradient(const char *title) {
  static const char end[] = "_gradient";
  const size_t length = strlen(title);
  return length >= sizeof end && !strcmp(title + length - (sizeof end - 1), end);
}

/* What an op can be that is not in the list. */
static ac_status add_variants(ac_bench *bench, ac_dtype storage, ac_op op) {
  const ac_op_desc *desc = ac_op_describe(op);
  for (int number = 0; desc->sample.variant; number++) {
    ac_bench_entry entry = {.backward = desc->backward,
                            .update = desc->phase != AC_PHASE_MICRO_BATCH};
    ac_op_sample_arguments(&entry.args, op, storage, AC_SAMPLE_SIZES - 1);
    if (!desc->sample.variant(number, &entry.args, entry.attributes)) return AC_OK;
    if (has_title(bench, &entry.args) ||
        !bench->device->backend->supports(bench->device->state, &entry.args))
      continue;
    entry.backward |= is_gradient(ac_op_title(op, entry.args.attributes));
    entry.run = *entry.args.run;
    AC_TRY(add(bench, &entry));
  }
  return AC_OK;
}

ac_status ac_bench_add_others(ac_bench *bench, ac_precision precision) {
  AC_REQUIRE(bench);
  AC_TRY(check_precision(precision));
  for (int op = 0; op < AC_OP_COUNT; op++) {
    ac_bench_entry entry = {0};
    AC_TRY(add_variants(bench, storage_of(precision), (ac_op)op));
    if (has_op(bench, op) || !ac_cost_sample(&entry.args, bench->device, storage_of(precision),
                                             (ac_op)op, AC_SAMPLE_SIZES - 1))
      continue;
    entry.run = *entry.args.run;
    entry.backward = ac_op_describe((ac_op)op)->backward;
    entry.update = ac_op_describe((ac_op)op)->phase != AC_PHASE_MICRO_BATCH;
    AC_TRY(add(bench, &entry));
  }
  return AC_OK;
}

ac_status ac_bench_add_product(ac_bench *bench, ac_precision precision, int64_t rows,
                               int64_t inputs, int64_t outputs) {
  AC_REQUIRE(bench);
  AC_TRY(check_precision(precision));
  static const ac_linear_attributes in_out = {AC_IN_OUT};
  const int64_t most = 1 << 20;
  if (rows < 1 || inputs < 1 || outputs < 1 || rows > most || inputs > most || outputs > most)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "bench: a product of %" PRId64 " x %" PRId64 " x %" PRId64
                   "; each must be from 1 to %" PRId64,
                   rows, inputs, outputs, most);
  ac_dtype dtype = storage_of(precision);
  ac_bench_entry entry = {.run = run_of(rows)};
  entry.args = (ac_op_args){.op = AC_OP_linear,
                            .attributes = &in_out,
                            .in = {{NULL, dtype, 2, {rows, inputs}, rows * inputs},
                                   {NULL, dtype, 2, {inputs, outputs}, inputs * outputs}},
                            .out = {{NULL, dtype, 2, {rows, outputs}, rows * outputs}}};
  if (!bench->device->backend->supports(bench->device->state, &entry.args))
    return ac_fail(AC_ERROR_UNSUPPORTED, "bench: %s does not multiply matrices in %s",
                   bench->device->info.id, ac_dtype_name(dtype));
  return add(bench, &entry);
}

/* ---- measuring ------------------------------------------------------------------------------- */

enum { MOST_COPIES = 1024 };

static uint64_t default_footprint(void) {
  const uint64_t least = (uint64_t)256 << 20;
  uint64_t twice = 2 * ac_cache_bytes();
  return twice > least ? twice : least;
}

uint64_t ac_bench_footprint(const ac_bench_desc *resolved, const ac_device *device) {
  uint64_t bytes = resolved->footprint ? resolved->footprint : default_footprint();
  uint64_t most = device->info.memory_bytes / 4;
  return most && bytes > most ? most : bytes;
}

static uint64_t copy_count(const ac_bench *bench, const ac_bench_entry *entry) {
  uint64_t bytes = ac_placed_bytes(bench->device, &entry->args);
  uint64_t count = (ac_bench_footprint(&bench->desc, bench->device) + bytes - 1) / bytes;
  uint64_t most = bench->device->info.max_allocation;
  if (most && count * bytes > most) count = most / bytes;
  if (count > MOST_COPIES) count = MOST_COPIES;
  return count ? count : 1;
}

int ac_bench_count(const ac_bench *bench) {
  return bench ? bench->count : 0;
}

static ac_status check_index(const ac_bench *bench, int index) {
  if (index >= 0 && index < bench->count) return AC_OK;
  return ac_fail(AC_ERROR_ARGUMENT, "bench: op %d of %d", index, bench->count);
}

static ac_precision precision_of(ac_dtype storage) {
  return storage == AC_F16    ? AC_PRECISION_F16
         : storage == AC_BF16 ? AC_PRECISION_BF16
                              : AC_PRECISION_F32;
}

ac_status ac_bench_get(const ac_bench *bench, int index, ac_bench_op *op) {
  AC_REQUIRE(bench, op);
  AC_TRY(check_index(bench, index));
  const ac_bench_entry *entry = bench->entries[index];
  ac_cost cost = ac_op_cost(&entry->args);
  uint64_t footprint = copy_count(bench, entry) * ac_placed_bytes(bench->device, &entry->args);
  *op = (ac_bench_op){.op = ac_op_title(entry->args.op, entry->args.attributes),
                      .shapes = entry->shapes,
                      .precision = precision_of(ac_op_storage(&entry->args)),
                      .backward = entry->backward,
                      .update = entry->update,
                      .count = entry->count,
                      .flops = cost.flops,
                      .bytes = cost.bytes,
                      .footprint = footprint,
                      .cached = footprint < default_footprint() / 2};
  return AC_OK;
}

ac_status ac_bench_refuse_dry(const ac_device *device) {
  if (!device->backend->computes_nothing) return AC_OK;
  return ac_fail(AC_ERROR_UNSUPPORTED, "bench: dry computes nothing that could be measured");
}

typedef struct running {
  ac_device *device;
  ac_placed_op *placed;
  int count, next;
} running;

static ac_status run_placed(void *user, int64_t runs) {
  running *r = user;
  return ac_placed_run(r->device, r->placed, r->count, &r->next, runs);
}

static ac_status time_in_chunk(ac_bench *bench, const ac_bench_entry *entry, void *chunk,
                               uint64_t bytes, running *r, ac_bench_timing *timing) {
  ac_device *device = bench->device;
  uint64_t offset = 0;
  for (int count = r->count; r->next < count; r->next++, offset += bytes)
    AC_TRY(ac_op_place(&r->placed[r->next], device, &entry->args, chunk, offset, &bench->pattern));
  r->next = 0;
  const ac_wait wait = ac_wait_begin(device, "preparing %s", ac_op_name(entry->args.op));
  AC_TRY(ac_wait_end(&wait, device->backend->prepare(device->state, &r->placed[0].args)));
  return ac_bench_measure(timing, &bench->desc, run_placed, r);
}

ac_status ac_bench_time(ac_bench *bench, int index, ac_bench_timing *timing) {
  AC_REQUIRE(bench, timing);
  ac_device *device = bench->device;
  AC_TRY(check_index(bench, index));
  AC_TRY(ac_bench_refuse_dry(device));
  const ac_bench_entry *entry = bench->entries[index];
  uint64_t bytes = ac_placed_bytes(device, &entry->args), copies = copy_count(bench, entry);
  uint64_t peak = device->peak, chunk_bytes = bytes * copies;
  running r = {.device = device, .count = (int)copies};
  if (!(r.placed = calloc(copies, sizeof *r.placed)))
    return ac_fail(AC_ERROR_MEMORY, "bench: no memory for %d copies of an op", r.count);
  void *chunk = NULL;
  ac_status status = ac_device_allocate(device, chunk_bytes, &chunk);
  if (status == AC_OK) status = time_in_chunk(bench, entry, chunk, bytes, &r, timing);
  for (int i = 0; i < r.count; i++) ac_op_lift(&r.placed[i], device);
  ac_device_release(device, chunk, chunk_bytes);
  device->peak = peak;
  free(r.placed);
  if (status == AC_OK) return AC_OK;
  return ac_fail_prefix(status, "bench: %s", ac_op_name(entry->args.op));
}
