/* What an update does to each layer. Weights are read before and after the update: a small
 * parameter whole; of a large one 16 blocks, spread evenly from its first element to its last.
 * These give norms within a few percent. The norm of a gradient is measured anyway, over all of it.
 * If gradients are kept, they are also read, whole, to find outputs without a gradient.
 *
 * All memory is allocated with the trainer. From the measured updates a count, a sum and a bit for
 * each output are kept. */
#include "observe/layers.h"

#include "core/error.h"
#include "optimizer/nodes.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 16, BLOCK = 4096, PIECE = BLOCKS * BLOCK };

/* For each output, whether it has had a gradient that was not zero: 1 in an earlier update, 2 in
 * the current one. */
static unsigned char *alive_of(const ac_layers *layers) {
  return (unsigned char *)(layers->of + layers->count);
}

/* ---- what is looked at ----------------------------------------------------------------------- */

/* The outputs of a layer's matrix. Rows of a table are met one by one, so one without a gradient
 * says nothing. */
static void find_units(ac_layer *layer, const ac_tensor *parameter) {
  if (parameter->matrix == AC_NO_MATRIX || parameter->is_table || parameter->shape.rank < 2) return;
  layer->by_column = ac_optimizer_by_column(parameter);
  if (layer->by_column || parameter->matrix == AC_MATRIX_OUT_IN)
    layer->units = parameter->shape.dim[layer->by_column ? 1 : 0];
}

/* What is looked at of a parameter, all of it but where that is. */
static ac_layer describe(const ac_plan *plan, int index) {
  const ac_tensor *parameter = ac_tensor_at(plan->graph, plan->graph->parameters[index]);
  ac_layer layer = {.elements = ac_shape_count(&parameter->shape)};
  if (plan->problem.parameters[index].gradient < 0) return layer;
  layer.looked_at = layer.elements < PIECE ? layer.elements : PIECE;
  if (plan->way->keeps) find_units(&layer, parameter);
  return layer;
}

static size_t tables(const ac_watch_setup *setup) {
  const int count = setup->plan->graph->parameter_count;
  size_t bytes = 0;
  for (int i = 0; setup->desc->layers_every > 0 && i < count; i++)
    bytes += sizeof(ac_layer) + (size_t)describe(setup->plan, i).units;
  return bytes;
}

static ac_status begin(void *record, const ac_watch_setup *setup) {
  ac_layers *layers = record;
  int64_t floats = 0;
  if (setup->desc->layers_every < 0)
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: layers_every must not be negative; it is %lld",
                   (long long)setup->desc->layers_every);
  layers->every = setup->desc->layers_every;
  if (!layers->every) return AC_OK;
  layers->count = setup->plan->graph->parameter_count;
  layers->sizes = malloc(((size_t)layers->count + 1) * sizeof *layers->sizes);
  for (int i = 0; i < layers->count; i++) {
    layers->of[i] = describe(setup->plan, i);
    layers->of[i].begin = floats;
    layers->of[i].first_unit = layers->outputs;
    floats += layers->of[i].looked_at;
    layers->outputs += layers->of[i].units;
  }
  layers->before = malloc(((size_t)floats + 1) * sizeof *layers->before);
  layers->piece = malloc(PIECE * sizeof *layers->piece);
  if (layers->sizes && layers->before && layers->piece) return AC_OK;
  return ac_fail(AC_ERROR_MEMORY, "no memory to measure layers");
}

static void release(void *record) {
  const ac_layers *layers = record;
  free(layers->sizes);
  free(layers->before);
  free(layers->piece);
}

static bool is_due(const void *record, const ac_window_view *view) {
  const ac_layers *layers = record;
  return layers->every && view->run->updates % layers->every == 0;
}

/* ---- an update ------------------------------------------------------------------------------- */

static ac_status read_weights(const ac_window_view *view, int index, const ac_layer *layer,
                              float *data) {
  if (layer->looked_at == layer->elements)
    return ac_view_weights(view, index, 0, layer->elements, data);
  for (int64_t b = 0; b < BLOCKS; b++)
    AC_TRY(ac_view_weights(view, index, b * ((layer->elements - BLOCK) / (BLOCKS - 1)), BLOCK,
                           data + b * BLOCK));
  return AC_OK;
}

/* Marks the outputs that have an element that is not zero among [first, first + count) of a
 * gradient. */
static void mark_alive(ac_layers *layers, const ac_layer *layer, int64_t first, int64_t count) {
  unsigned char *alive = alive_of(layers) + layer->first_unit;
  const int64_t inner = layer->elements / layer->units;
  for (int64_t i = 0; i < count; i++)
    if (layers->piece[i] != 0)
      alive[layer->by_column ? (first + i) % layer->units : (first + i) / inner] |= 2;
}

