/* Recipes, the graphs that they build, and values for the leaves.
 *
 * A graph begins with two inputs. Each step takes a result that its op can be applied to, possibly
 * seen in another shape, and adds one. In the end everything that nothing has used is brought to a
 * common shape and summed, and the loss is taken of that. */
#include "random.h"

#include "core/blocks.h"

#include "core/half.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NAME(folder, name) #name,
static const char *const family_names[] = {AC_OP_FAMILY_LIST(NAME)};
#undef NAME
#define GENERATOR(folder, name) &op_generator_##name,
static const op_generator *const generators[] = {AC_OP_FAMILY_LIST(GENERATOR)};
#undef GENERATOR
#define FAMILY(folder, name) &op_family_##name,
static const op_family *const families[] = {AC_OP_FAMILY_LIST(FAMILY)};
#undef FAMILY
enum { FAMILY_COUNT = sizeof families / sizeof *families };

const char *random_family_name(int family) {
  return family_names[family];
}

int random_family_count(void) {
  return FAMILY_COUNT;
}

const op_generator *random_generator_of(ac_op op) {
  for (int f = 0; f < FAMILY_COUNT; f++)
    for (int k = 0; k < families[f]->case_count; k++)
      if (families[f]->cases[k].op == op) return generators[f];
  return NULL;
}

/* ---- recipes --------------------------------------------------------------------------------- */

static int family_below(op_draw *d, bool loss, const bool *wanted) {
  int candidates[FAMILY_COUNT], count = 0;
  for (int f = 0; f < FAMILY_COUNT; f++)
    if (generators[f]->takes && generators[f]->loss == loss && (!wanted || wanted[f]))
      candidates[count++] = f;
  return count ? candidates[op_draw_below(d, count)] : -1;
}

static random_recipe draw_once(uint64_t key, const bool *wanted) {
  op_draw d = {.state = key};
  random_recipe r = {.key = op_draw_hash(key, 1)};
  r.batch = 1 + op_draw_below(&d, op_draw_one_in(&d, 8) ? 19 : 7);
  r.step_count = 2 + op_draw_below(&d, 9);
  int place = op_draw_below(&d, r.step_count);
  for (int i = 0; i < r.step_count; i++) {
    int family = wanted && i == place ? family_below(&d, false, wanted) : -1;
    if (family < 0) family = family_below(&d, false, NULL);
    r.steps[i] = (random_step){family, op_draw_hash(r.key, 100 + (uint64_t)i)};
  }
  int loss = wanted ? family_below(&d, true, wanted) : -1;
  r.loss = (random_step){loss >= 0 ? loss : family_below(&d, true, NULL), op_draw_hash(r.key, 99)};
  return r;
}

/* Whether a wanted family has a node in the graph, or can have none. */
static bool has_wanted(const random_recipe *recipe, const bool *wanted) {
  random_graph g;
  bool found = false, possible = false;
  for (int f = 0; f < FAMILY_COUNT; f++) possible |= wanted[f] && generators[f]->takes;
  if (!possible) return true;
  if (random_build(&g, recipe, false))
    for (int n = 0; n < g.graph->node_count; n++)
      for (int f = 0; f < FAMILY_COUNT; f++)
        found |= wanted[f] && generators[f] == random_generator_of(ac_node_at(g.graph, n)->op);
  random_free(&g);
  return found;
}

random_recipe random_draw(uint64_t seed, int64_t index, const bool *wanted) {
  uint64_t key = op_draw_hash(seed, (uint64_t)index);
  random_recipe r = draw_once(key, wanted);
  for (int attempt = 1; wanted && attempt < 50 && !has_wanted(&r, wanted); attempt++)
    r = draw_once(op_draw_hash(key, 500 + (uint64_t)attempt), wanted);
  return r;
}

/* ---- building -------------------------------------------------------------------------------- */

static void add_result(op_draw *d, ac_tensor *x, uint64_t origin) {
  if (!x || d->result_count == OP_DRAW_RESULTS) return;
  d->results[d->result_count++] = (op_drawn_result){x, origin, false};
}

