/* What an update does to each layer. Weights are read before and after the update: a small
 * parameter whole; of a large one 16 blocks, spread evenly from its first element to its last.
 * These give norms within a few percent. The norm of a gradient is measured anyway, over all of it.
 * If gradients are kept, they are also read, whole, to find outputs without a gradient.
 *
 * All memory is allocated with the trainer. From the measured updates a count, a sum and a bit for
 * each output are kept; they are part of states. */
#include "train/layers.h"

#include "core/error.h"
#include "optimizer/nodes.h"
#include "train/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 16, BLOCK = 4096, PIECE = BLOCKS * BLOCK };

/* ---- what is looked at ----------------------------------------------------------------------- */

/* The outputs of a layer's matrix. Rows of a table are met one by one, so one without a gradient
 * says nothing. */
static void find_units(ac_layer *layer, const ac_tensor *parameter) {
  if (parameter->matrix == AC_NO_MATRIX || parameter->is_table || parameter->shape.rank < 2) return;
  layer->by_column = ac_optimizer_by_column(parameter);
  if (layer->by_column || parameter->matrix == AC_MATRIX_OUT_IN)
    layer->units = parameter->shape.dim[layer->by_column ? 1 : 0];
}

static void describe(ac_trainer *trainer, int index, int64_t *floats) {
  const ac_plan *plan = trainer->instance.plan;
  const ac_tensor *parameter = ac_tensor_at(plan->graph, plan->graph->parameters[index]);
  ac_layers *layers = &trainer->layers;
  ac_layer *layer = &layers->of[index];
  *layer = (ac_layer){.elements = ac_shape_count(&parameter->shape),
                      .begin = *floats,
                      .first_unit = layers->outputs};
  if (!ac_trainer_trains(trainer, index)) return;
  layer->looked_at = layer->elements < PIECE ? layer->elements : PIECE;
  if (plan->way->keeps) find_units(layer, parameter);
  *floats += layer->looked_at;
  layers->outputs += layer->units;
}

ac_status ac_layers_begin(ac_trainer *trainer) {
  ac_layers *layers = &trainer->layers;
  int64_t floats = 0;
  if (trainer->desc.layers_every < 0)
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: layers_every must not be negative; it is %lld",
                   (long long)trainer->desc.layers_every);
  layers->every = trainer->desc.layers_every;
  if (!layers->every) return AC_OK;
  layers->count = trainer->instance.plan->graph->parameter_count;
  layers->of = calloc((size_t)layers->count + 1, sizeof *layers->of);
  layers->sizes = malloc(((size_t)layers->count + 1) * sizeof *layers->sizes);
  for (int i = 0; layers->of && i < layers->count; i++) describe(trainer, i, &floats);
  layers->before = malloc(((size_t)floats + 1) * sizeof *layers->before);
  layers->piece = malloc(PIECE * sizeof *layers->piece);
  layers->alive = calloc((size_t)layers->outputs + 1, 1);
  if (layers->of && layers->sizes && layers->before && layers->piece && layers->alive) return AC_OK;
  return ac_fail(AC_ERROR_MEMORY, "no memory to measure layers");
}

void ac_layers_release(ac_layers *layers) {
  free(layers->of);
  free(layers->sizes);
  free(layers->before);
  free(layers->piece);
  free(layers->alive);
}

bool ac_layers_are_due(const ac_trainer *trainer) {
  return trainer->layers.every && trainer->updates % trainer->layers.every == 0;
}

/* ---- an update ------------------------------------------------------------------------------- */

static ac_status read_weights(ac_trainer *trainer, int index, float *data) {
  const ac_layer *layer = &trainer->layers.of[index];
  if (layer->looked_at == layer->elements)
    return ac_instance_read_parameter(&trainer->instance, index, 0, layer->elements, data);
  for (int64_t b = 0; b < BLOCKS; b++)
    AC_TRY(ac_instance_read_parameter(&trainer->instance, index,
                                      b * ((layer->elements - BLOCK) / (BLOCKS - 1)), BLOCK,
                                      data + b * BLOCK));
  return AC_OK;
}

/* Marks the outputs that have an element that is not zero among [first, first + count) of a
 * gradient. */
static void mark_alive(ac_layers *layers, const ac_layer *layer, int64_t first, int64_t count) {
  unsigned char *alive = layers->alive + layer->first_unit;
  const int64_t inner = layer->elements / layer->units;
  for (int64_t i = 0; i < count; i++)
    if (layers->piece[i] != 0)
      alive[layer->by_column ? (first + i) % layer->units : (first + i) / inner] |= 2;
}

static ac_status look_at_gradient(ac_trainer *trainer, int index) {
  ac_layers *layers = &trainer->layers;
  const ac_layer *layer = &layers->of[index];
  for (int64_t first = 0; first < layer->elements; first += PIECE) {
    const int64_t count = layer->elements - first < PIECE ? layer->elements - first : PIECE;
    AC_TRY(ac_trainer_get_gradient(trainer, index, first, count, layers->piece));
    mark_alive(layers, layer, first, count);
  }
  return AC_OK;
}