static ac_status look_at_gradient(ac_layers *layers, const ac_window_view *view, int index) {
  const ac_layer *layer = &layers->of[index];
  for (int64_t first = 0; first < layer->elements; first += PIECE) {
    const int64_t count = layer->elements - first < PIECE ? layer->elements - first : PIECE;
    AC_TRY(ac_view_gradient(view, index, first, count, layers->piece));
    mark_alive(layers, layer, first, count);
  }
  return AC_OK;
}

static ac_status look_before(void *record, const ac_window_view *view) {
  ac_layers *layers = record;
  unsigned char *alive = alive_of(layers);
  for (int64_t k = 0; k < layers->outputs; k++) alive[k] &= 1;
  for (int i = 0; i < layers->count; i++) {
    const ac_layer *layer = &layers->of[i];
    if (!layer->looked_at) continue;
    AC_TRY(read_weights(view, i, layer, layers->before + layer->begin));
    if (layer->units) AC_TRY(look_at_gradient(layers, view, i));
  }
  return AC_OK;
}

static void remember(ac_layer *layer, double gradient_norm) {
  if (gradient_norm == 0) layer->zero++;
  else if (isfinite(gradient_norm))
    layer->logs += log10(gradient_norm / sqrt((double)layer->elements));
}

static void compare(ac_layer *layer, const float *before, const float *after) {
  double weights = 0, changes = 0;
  for (int64_t i = 0; i < layer->looked_at; i++) {
    const double x = (double)before[i], change = (double)after[i] - x;
    weights += x * x;
    changes += change * change;
  }
  layer->weight_norm = sqrt(weights * (double)layer->elements / (double)layer->looked_at);
  layer->update_ratio = weights > 0 ? sqrt(changes / weights) : (double)NAN;
}

static ac_status look_after(void *record, const ac_window_view *view) {
  ac_layers *layers = record;
  unsigned char *alive = alive_of(layers);
  for (int i = 0; i < layers->count; i++) {
    ac_layer *layer = &layers->of[i];
    if (!layer->looked_at) continue;
    AC_TRY(read_weights(view, i, layer, layers->piece));
    compare(layer, layers->before + layer->begin, layers->piece);
    layer->gradient_norm = ac_view_norm(view, i);
    remember(layer, layer->gradient_norm);
  }
  for (int64_t k = 0; k < layers->outputs; k++) alive[k] = alive[k] != 0;
  layers->measured++;
  layers->update = view->run->updates + 1;
  layers->looked = true;
  return AC_OK;
}

static void after(void *record, const ac_window_view *view, ac_update *update) {
  ac_layers *layers = record;
  (void)view;
  update->layers = layers->looked;
  layers->looked = false;
}

/* ---- what it says ---------------------------------------------------------------------------- */

/* log10 of the gradient's usual size for an element; NaN: not known, or always zero. */
static double size_of(const ac_layers *layers, const ac_layer *layer) {
  const int64_t count = layers->measured - layer->zero;
  return layer->looked_at && count > 0 && layer->logs != 0 ? layer->logs / (double)count
                                                           : (double)NAN;
}

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median_size(const ac_layers *layers) {
  size_t count = 0;
  for (int i = 0; i < layers->count; i++) {
    const double size = size_of(layers, &layers->of[i]);
    if (!isnan(size)) layers->sizes[count++] = size;
  }
  qsort(layers->sizes, count, sizeof *layers->sizes, ascending);
  return count ? layers->sizes[count / 2] : (double)NAN;
}

static ac_layer_hint hint_of(const ac_layers *layers, const ac_layer *layer, int64_t dead_units) {
  enum { LEAST = 3 };
  const double orders = 4;
  if (!layer->looked_at || layers->measured < LEAST) return AC_LAYER_NO_HINT;
  if (layer->zero == layers->measured) return AC_LAYER_DEAD;
  if (dead_units) return AC_LAYER_DEAD_UNITS;
  const bool vanishes = size_of(layers, layer) < median_size(layers) - orders;
  return vanishes ? AC_LAYER_VANISHING : AC_LAYER_NO_HINT;
}

ac_layer_report ac_layers_report(const ac_layers *layers, int parameter) {
  const ac_layer *layer = &layers->of[parameter];
  const unsigned char *alive = alive_of(layers) + layer->first_unit;
  const bool known = layers->update > 0 && layer->looked_at;
  int64_t dead = 0;
  for (int64_t i = 0; i < layer->units && layers->measured; i++) dead += !(alive[i] & 1);
  return (ac_layer_report){.update = known ? layers->update : 0,
                           .gradient_norm = known ? layer->gradient_norm : (double)NAN,
                           .weight_norm = known ? layer->weight_norm : (double)NAN,
                           .update_ratio = known ? layer->update_ratio : (double)NAN,
                           .measured = layer->looked_at ? layers->measured : 0,
                           .zero = layer->zero,
                           .gradient_size = pow(10, size_of(layers, layer)),
                           .units = layer->units,
                           .dead_units = dead,
                           .hint = hint_of(layers, layer, dead)};
}