/* One dimension becomes 1, another takes what it had. That of the batch gives and takes nothing. */
static void flatten(op_draw *d, ac_shape *shape) {
  int first = shape->batched ? 1 : 0, count = shape->rank - first;
  if (count < 2) return;
  int flat = first + op_draw_below(d, count), other = first + op_draw_below(d, count - 1);
  if (other >= flat) other++;
  shape->dim[other] *= shape->dim[flat];
  shape->dim[flat] = 1;
}

/* Another shape of as many elements: factors drawn one after another. */
static ac_shape another_shape(op_draw *d, const ac_shape *x) {
  ac_shape shape = {.rank = 1 + op_draw_below(d, 4), .batched = x->batched};
  int64_t rest = ac_shape_count(x);
  for (int i = 0; i < shape.rank; i++) {
    bool last = i == shape.rank - 1;
    shape.dim[i] = last                                            ? rest
                   : i == 0 && x->batched && !op_draw_one_in(d, 6) ? 1
                                                                   : op_draw_divisor(d, rest);
    rest /= shape.dim[i];
  }
  if (op_draw_one_in(d, 3)) flatten(d, &shape);
  return shape;
}

/* How the step sees a result; rank 0: it cannot. */
static ac_shape view_for(op_draw *d, const op_generator *generator, const ac_shape *x) {
  if (!op_draw_one_in(d, 4) && generator->takes(x)) return *x;
  for (int attempt = 0; attempt < 12; attempt++) {
    ac_shape shape = another_shape(d, x);
    if (generator->takes(&shape)) return shape;
  }
  return generator->takes(x) ? *x : (ac_shape){.rank = 0};
}

/* A result that nothing has used, if there is one that will do; half of the time. */
static op_drawn_result *operand_for(op_draw *d, const op_generator *generator, ac_shape *seen) {
  op_drawn_result *best = NULL;
  uint64_t highest = 0;
  bool fresh = op_draw_one_in(d, 2);
  for (int i = 0; i < d->result_count; i++) {
    op_drawn_result *r = &d->results[i];
    uint64_t hash = op_draw_hash(d->key + 2, r->origin) >> 1;
    if (fresh && !r->used) hash |= (uint64_t)1 << 63;
    if (best && hash < highest) continue;
    op_draw sub = {.state = op_draw_hash(d->key + 3, r->origin)};
    ac_shape shape = view_for(&sub, generator, &r->tensor->shape);
    if (!shape.rank) continue;
    best = r, highest = hash, *seen = shape;
  }
  return best;
}

static void begin_step(op_draw *d, const random_step *step) {
  d->key = d->state = step->key;
  d->names = 0;
}

static void give_hint(op_draw *d, ac_tensor *y) {
  const ac_tensor *storage = ac_tensor_at(d->graph, y->storage);
  int kind = op_draw_below(d, 3);
  if (kind && storage->role == AC_ROLE_ACTIVATION && storage->hint == AC_HINT_NONE)
    ac_tensor_hint(y, kind == 1 ? AC_KEEP : AC_RECOMPUTE);
}

static void take_step(op_draw *d, const random_step *step, bool hints) {
  const op_generator *generator = generators[step->family];
  ac_shape seen = {.rank = 0};
  begin_step(d, step);
  op_drawn_result *from = operand_for(d, generator, &seen);
  if (!from) return;
  from->used = true;
  ac_tensor *x = op_draw_view(from->tensor, &seen);
  if (!x) return; /* a step before has failed, which random_build says */
  ac_tensor *y = generator->build(d, x);
  if (!y || ac_shape_count(&y->shape) > 2 * OP_DRAW_ELEMENTS) return;
  if (hints) give_hint(d, y);
  add_result(d, y, step->key);
}

