#include "train/noise_layers.h"

#include "core/error.h"
#include "train/trainer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBERS = 6, NUMBER_TEXT = 26, BEGIN_TEXT = 32 };

ac_status ac_noise_layers_begin(ac_trainer *trainer) {
  ac_noise_layers *layers = &trainer->noise.layers;
  const size_t parameters = (size_t)trainer->instance.plan->graph->parameter_count + 1;
  if (!trainer->desc.noise_layers) return AC_OK;
  if (!trainer->desc.noise_every)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "trainer: the noise of each parameter's gradient (noise_layers) is measured "
                   "with that of all: also give noise_every");
  layers->of = calloc(parameters, sizeof *layers->of);
  return layers->of ? AC_OK : ac_fail(AC_ERROR_MEMORY, "no memory for the noise of parameters");
}

void ac_noise_layers_release(ac_noise_layers *layers) {
  free(layers->of);
}

/* ---- a window -------------------------------------------------------------------------------- */

/* The squared norm of the sum of a parameter's gradients, from the host's copy. */
static double squares_of(const ac_trainer *trainer, int parameter) {
  const ac_cell *cell = ac_plan_cell(trainer->instance.plan, AC_ROLE_STATISTICS, parameter, 0);
  return ac_trainer_measure(trainer, cell).squares;
}

void ac_noise_layers_measure(ac_trainer *trainer, double weight) {
  ac_noise_layers *layers = &trainer->noise.layers;
  layers->begun = layers->of;
  for (int i = 0; layers->of && i < trainer->instance.plan->graph->parameter_count; i++)
    if (ac_trainer_trains(trainer, i))
      layers->of[i].first_squares = squares_of(trainer, i) / (weight * weight);
  bool finite = true;
  for (int i = 0; layers->of && i < trainer->instance.plan->graph->parameter_count; i++)
    finite &= isfinite(layers->of[i].first_squares) != 0;
  if (!finite) ac_noise_layers_leave(trainer);
}

void ac_noise_layers_leave(ac_trainer *trainer) {
  ac_noise_layers *layers = &trainer->noise.layers;
  layers->begun = false;
  for (int i = 0; layers->of && i < trainer->instance.plan->graph->parameter_count; i++)
    layers->of[i].first_squares = 0;
}

void ac_noise_layers_take(ac_trainer *trainer, double b, double B) {
  ac_noise_layers *layers = &trainer->noise.layers;
  const double weight = trainer->reduced_weight;
  if (!layers->begun) return;
  layers->begun = false;
  layers->count++;
  for (int i = 0; i < trainer->instance.plan->graph->parameter_count; i++)
    if (ac_trainer_trains(trainer, i))
      ac_noise_add(&layers->of[i].averages, layers->of[i].first_squares,
                   squares_of(trainer, i) / (weight * weight), b, B);
}

ac_status ac_trainer_noise_scale_of(const ac_trainer *trainer, int index, ac_noise_scale *result) {
  AC_REQUIRE(trainer, result);
  const ac_noise_layers *layers = &trainer->noise.layers;
  const int count = trainer->instance.plan->graph->parameter_count;
  if (index < 0 || index >= count)
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: parameter %d of %d", index, count);
  static const ac_noise_averages none;
  const bool known = layers->of && ac_trainer_trains(trainer, index);
  *result =
      ac_noise_scale_of(known ? &layers->of[index].averages : &none, known ? layers->count : 0);
  return AC_OK;
}

/* ---- as text --------------------------------------------------------------------------------- */

/* The numbers of a layer, in the order of the text. */
static void list_numbers(ac_noise_layer *layer, double *numbers[NUMBERS]) {
  ac_noise_averages *a = &layer->averages;
  double *const all[NUMBERS] = {&layer->first_squares, &a->g, &a->s, &a->gg, &a->gs, &a->ss};
  memcpy(numbers, all, sizeof all);
}

char *ac_noise_layers_text(const ac_noise_layers *layers, int parameters, bool window) {
  const size_t size = BEGIN_TEXT + (size_t)parameters * NUMBERS * NUMBER_TEXT;
  char *text = malloc(size);
  if (!text) return NULL;
  size_t used = (size_t)snprintf(text, size, "%" PRId64 " %d", layers->count,
                                 window && layers->begun ? 1 : 0);
  for (int i = 0; i < parameters; i++) {
    double *numbers[NUMBERS];
    list_numbers(&layers->of[i], numbers);
    for (int k = 0; k < NUMBERS; k++)
      used += (size_t)snprintf(text + used, size - used, " %.17g", *numbers[k]);
  }
  return text;
}

/* Squares are not below 0. */
static bool take_layer(ac_noise_layer *layer, char **text) {
  double *numbers[NUMBERS];
  list_numbers(layer, numbers);
  for (int k = 0; k < NUMBERS; k++) {
    if (**text != ' ' || (*text)[1] == ' ') return false;
    *numbers[k] = strtod(*text, text);
    if (!isfinite(*numbers[k])) return false;
  }
  return layer->first_squares >= 0 && layer->averages.gg >= 0 && layer->averages.ss >= 0;
}

/* First all of it is checked, with a layer that nobody keeps. */
bool ac_noise_layers_get(ac_noise_layers *layers, int parameters, const char *text) {
  for (int pass = 0; pass < (layers->of ? 2 : 1); pass++) {
    char *at = (char *)text;
    if (text[strspn(text, "0123456789+-.e ")]) return false;
    const long long count = strtoll(at, &at, 10);
    if (count < 0 || count > INT64_MAX / 2 || (strncmp(at, " 0", 2) && strncmp(at, " 1", 2)))
      return false;
    const bool begun = at[1] == '1';
    at += 2;
    for (int i = 0; i < parameters; i++) {
      ac_noise_layer unused;
      if (!take_layer(pass ? &layers->of[i] : &unused, &at)) return false;
    }
    if (*at) return false;
    if (pass) layers->count = count, layers->begun = begun;
  }
  return true;
}
