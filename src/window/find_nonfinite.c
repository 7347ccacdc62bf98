/* Finds where a value that is not finite first appears: runs one micro-batch op by op and looks at
 * every result. It is slow and only used when a window has failed. What adds to parameter gradients
 * is left out, so that the window stays as it is. With sections a whole window runs, since each
 * section reads what all micro-batches have come to in an earlier one: sums other than gradients
 * are made anew, so there must be no window in progress.
 *
 * With sections ranks meet at each batch norm, as in training. A rank that has found something says
 * so at the next one, where all end. So what a later batch norm hands on to other ranks is not
 * taken for the first. */
#include "core/error.h"
#include "core/integers.h"
#include "window/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 16 };

static ac_status all_finite(ac_instance *instance, const ac_operand *x, float *buffer,
                            bool *finite) {
  *finite = true;
  if (x->dtype == AC_I32 || x->dtype == AC_I64 || x->dtype == AC_U8) return AC_OK;
  for (int64_t first = 0; first < x->count && *finite; first += PIECE) {
    int64_t count = x->count - first < PIECE ? x->count - first : PIECE;
    AC_TRY(ac_instance_read_floats(instance, x->data, x->dtype, first, count, buffer));
    for (int64_t i = 0; i < count; i++)
      if (!isfinite(buffer[i])) *finite = false;
  }
  return AC_OK;
}

static ac_status is_parameter_finite(ac_instance *instance, int index, float *buffer,
                                     bool *finite) {
  const ac_graph *graph = instance->plan->graph;
  const int64_t all = ac_shape_count(&ac_tensor_at(graph, graph->parameters[index])->shape);
  *finite = true;
  for (int64_t first = 0; first < all && *finite; first += PIECE) {
    const int64_t count = all - first < PIECE ? all - first : PIECE;
    AC_TRY(ac_instance_read_parameter(instance, index, first, count, buffer));
    for (int64_t i = 0; i < count; i++)
      if (!isfinite(buffer[i])) *finite = false;
  }
  return AC_OK;
}

static void say_too_large(const ac_graph *graph, const ac_tensor *copy, int parameter, char *text,
                          size_t size) {
  snprintf(text, size, "parameter %s, too large for %s",
           ac_tensor_at(graph, graph->parameters[parameter])->name, ac_dtype_name(copy->dtype));
}

/* With sections the samples of each micro-batch begin at a place of their own. */
static ac_status is_input_finite(ac_instance *instance, const ac_tensor *input, float *buffer,
                                 bool *finite) {
  const int64_t count = instance->run.batch,
                most = input->shape.batched ? instance->plan->info.micro_batch : count;
  *finite = true;
  for (int64_t first = 0, place = 0; first < count && *finite; first += most, place++) {
    ac_operand x = ac_operand_of(input, ac_smaller(count - first, most));
    void **places = instance->main.inputs ? instance->main.inputs[input->id] : NULL;
    x.data = places ? places[place] : instance->persistent[input->id];
    AC_TRY(all_finite(instance, &x, buffer, finite));
  }
  return AC_OK;
}

/* Parameters come before their copies in 16 bits, which the graph was given later; so a copy that
 * is not finite is one of a finite parameter. */
static ac_status check_leaves(ac_instance *instance, float *buffer, char *text, size_t size) {
  const ac_graph *graph = instance->plan->graph;
  for (int i = 0; i < graph->tensor_count; i++) {
    const ac_tensor *tensor = ac_tensor_at(graph, i);
    bool input = tensor->role == AC_ROLE_INPUT, working = tensor->role == AC_ROLE_WORKING;
    bool leaf = input || working || tensor->role == AC_ROLE_PARAMETER;
    if (!leaf || !instance->persistent[i]) continue;
    ac_operand x = ac_operand_of(tensor, instance->run.batch);
    x.data = instance->persistent[i];
    bool finite;
    if (tensor->blocks) AC_TRY(is_parameter_finite(instance, tensor->parameter, buffer, &finite));
    else if (input) AC_TRY(is_input_finite(instance, tensor, buffer, &finite));
    else AC_TRY(all_finite(instance, &x, buffer, &finite));
    if (finite) continue;
    if (tensor->blocks)
      snprintf(text, size, "parameter %s",
               ac_tensor_at(graph, graph->parameters[tensor->parameter])->name);
    else if (working) say_too_large(graph, tensor, tensor->parameter, text, size);
    else snprintf(text, size, "%s %s", input ? "input" : "parameter", tensor->name);
    return AC_OK;
  }
  return AC_OK;
}