static void begin_graph(op_draw *d, uint64_t key) {
  static const ac_shape shapes[] = {
      {3, true, {1, 5, 6}},    {3, true, {1, 7, 3}},    {3, true, {1, 3, 12}},
      {4, true, {1, 3, 5, 4}}, {4, true, {1, 2, 7, 7}}, {4, true, {1, 4, 3, 3}},
      {2, true, {1, 15}},      {2, true, {3, 8}},       {2, true, {1, 1}},
      {4, true, {1, 6, 8, 8}}, {3, true, {1, 16, 21}},
  };
  begin_step(d, &(random_step){0, op_draw_hash(key, 2)});
  for (int i = 0; i < 2; i++) {
    ac_shape shape = shapes[op_draw_below(d, (int)(sizeof shapes / sizeof *shapes))];
    const bool flat = op_draw_one_in(d, 4); /* one row, one column, one channel, one sequence */
    for (int k = 1; flat && k < shape.rank; k++)
      if (op_draw_one_in(d, 2)) shape.dim[k] = 1;
    op_drawn_leaf *leaf = op_draw_numbers(d, &shape);
    add_result(d, leaf->tensor, op_draw_hash(key, 3 + (uint64_t)i));
    if (op_draw_one_in(d, 3)) break;
  }
  if (op_draw_one_in(d, 2)) { /* something without the batch */
    int64_t dim[] = {1 + op_draw_below(d, 5), 1 + op_draw_below(d, 7)};
    add_result(d, op_draw_unbatched(d, -1, 1, 2, dim), op_draw_hash(key, 5));
  }
}

/* What is not used, as rows of `width` without the batch's being touched. */
static ac_tensor *projected(op_draw *d, ac_tensor *x, const ac_shape *to, ac_tensor *sum) {
  int64_t n = ac_shape_count(&x->shape), m = ac_shape_count(to);
  if (!x->shape.batched) {
    if (!sum) return NULL;
    ac_shape wide = {2, true, {1, n}}, flat = {1, false, {n}}, one = {2, true, {1, m}};
    sum = op_draw_view(sum, &one);
    ac_tensor *y = ac_linear(sum, op_draw_weight(d, m, 2, (int64_t[]){n, m}), NULL, AC_OUT_IN);
    y = ac_add(op_draw_view(y, &wide), op_draw_view(x, &flat));
    y = ac_linear(y, op_draw_weight(d, n, 2, (int64_t[]){m, n}), NULL, AC_OUT_IN);
    return op_draw_view(y, to);
  }
  ac_shape rows = {2, true, {1, n}};
  if (n == m && op_draw_one_in(d, 2)) return op_draw_view(x, to);
  ac_tensor *weight = op_draw_weight(d, n, 2, (int64_t[]){m, n});
  ac_tensor *y = ac_linear(op_draw_view(x, &rows), weight, NULL, AC_OUT_IN);
  return op_draw_view(y, to);
}

/* How often the sum, as logits, has drawn targets among its largest, or as a class. */
static void add_metric(op_draw *d, ac_tensor *logits) {
  const int V = (int)ac_shape_last(&logits->shape);
  ac_shape rows = logits->shape;
  rows.rank--;
  op_drawn_leaf *targets = op_draw_input(d, AC_I32, &rows, 0, V);
  if (!targets) return;
  op_drawn_leaf *weights = op_draw_one_in(d, 2) ? op_draw_input(d, AC_F32, &rows, 0, 2) : NULL;
  ac_tensor *ids = targets->tensor;
  const ac_class_desc desc = {.weights = weights ? weights->tensor : NULL};
  const int class_id = op_draw_below(d, V), kind = op_draw_below(d, 4);
  ac_tensor *hits = kind == 0   ? ac_top_k_accuracy(logits, ids, 1 + class_id, &desc)
                    : kind == 1 ? ac_class_precision(logits, ids, class_id, &desc)
                    : kind == 2 ? ac_class_recall(logits, ids, class_id, &desc)
                                : ac_class_iou(logits, ids, class_id, &desc);
  ac_graph_add_metric(d->graph, "hits", hits, AC_METRIC_MEAN);
}

