/* Stages as chains: what each variant of a stage takes in bytes and seconds at each micro-batch,
 * found by laying down each stage alone. An order and its values do not depend on the micro-batch,
 * so each set of activations to drop is laid down once, and measured at all micro-batches. */
#include "plan/stages.h"

#include "core/align.h"
#include "core/error.h"
#include "core/integers.h"

#include <stdlib.h>
#include <string.h>

static ac_status no_memory(void) {
  return ac_fail(AC_ERROR_MEMORY, "no memory to measure the stages of a graph");
}

/* What measurements of all chains need. */
typedef struct measuring {
  const ac_stages *stages;
  ac_works *works;
  uint64_t alignment;
  const ac_stage_chain_request *requests;
  int count;
  ac_order order;        /* scratch */
  ac_sequence_room room; /* scratch */
} measuring;

/* A piece of a stage's work laid down alone: [0, split) forward, [split, count) backward. What it
 * reads from outside is alive from its first step on. */
typedef struct piece {
  ac_sequence sequence;
  int split;
  double forward, recomputed, backward; /* seconds */
} piece;

/* With sections there are others between the two parts. */
static void keep_whole(piece *p) {
  for (int i = 0; i < p->sequence.value_count; i++) {
    ac_value *value = &p->sequence.values[i];
    if (value->varies && (value->outside || (value->first < p->split && value->last >= p->split)))
      value->whole = true;
  }
}

/* It depends on what the variant drops, not on the micro-batch. */
static ac_status lay_piece(measuring *m, int s, const ac_stage_variants *variants, int variant,
                           piece *result) {
  *result = (piece){.split = 0};
  const int64_t window = m->requests[0].window;
  AC_TRY(ac_order_lay_stage(&m->order, m->stages, s, variants, variant, &result->split));
  if (window)
    AC_TRY(ac_order_repeat(&m->order, &m->room, m->stages->graph, window, &result->split));
  AC_TRY(ac_sequence_build_in(&m->room, &result->sequence, m->stages->graph, AC_TARGET_GRADIENTS,
                              (ac_storage){.window = window}, &m->order.nodes, NULL));
  if (window) keep_whole(result);
  return AC_OK;
}

/* Sets a piece's bytes and seconds for a request. */
static ac_status size_piece(const measuring *m, const ac_stage_chain_request *r, piece *p) {
  const ac_graph *graph = m->stages->graph;
  AC_TRY(ac_sequence_size(&p->sequence, graph, m->works, m->alignment, r->batch, 0));
  p->forward = p->recomputed = p->backward = 0;
  for (int i = 0; i < p->sequence.step_count; i++) {
    const ac_step *step = &p->sequence.steps[i];
    const ac_node *node = ac_node_at(graph, step->node);
    const double seconds =
        ac_cost_of_work(r->costs, node->op, ac_works_cost(m->works, step, r->batch));
    if (i < p->split) p->forward += seconds;
    else if (node->backward) p->backward += seconds;
    else p->recomputed += seconds;
  }
  return AC_OK;
}