/* What gathers over a window, and must stay as it is. */
static bool gathers(const ac_instance *instance, const ac_step *step, int j) {
  if (step->out[j].tensor < 0) return false;
  ac_role role = ac_tensor_at(instance->plan->graph, step->out[j].tensor)->role;
  return role == AC_ROLE_GRADIENT ||
         (role == AC_ROLE_POOLED && !instance->plan->problem.in_sections);
}

/* Or measures what gathers. */
static bool only_gathers(const ac_instance *instance, const ac_step *step) {
  if (ac_node_at(instance->plan->graph, step->node)->phase != AC_PHASE_MICRO_BATCH) return true;
  for (int j = 0; j < AC_MAX_OUTPUTS; j++)
    if (step->out[j].tensor >= 0 && !gathers(instance, step, j)) return false;
  return true;
}

/* Runs a step without those of its outputs that gather over the window: ops that yield several
 * can do without one. */
static ac_status run_step(ac_instance *instance, int index) {
  const ac_step *step = &instance->main.sequence->steps[index];
  ac_op_args *args = &instance->main.args[index], whole = *args;
  for (int j = 0; j < AC_MAX_OUTPUTS; j++)
    if (gathers(instance, step, j)) args->out[j] = (ac_operand){0};
  ac_status status = ac_instance_run_step(instance, &instance->main, index, !instance->main.place);
  *args = whole;
  return status;
}

/* The parameter that a cast reads, which then has no working copy; else NULL. */
static const ac_tensor *cast_parameter(const ac_graph *graph, const ac_node *node) {
  const ac_tensor *in = node->op == AC_OP_cast ? ac_tensor_at(graph, node->in[0]) : NULL;
  return in && in->role == AC_ROLE_PARAMETER ? in : NULL;
}

/* The input that a cast reads, as it is or as a view; else NULL. What is not finite then is the
 * cast's result alone, since inputs were looked at before. */
static const ac_tensor *cast_input(const ac_graph *graph, const ac_node *node) {
  if (node->op != AC_OP_cast) return NULL;
  const ac_tensor *in = ac_tensor_at(graph, ac_tensor_at(graph, node->in[0])->storage);
  return in->role == AC_ROLE_INPUT ? in : NULL;
}

static void say_step(const ac_graph *graph, const ac_node *node, char *text, size_t size) {
  const ac_tensor *parameter = cast_parameter(graph, node), *input = cast_input(graph, node);
  char name[160];
  if (input)
    snprintf(text, size, "input %s, too large for %s", input->name,
             ac_dtype_name(ac_tensor_at(graph, node->out[0])->dtype));
  else if (parameter)
    say_too_large(graph, ac_tensor_at(graph, node->out[0]), parameter->parameter, text, size);
  else snprintf(text, size, "op %s", ac_node_text(name, sizeof name, graph, node));
}

typedef struct answer {
  float *buffer;
  char *text;
  size_t size;
} answer;

/* Nothing is left to be done once there is an answer. */
static ac_status check_step(void *user, ac_instance *instance, ac_prepared *prepared, int index,
                            bool last) {
  const answer *a = user;
  const ac_step *step = &prepared->sequence->steps[index];
  (void)last;
  if (a->text[0] || only_gathers(instance, step)) return AC_OK;
  AC_TRY(run_step(instance, index));
  for (int j = 0; j < AC_MAX_OUTPUTS && !a->text[0]; j++) {
    if (gathers(instance, step, j)) continue;
    bool finite;
    AC_TRY(all_finite(instance, &prepared->args[index].out[j], a->buffer, &finite));
    if (finite) continue;
    const ac_graph *graph = instance->plan->graph;
    say_step(graph, ac_node_at(graph, step->node), a->text, a->size);
  }
  return AC_OK;
}

