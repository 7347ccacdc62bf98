/* Stages as a chain: what each variant of a stage takes in bytes and seconds at one micro-batch,
 * found by laying down each stage alone. */
#include "plan/stages.h"

#include "core/align.h"
#include "core/error.h"

#include <stdlib.h>
#include <string.h>

static ac_status no_memory(void) {
  return ac_fail(AC_ERROR_MEMORY, "no memory to measure the stages of a graph");
}

/* What a measurement needs. */
typedef struct measuring {
  const ac_stages *stages;
  ac_device *device;
  const ac_cost_model *costs;
  int64_t batch;
  ac_order *order; /* scratch */
} measuring;

/* A piece of a stage's work laid down alone: [0, split) forward, [split, count) backward. What it
 * reads from outside is alive from its first step on. */
typedef struct piece {
  ac_sequence sequence;
  int split;
  double forward, recomputed, backward; /* seconds */
} piece;

static ac_status lay_piece(const measuring *m, int s, const ac_stage_variants *variants,
                           int variant, piece *result) {
  const ac_graph *graph = m->stages->graph;
  const ac_nodes *nodes = &m->order->nodes;
  *result = (piece){.split = 0};
  AC_TRY(ac_order_lay_stage(m->order, m->stages, s, variants, variant, &result->split));
  AC_TRY(ac_sequence_build(&result->sequence, graph, AC_TARGET_GRADIENTS, (ac_storage){0}, nodes,
                           NULL));
  AC_TRY(ac_sequence_size(&result->sequence, graph, m->device, m->batch, 0));
  for (int i = 0; i < nodes->count; i++) {
    double seconds = ac_cost_step_seconds(m->costs, graph, &result->sequence.steps[i], m->batch);
    bool backward = ac_node_at(graph, nodes->list[i])->backward;
    if (i < result->split) result->forward += seconds;
    else if (backward) result->backward += seconds;
    else result->recomputed += seconds;
  }
  return AC_OK;
}

static uint64_t storage_bytes(const measuring *m, int storage) {
  if (storage < 0) return 0;
  ac_operand x = ac_operand_of(ac_tensor_at(m->stages->graph, storage), m->batch);
  return ac_align((uint64_t)ac_operand_bytes(&x), m->device->info.alignment);
}

/* The most bytes alive at a forward step, and at a later one. The beginnings and ends of values are
 * changes of a running sum. */
static ac_status find_peaks(const piece *p, uint64_t *forward, uint64_t *backward) {
  const ac_sequence *sequence = &p->sequence;
  int64_t live = 0, *change = calloc((size_t)sequence->step_count + 2, sizeof *change);
  if (!change) return no_memory();
  for (int i = 0; i < sequence->value_count; i++) {
    const ac_value *value = &sequence->values[i];
    change[value->first] += (int64_t)value->bytes;
    change[value->last + 1] -= (int64_t)value->bytes;
  }
  for (int step = 0; step < sequence->step_count; step++) {
    uint64_t *most = step < p->split ? forward : backward;
    live += change[step];
    if ((uint64_t)live > *most) *most = (uint64_t)live;
  }
  free(change);
  return AC_OK;
}

static uint64_t excess(uint64_t peak, uint64_t base) {
  return peak > base ? peak - base : 0;
}

/* A storage from outside is alive in the piece's account up to its last use; the chain holds it
 * longer. */
static bool outside(const ac_stages *stages, const ac_value *value, int s) {
  if (value->tensor < 0) return false;
  int from = stages->stage_of[value->tensor];
  return value->outside && from != s;
}

static ac_status measure(const measuring *m, int s, const piece *p, ac_chain_variant *result) {
  const ac_stages *stages = m->stages;
  const ac_sequence *sequence = &p->sequence;
  const ac_stage *stage = &stages->stage[s];
  uint64_t input = storage_bytes(m, s ? stages->stage[s - 1].boundary : stages->input);
  uint64_t output = storage_bytes(m, stage->boundary);
  uint64_t outer = 0, saved = 0, forward = 0, backward = 0;
  bool reads_output = false;
  for (int i = 0; i < sequence->value_count; i++) {
    const ac_value *value = &sequence->values[i];
    if (outside(stages, value, s)) outer += value->bytes;
    else if (value->first < p->split && value->last >= p->split) saved += value->bytes;
    if (value->tensor >= 0 && value->tensor == stage->boundary && value->first < p->split &&
        value->last >= p->split)
      reads_output = true;
  }
  if (!reads_output) saved += output;
  if (saved < output) saved = output; /* computed in the place of something from outside */
  AC_TRY(find_peaks(p, &forward, &backward));
  /* `outer` holds a[l-1] and the gradient of a[l], in the forward part too early. */
  uint64_t gradient_early = excess(outer, input);
  result->saved = saved;
  result->forward_peak = excess(excess(forward, gradient_early), input + saved);
  result->backward_peak = excess(backward, input + saved + output);
  result->backward = p->backward;
  result->extra = p->recomputed;
  result->drops_output = !reads_output && stage->boundary >= 0;
  return AC_OK;
}