/* What crosses stages is kept for a whole window if there are sections. */
static uint64_t storage_bytes(const measuring *m, int64_t batch, int storage) {
  const int64_t window = m->requests[0].window;
  if (storage < 0) return 0;
  ac_operand x = ac_operand_of(ac_tensor_at(m->stages->graph, storage), batch);
  return ac_align((uint64_t)ac_operand_bytes(&x), m->alignment) *
         (uint64_t)(window ? ac_ceil_div(window, batch) : 1);
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

static ac_status measure(const measuring *m, int64_t batch, int s, const piece *p,
                         ac_chain_variant *result) {
  const ac_stages *stages = m->stages;
  const ac_sequence *sequence = &p->sequence;
  const ac_stage *stage = &stages->stage[s];
  uint64_t input = storage_bytes(m, batch, s ? stages->stage[s - 1].boundary : stages->input);
  uint64_t output = storage_bytes(m, batch, stage->boundary);
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
static ac_status choose_variants(const measuring *m, const ac_stage_chain_request *r,
                                 const ac_stage *stage, ac_stage_variants *result) {
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
    ac_operand x = ac_operand_of(ac_tensor_at(graph, storage), r->batch);
    double bytes = (double)x.count * (double)ac_dtype_bytes(x.dtype);
    const int producer = m->stages->producer[storage];
    double seconds = ac_cost_of_work(r->costs, ac_node_at(graph, producer)->op,
                                     ac_works_node_cost(m->works, producer, r->batch));
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

/* Whether two variants of a stage drop the same. */
static bool drop_alike(const ac_stage *stage, const ac_stage_variants *a,
                       const ac_stage_variants *b, int variant) {
  if (variant < 0) return true;
  if (variant >= a->count || variant >= b->count || a->drops[variant] != b->drops[variant])
    return false;
  const int drops = a->drops[variant];
  return drops == stage->droppable_count ||
         !memcmp(a->droppable, b->droppable, (size_t)drops * sizeof *a->droppable);
}

/* Puts what a piece takes into the request's chain. */
static ac_status put_piece(const measuring *m, const ac_stage_chain_request *r, int s, int variant,
                           piece *p) {
  ac_chain_stage *stage = (ac_chain_stage *)&r->result->chain.stage[s];
  ac_chain_variant plain,
      *into = variant < 0 ? &plain : (ac_chain_variant *)&stage->variant[variant];
  AC_TRY(size_piece(m, r, p));
  AC_TRY(measure(m, r->batch, s, p, into));
  if (variant >= 0) return AC_OK;
  stage->forward = p->forward;
  stage->output = storage_bytes(m, r->batch, m->stages->stage[s].boundary);
  stage->forward_peak = plain.forward_peak;
  return AC_OK;
}

/* Lays down a variant once for all requests that drop the same with it. */
static ac_status measure_variant(measuring *m, int s, int variant, bool *done) {
  for (int r = 0; r < m->count; r++) done[r] = variant >= m->requests[r].result->variants[s].count;
  for (int r = 0; r < m->count; r++) {
    const ac_stage_variants *variants = &m->requests[r].result->variants[s];
    if (done[r]) continue;
    piece p;
    ac_status status = lay_piece(m, s, variants, variant, &p);
    for (int q = r; q < m->count && status == AC_OK; q++) {
      const ac_stage_variants *others = &m->requests[q].result->variants[s];
      if (done[q] || !drop_alike(&m->stages->stage[s], variants, others, variant)) continue;
      status = put_piece(m, &m->requests[q], s, variant, &p);
      done[q] = true;
    }
    ac_sequence_free(&p.sequence);
    AC_TRY(status);
  }
  return AC_OK;
}

static ac_status measure_stage(measuring *m, int s, bool *done) {
  for (int r = 0; r < m->count; r++) {
    ac_stage_chain *chain = m->requests[r].result;
    ac_chain_stage *stage = (ac_chain_stage *)&chain->chain.stage[s];
    AC_TRY(choose_variants(m, &m->requests[r], &m->stages->stage[s], &chain->variants[s]));
    stage->variants = chain->variants[s].count;
    stage->variant = chain->chain.stage[0].variant + (size_t)s * AC_STAGE_VARIANTS;
  }
  for (int k = -1; k < AC_STAGE_VARIANTS; k++) AC_TRY(measure_variant(m, s, k, done));
  return AC_OK;
}

static ac_status begin_chain(const measuring *m, const ac_stage_chain_request *r) {
  const size_t count = (size_t)m->stages->count;
  ac_chain_stage *stage = calloc(count, sizeof *stage);
  *r->result = (ac_stage_chain){.variants = calloc(count, sizeof *r->result->variants),
                                .chain = {.stages = m->stages->count, .stage = stage}};
  r->result->chain.input = storage_bytes(m, r->batch, m->stages->input);
  /* The first stage owns the variants of all. */
  if (stage) stage[0].variant = calloc(count * AC_STAGE_VARIANTS, sizeof *stage[0].variant);
  return stage && stage[0].variant && r->result->variants ? AC_OK : no_memory();
}

ac_status ac_stage_chains_create(const ac_stage_chain_request *requests, int count,
                                 const ac_stages *stages, ac_works *works, uint64_t alignment) {
  measuring m = {.stages = stages,
                 .works = works,
                 .alignment = alignment,
                 .requests = requests,
                 .count = count};
  bool *done = calloc((size_t)count + 1, sizeof *done);
  ac_status status = done ? AC_OK : no_memory();
  for (int r = 0; r < count; r++) *requests[r].result = (ac_stage_chain){0};
  for (int r = 0; r < count && status == AC_OK; r++) status = begin_chain(&m, &requests[r]);
  if (status == AC_OK) status = ac_order_create(&m.order, stages);
  if (status == AC_OK) status = ac_sequence_room_create(&m.room, stages->graph);
  for (int s = 0; s < stages->count && status == AC_OK; s++) status = measure_stage(&m, s, done);
  ac_order_free(&m.order);
  ac_sequence_room_free(&m.room);
  free(done);
  for (int r = 0; r < count && status != AC_OK; r++) ac_stage_chain_free(requests[r].result);
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