static ac_status check_steps(ac_instance *instance, answer *a) {
  ac_prepared *prepared = &instance->main;
  instance->run.training = true;
  if (prepared->sequence->section_count) return ac_sections_each(instance, prepared, check_step, a);
  ac_instance_resize(instance, prepared);
  for (int i = 0; i < ac_sequence_end(prepared->sequence) && !a->text[0]; i++)
    AC_TRY(check_step(a, instance, prepared, i, true));
  return AC_OK;
}

/* Whether the window in progress can stay as it is. */
static ac_status check_window(const ac_trainer *trainer) {
  AC_TRY(ac_trainer_check_arena(trainer));
  if (!trainer->instance.plan->problem.in_sections || trainer->run.samples == 0) return AC_OK;
  return ac_fail(AC_ERROR_STATE,
                 "trainer: this would overwrite what batch norms have gathered over the window; "
                 "update or discard it first");
}

static ac_status look(ac_trainer *trainer, const void *const *data, int64_t first, int64_t count,
                      answer *a) {
  ac_instance *instance = &trainer->instance;
  ac_status status = ac_instance_upload(instance, data, first, count);
  if (status == AC_OK) status = check_leaves(instance, a->buffer, a->text, a->size);
  if (status == AC_OK) status = check_steps(instance, a);
  return status;
}

/* Through a window with batch norms over all ranks, also where this one has no sample. */
static ac_status look_with_others(ac_trainer *trainer, const void *const *data, int64_t first,
                                  int64_t count, answer *a) {
  ac_exchange *e = &trainer->exchange;
  e->found = a->text;
  ac_status status = count ? look(trainer, data, first, count, a) : ac_exchange_idle_norms(trainer);
  e->found = NULL;
  if (status != AC_ERROR_NOT_FINITE) return status;
  ac_exchange_copy_sentence(a->text, a->size);
  return AC_OK;
}

ac_status ac_trainer_locate_data(ac_trainer *trainer, const void *const *data, int64_t first,
                                 int64_t sample, int64_t count, char *text, size_t size) {
  ac_instance *instance = &trainer->instance;
  AC_TRY(check_window(trainer));
  ac_kept_sums sums;
  float *buffer = malloc(PIECE * sizeof *buffer);
  if (!buffer) return ac_fail(AC_ERROR_MEMORY, "no memory to look for values that are not finite");
  text[0] = 0;
  instance->run.batch = count;
  instance->run.sample = (uint32_t)sample;
  instance->run.update = (uint32_t)trainer->run.updates;
  answer a = {buffer, text, size};
  ac_status status = ac_instance_settle(instance);
  if (status == AC_OK) status = ac_instance_keep_sums(instance, &sums);
  if (status == AC_OK && instance->join.call)
    status = look_with_others(trainer, data, first, count, &a);
  else if (status == AC_OK) status = look(trainer, data, first, count, &a);
  if (status == AC_OK) status = ac_instance_restore_sums(instance, &sums);
  if (status != AC_OK) trainer->window.broken = true;
  free(buffer);
  return status;
}

ac_status ac_trainer_locate_nonfinite(ac_trainer *trainer, int64_t count, const ac_feed *feeds,
                                      int feed_count, char *text, size_t size) {
  AC_REQUIRE(trainer, text);
  if (feed_count > 0) AC_REQUIRE(feeds);
  const void *data[AC_MAX_GRAPH_INPUTS];
  if (size < 1)
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: give room for at least 1 byte of answer");
  if (trainer->instance.join.call)
    return ac_fail(AC_ERROR_STATE, "trainer: with exact batch norm over several ranks ac_fit alone "
                                   "finds the first value that is not finite");
  const int64_t most = ac_plan_piece(trainer->instance.plan);
  if (count > most)
    return ac_fail(
        AC_ERROR_ARGUMENT, "trainer: %lld samples exceed the %s of %lld", (long long)count,
        trainer->instance.plan->problem.in_sections ? "batch" : "micro-batch", (long long)most);
  AC_TRY(ac_instance_match_feeds(&trainer->instance, NULL, count, feeds, feed_count, data));
  return ac_trainer_locate_data(trainer, data, 0, 0, count, text, size);
}