static void end_graph(op_draw *d, const random_recipe *recipe) {
  static const ac_shape shapes[] = {{2, true, {1, 5}},   {2, true, {1, 9}},    {3, true, {1, 4, 3}},
                                    {2, true, {3, 7}},   {3, true, {1, 3, 2}}, {2, true, {1, 33}},
                                    {3, true, {1, 4, 1}}};
  begin_step(d, &(random_step){0, op_draw_hash(recipe->key, 6)});
  const ac_shape *shape = &shapes[op_draw_below(d, (int)(sizeof shapes / sizeof *shapes))];
  ac_tensor *sum = NULL;
  for (int pass = 0; pass < 2; pass++)
    for (int i = 0; i < d->result_count; i++) {
      const op_drawn_result *r = &d->results[i];
      if (r->used || r->tensor->shape.batched == (pass == 1)) continue;
      d->key = d->state = op_draw_hash(op_draw_hash(recipe->key, 7), r->origin);
      ac_tensor *y = projected(d, r->tensor, shape, sum);
      if (y) sum = sum ? ac_add(sum, y) : y;
    }
  begin_step(d, &recipe->loss);
  d->loss = true;
  if (sum && ac_graph_status(d->graph) == AC_OK)
    ac_graph_set_loss(d->graph, generators[recipe->loss.family]->build(d, sum));
  if (sum && sum->role == AC_ROLE_ACTIVATION && ac_graph_status(d->graph) == AC_OK)
    ac_graph_set_output(d->graph, "sum", sum);
  d->key = d->state = op_draw_hash(recipe->key, 12);
  d->names = 0;
  if (sum && ac_graph_status(d->graph) == AC_OK && op_draw_one_in(d, 3)) add_metric(d, sum);
}

static bool index_leaves(random_graph *g) {
  g->leaf = malloc(((size_t)g->graph->tensor_count + 1) * sizeof *g->leaf);
  if (!g->leaf) return false;
  for (int i = 0; i < g->graph->tensor_count; i++) g->leaf[i] = -1;
  for (int i = 0; i < g->draw.leaf_count; i++) {
    const ac_tensor *tensor = g->draw.leaves[i].tensor;
    g->leaf[tensor->id] = i;
    if (tensor->fed >= 0) g->leaf[tensor->fed] = i;
  }
  for (int i = 0; i < g->graph->parameter_count; i++)
    g->parameter_leaf[i] = g->leaf[g->graph->parameters[i]];
  for (int i = 0; i < g->graph->node_count; i++)
    g->couples |=
        ac_op_couples_samples(ac_node_at(g->graph, i)->op, ac_node_at(g->graph, i)->attributes);
  return true;
}