/* ---- variants -------------------------------------------------------------------------------- */

typedef struct candidate {
  int storage;
  double gain; /* bytes per second of recomputing */
} candidate;

static int by_gain(const void *a, const void *b) {
  const candidate *x = a, *y = b;
  if (x->gain != y->gain) return x->gain > y->gain ? -1 : 1;
  return x->storage - y->storage;
}

/* Hinted to be recomputed first, then by bytes saved per second of the op that yields them. */
static ac_status choose_variants(const measuring *m, const ac_stage *stage,
                                 ac_stage_variants *result) {
  const ac_graph *graph = m->stages->graph;
  const int count = stage->droppable_count;
  candidate *list = malloc((size_t)(count + 1) * sizeof *list);
  result->droppable = malloc((size_t)(count + 1) * sizeof *result->droppable);
  if (!list || !result->droppable) {
    free(list);
    return no_memory();
  }
  int asked = 0;
  for (int i = 0; i < count; i++) {
    int storage = stage->droppable[i];
    bool hinted = ac_tensor_at(graph, storage)->hint == AC_RECOMPUTE;
    ac_operand x = ac_operand_of(ac_tensor_at(graph, storage), m->batch);
    double bytes = (double)x.count * (double)ac_dtype_bytes(x.dtype);
    double seconds =
        ac_cost_node_seconds(m->costs, m->stages->graph, m->stages->producer[storage], m->batch);
    list[i] = (candidate){storage, hinted ? 1e300 : bytes / (seconds + 1e-9)};
    asked += hinted;
  }
  qsort(list, (size_t)count, sizeof *list, by_gain);
  for (int i = 0; i < count; i++) result->droppable[i] = list[i].storage;
  free(list);
  int free_choices = count - asked;
  result->count = free_choices + 1 < AC_STAGE_VARIANTS ? free_choices + 1 : AC_STAGE_VARIANTS;
  for (int k = 0; k < result->count; k++)
    result->drops[k] = asked + (result->count > 1 ? free_choices * k / (result->count - 1) : 0);
  return AC_OK;
}

static ac_status measure_stage(const measuring *m, int s, ac_stage_variants *variants,
                               ac_chain_stage *result, ac_chain_variant *measured) {
  const ac_stage *stage = &m->stages->stage[s];
  AC_TRY(choose_variants(m, stage, variants));
  piece p;
  for (int k = -1; k < variants->count; k++) {
    ac_status status = lay_piece(m, s, variants, k, &p);
    ac_chain_variant plain, *into = k >= 0 ? &measured[k] : &plain;
    if (status == AC_OK) status = measure(m, s, &p, into);
    if (status == AC_OK && k < 0) {
      result->forward = p.forward;
      result->output = storage_bytes(m, stage->boundary);
      result->forward_peak = plain.forward_peak;
    }
    ac_sequence_free(&p.sequence);
    AC_TRY(status);
  }
  result->variants = variants->count;
  result->variant = measured;
  return AC_OK;
}

ac_status ac_stage_chain_create(ac_stage_chain *result, const ac_stages *stages, ac_device *device,
                                const ac_cost_model *costs, int64_t batch) {
  size_t count = (size_t)stages->count;
  ac_chain_stage *stage = calloc(count, sizeof *stage);
  ac_chain_variant *measured = calloc(count * AC_STAGE_VARIANTS, sizeof *measured);
  *result = (ac_stage_chain){.variants = calloc(count, sizeof *result->variants),
                             .chain = {.stages = stages->count, .stage = stage}};
  ac_order order = {0};
  ac_status status = stage && measured && result->variants ? AC_OK : no_memory();
  if (status == AC_OK) status = ac_order_create(&order, stages);
  const measuring m = {stages, device, costs, batch, &order};
  result->chain.input = storage_bytes(&m, stages->input);
  if (status == AC_OK) stage[0].variant = measured; /* owns all of them */
  else free(measured);
  for (int s = 0; s < stages->count && status == AC_OK; s++)
    status = measure_stage(&m, s, &result->variants[s], &stage[s],
                           measured + (size_t)s * AC_STAGE_VARIANTS);
  ac_order_free(&order);
  if (status != AC_OK) ac_stage_chain_free(result);
  return status;
}

void ac_stage_chain_free(ac_stage_chain *chain) {
  for (int s = 0; chain->variants && s < chain->chain.stages; s++)
    free(chain->variants[s].droppable);
  free(chain->variants);
  if (chain->chain.stage) free((void *)chain->chain.stage[0].variant);
  free((void *)chain->chain.stage);
  memset(chain, 0, sizeof *chain);
}