static void rest(void *record) {
  ((ac_layers *)record)->every = 0;
}

/* ---- states ---------------------------------------------------------------------------------- */

/* The text is "MEASURED PARAMETERS", then " ZERO LOGS UNITS" for each trained parameter. UNITS has
 * a 0 or a 1 for each output, or is "-" if there are none. */
static size_t text_room(const void *record) {
  const ac_layers *layers = record;
  return 64 + 64 * (size_t)layers->count + (size_t)layers->outputs;
}

static void put_text(const void *record, char *text) {
  const ac_layers *layers = record;
  text += sprintf(text, "%" PRId64 " %d", layers->measured, layers->count);
  for (int i = 0; i < layers->count; i++) {
    const ac_layer *layer = &layers->of[i];
    const unsigned char *alive = alive_of(layers) + layer->first_unit;
    if (!layer->looked_at) continue;
    text += sprintf(text, " %" PRId64 " %.17g ", layer->zero, layer->logs);
    for (int64_t k = 0; k < layer->units; k++) *text++ = alive[k] & 1 ? '1' : '0';
    if (!layer->units) *text++ = '-';
  }
  *text = 0;
}

/* How many letters the text has for a layer's outputs; 0: it makes no sense. A plan that keeps no
 * gradients writes "-" where a plan that keeps them writes outputs: then they are not the same.
 */
static int64_t count_letters(const ac_layer *layer, const char *text, bool *same) {
  const int64_t units = (int64_t)strspn(text, "01");
  const bool none = *text == '-';
  if (!none && (!units || (layer->units && units != layer->units))) return 0;
  if (none == (layer->units > 0)) *same = false;
  return none ? 1 : units;
}

/* Reads the numbers at *text and moves it past them. */
static bool read_layer(const char **text, int64_t measured, int64_t *zero, double *logs) {
  char *middle, *end;
  *zero = strtoll(*text, &middle, 10);
  *logs = strtod(middle, &end);
  if (end == middle || *end++ != ' ' || *zero < 0 || *zero > measured || !isfinite(*logs))
    return false;
  *text = end;
  return true;
}

/* Whether the text describes these layers; *same: and the same outputs. */
static bool fits(const ac_layers *layers, const char *text, bool *same) {
  char *end;
  const int64_t measured = strtoll(text, &end, 10), count = strtoll(end, &end, 10);
  const char *at = end;
  *same = true;
  if (measured < 0 || measured > AC_MOST_COUNT || count != layers->count) return false;
  for (int i = 0; i < layers->count; i++) {
    const ac_layer *layer = &layers->of[i];
    int64_t zero, letters;
    double logs;
    if (!layer->looked_at) continue;
    if (*at++ != ' ' || !read_layer(&at, measured, &zero, &logs)) return false;
    if (!(letters = count_letters(layer, at, same))) return false;
    at += letters;
  }
  return !*at;
}

static void anew(void *record) {
  ac_layers *layers = record;
  layers->update = layers->measured = 0;
  layers->looked = false;
  memset(alive_of(layers), 0, (size_t)layers->outputs);
  for (int i = 0; i < layers->count; i++) {
    layers->of[i].zero = 0;
    layers->of[i].logs = 0;
  }
}

/* If the plan keeps gradients and the other did not, the records begin anew. */
static bool get_text(void *record, const char *text) {
  ac_layers *layers = record;
  char *end;
  bool same;
  if (!layers->every) return true;
  if (!fits(layers, text, &same)) return false;
  if (!same) return true;
  layers->measured = strtoll(text, &end, 10);
  strtoll(end, &end, 10);
  const char *at = end;
  for (int i = 0; i < layers->count; i++) {
    ac_layer *layer = &layers->of[i];
    unsigned char *alive = alive_of(layers) + layer->first_unit;
    if (!layer->looked_at) continue;
    at++;
    read_layer(&at, layers->measured, &layer->zero, &layer->logs);
    for (int64_t k = 0; k < layer->units; k++) alive[k] = at[k] == '1';
    at += layer->units ? layer->units : 1;
  }
  return true;
}

static bool is_kept(const void *record) {
  return ((const ac_layers *)record)->every;
}

static const ac_state_text text_of = {text_room, put_text, get_text};
static const ac_state_field fields[] = {{.key = "accrue.state.layers", .text = &text_of}, {0}};

const ac_watcher ac_watcher_layers = {
    .record = {.fields = fields, .of_model = true, .is_kept = is_kept, .anew = anew},
    .bytes = sizeof(ac_layers),
    .tables = tables,
    .begin = begin,
    .release = release,
    .looks = is_due,
    .before_step = look_before,
    .after_step = look_after,
    .after = after,
    .rest = rest};