bool random_build(random_graph *g, const random_recipe *recipe, bool hints) {
  *g = (random_graph){.recipe = *recipe};
  if (ac_graph_create(&g->graph) != AC_OK) return false;
  op_draw *d = &g->draw;
  d->graph = g->graph;
  begin_graph(d, recipe->key);
  for (int i = 0; i < recipe->step_count; i++) take_step(d, &recipe->steps[i], hints);
  end_graph(d, recipe);
  if (ac_graph_status(g->graph) != AC_OK) {
    fprintf(stderr, "a step built nothing: %s\n", ac_graph_message(g->graph));
    return false;
  }
  return g->graph->loss_count > 0 &&
         ac_tensor_at(g->graph, g->graph->losses[0].tensor)->requires_gradient && index_leaves(g);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* The values as they are fed, and what they are then: rounded. */
static void feed_as(random_values *v, ac_dtype dtype, int64_t all) {
  if (dtype == AC_F32 || dtype == AC_I32) return;
  v->fed = calloc((size_t)all, ac_dtype_bytes(dtype));
  for (int64_t e = 0; e < all; e++) {
    if (dtype == AC_I64) ((int64_t *)v->fed)[e] = v->integers[e];
    else if (dtype == AC_U8) v->reals[e] = ((uint8_t *)v->fed)[e] = (uint8_t)v->reals[e];
    else ac_float_write(dtype, v->fed, e, v->reals[e]);
    if (dtype == AC_F16 || dtype == AC_BF16) v->reals[e] = ac_float_read(dtype, v->fed, e);
  }
}

static void free_values(random_values *v) {
  free(v->reals), free(v->integers), free(v->fed);
  v->reals = NULL, v->integers = NULL, v->fed = NULL;
}

/* Values that stay as they are when they are rounded to blocks once more. */
static void through_blocks(ac_blocks blocks, float *values, int64_t count) {
  unsigned char *bytes = malloc((size_t)ac_blocks_bytes(blocks, count));
  ac_blocks_encode(blocks, values, count, bytes);
  ac_blocks_decode(blocks, bytes, count, values);
  free(bytes);
}

void random_fill(random_graph *g, int attempt) {
  for (int i = 0; i < g->draw.leaf_count; i++) {
    const op_drawn_leaf *leaf = &g->draw.leaves[i];
    const ac_tensor *tensor = leaf->tensor;
    random_values *v = &g->values[i];
    v->count = ac_shape_count(&tensor->shape);
    int64_t all = v->count * (tensor->shape.batched ? RANDOM_WINDOWS * g->recipe.batch : 1);
    op_draw d = {.state = op_draw_hash(op_draw_hash(g->recipe.key, op_seed(tensor->name)),
                                       (uint64_t)attempt)};
    free_values(v);
    if (tensor->dtype == AC_I32) v->integers = calloc((size_t)all, sizeof *v->integers);
    else v->reals = calloc((size_t)all, sizeof *v->reals);
    for (int64_t e = 0; e < all; e++) {
      double value = op_draw_between(&d, leaf->low, leaf->high);
      if (leaf->rare && op_draw_one_in(&d, leaf->rare)) value = leaf->special;
      if (v->integers) v->integers[e] = (int32_t)floor(value);
      else v->reals[e] = (float)value;
    }
    if (tensor->desc.blocks) through_blocks(tensor->desc.blocks, v->reals, all);
    if (tensor->role == AC_ROLE_CONSTANT)
      memcpy(v->reals, tensor->values->data, (size_t)all * sizeof *v->reals);
    feed_as(v, op_fed_dtype(tensor), all);
  }
}

void random_free(random_graph *g) {
  for (int i = 0; i < g->draw.leaf_count; i++) free_values(&g->values[i]);
  free(g->leaf);
  ac_graph_free(g->graph);
  memset(g, 0, sizeof *g);
}

/* ---- printing -------------------------------------------------------------------------------- */

static void print_tensor(FILE *to, const ac_graph *graph, int id) {
  char text[AC_SHAPE_TEXT];
  const ac_tensor *t = ac_tensor_at(graph, id);
  const ac_tensor *storage = ac_tensor_at(graph, t->storage);
  if (storage->name) fprintf(to, " %s%s", storage->name, storage->desc.frozen ? "(frozen)" : "");
  else fprintf(to, " %%%d", storage->id);
  fprintf(to, "%s", ac_shape_text(text, &t->shape));
}

/* Words of the attributes, as integers or floats, whichever looks sensible. */
static void print_attributes(FILE *to, const ac_node *node) {
  int32_t words[AC_MAX_ATTRIBUTE_BYTES / 4];
  float floats[AC_MAX_ATTRIBUTE_BYTES / 4];
  int last = -1;
  memcpy(words, node->attributes, sizeof words);
  memcpy(floats, node->attributes, sizeof floats);
  for (int i = 0; i < AC_MAX_ATTRIBUTE_BYTES / 4; i++) last = words[i] ? i : last;
  for (int i = 0; i <= last; i++)
    if (abs(words[i]) < 1 << 20) fprintf(to, "%s%d", i ? " " : " {", words[i]);
    else fprintf(to, "%s%g", i ? " " : " {", (double)floats[i]);
  if (last >= 0) fprintf(to, "}");
}

void random_print(FILE *to, const random_graph *g) {
  static const char *const hints[] = {"", " keep", " recompute"};
  fprintf(to, "batch %lld\n", (long long)g->recipe.batch);
  for (int n = 0; n < g->graph->node_count; n++) {
    const ac_node *node = ac_node_at(g->graph, n);
    fprintf(to, "  %-22s", ac_op_name(node->op));
    for (int i = 0; i < AC_MAX_INPUTS; i++)
      if (node->in[i] >= 0) print_tensor(to, g->graph, node->in[i]);
    print_attributes(to, node);
    fprintf(to, " ->");
    print_tensor(to, g->graph, node->out[0]);
    fprintf(to, "%s\n", hints[ac_tensor_at(g->graph, node->out[0])->hint]);
  }
}