ac_status ac_layers_before(ac_trainer *trainer) {
  const ac_layers *layers = &trainer->layers;
  for (int64_t k = 0; k < layers->outputs; k++) layers->alive[k] &= 1;
  for (int i = 0; i < layers->count; i++) {
    if (!layers->of[i].looked_at) continue;
    AC_TRY(read_weights(trainer, i, layers->before + layers->of[i].begin));
    if (layers->of[i].units) AC_TRY(look_at_gradient(trainer, i));
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

ac_status ac_layers_after(ac_trainer *trainer) {
  ac_layers *layers = &trainer->layers;
  for (int i = 0; i < layers->count; i++) {
    ac_layer *layer = &layers->of[i];
    if (!layer->looked_at) continue;
    AC_TRY(read_weights(trainer, i, layers->piece));
    compare(layer, layers->before + layer->begin, layers->piece);
    layer->gradient_norm = ac_trainer_gradient_norm(trainer, i);
    remember(layer, layer->gradient_norm);
  }
  for (int64_t k = 0; k < layers->outputs; k++) layers->alive[k] = layers->alive[k] != 0;
  layers->measured++;
  layers->update = trainer->updates + 1;
  return AC_OK;
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

ac_status ac_trainer_layer(const ac_trainer *trainer, int index, ac_layer_report *result) {
  AC_REQUIRE(trainer, result);
  const ac_layers *layers = &trainer->layers;
  if (!layers->every)
    return ac_fail(AC_ERROR_STATE,
                   "trainer: layers are not measured (ac_trainer_desc.layers_every)");
  AC_TRY(ac_instance_check_range(&trainer->instance, index, 0, 0));
  const ac_layer *layer = &layers->of[index];
  const bool known = layers->update > 0 && layer->looked_at;
  int64_t dead = 0;
  for (int64_t i = 0; i < layer->units && layers->measured; i++)
    dead += !(layers->alive[layer->first_unit + i] & 1);
  *result = (ac_layer_report){.update = known ? layers->update : 0,
                              .gradient_norm = known ? layer->gradient_norm : (double)NAN,
                              .weight_norm = known ? layer->weight_norm : (double)NAN,
                              .update_ratio = known ? layer->update_ratio : (double)NAN,
                              .measured = layer->looked_at ? layers->measured : 0,
                              .zero = layer->zero,
                              .gradient_size = pow(10, size_of(layers, layer)),
                              .units = layer->units,
                              .dead_units = dead,
                              .hint = hint_of(layers, layer, dead)};
  return AC_OK;
}

/* ---- states ---------------------------------------------------------------------------------- */

/* The text is "MEASURED PARAMETERS", then " ZERO LOGS UNITS" for each trained parameter. UNITS has
 * a 0 or a 1 for each output, or is "-" if there are none. */
char *ac_layers_put(const ac_layers *layers) {
  const size_t room = 64 + 64 * (size_t)layers->count + (size_t)layers->outputs;
  char *text = malloc(room);
  if (!text) return NULL;
  size_t used = (size_t)snprintf(text, room, "%" PRId64 " %d", layers->measured, layers->count);
  for (int i = 0; i < layers->count; i++) {
    const ac_layer *layer = &layers->of[i];
    if (!layer->looked_at) continue;
    used +=
        (size_t)snprintf(text + used, room - used, " %" PRId64 " %.17g ", layer->zero, layer->logs);
    for (int64_t k = 0; k < layer->units; k++)
      text[used++] = layers->alive[layer->first_unit + k] & 1 ? '1' : '0';
    if (!layer->units) text[used++] = '-';
  }
  text[used] = 0;
  return text;
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

bool ac_layers_fit(const ac_layers *layers, const char *text, bool *same) {
  char *end;
  const int64_t measured = strtoll(text, &end, 10), count = strtoll(end, &end, 10);
  const char *at = end;
  *same = true;
  if (measured < 0 || measured > INT64_MAX / 2 || count != layers->count) return false;
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

void ac_layers_take(ac_layers *layers, const char *text) {
  char *end = NULL;
  layers->update = 0;
  layers->measured = text ? strtoll(text, &end, 10) : 0;
  if (text) strtoll(end, &end, 10);
  const char *at = end;
  memset(layers->alive, 0, (size_t)layers->outputs);
  for (int i = 0; i < layers->count; i++) {
    ac_layer *layer = &layers->of[i];
    layer->zero = 0;
    layer->logs = 0;
    if (!text || !layer->looked_at) continue;
    at++;
    read_layer(&at, layers->measured, &layer->zero, &layer->logs);
    for (int64_t k = 0; k < layer->units; k++) layers->alive[layer->first_unit + k] = at[k] == '1';
    at += layer->units ? layer->units : 1;
  }
}
