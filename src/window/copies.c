/* Weights that go from one trainer to another, or to a session: copied or averaged, as a target
 * network or a teacher follows a network. All passes through a piece of host memory. */
#include "window/trainer.h"

#include "core/error.h"

#include <accrue/results.h>
#include <accrue/session.h>
#include <string.h>

/* Elements. Two pieces are on the stack: nothing is allocated between updates. */
enum { PIECE = 4096 };

static const ac_tensor *parameter_of(const ac_trainer *trainer, int index) {
  const ac_graph *graph = trainer->instance.plan->graph;
  return ac_tensor_at(graph, graph->parameters[index]);
}

/* The parameter of `from` that parameter `index` of `to` follows; -1: none. It is looked for from
 * *next on, which becomes the one after it: most graphs have both in one order. */
static int source_of(const ac_trainer *to, int index, const char *prefix, const ac_trainer *from,
                     const char *from_prefix, int *next) {
  const char *name = parameter_of(to, index)->name;
  const size_t length = strlen(prefix), other = strlen(from_prefix);
  if (strncmp(name, prefix, length) != 0) return -1;
  const int count = ac_trainer_parameter_count(from);
  for (int k = 0; k < count; k++) {
    const int i = (*next + k) % count;
    const char *theirs = parameter_of(from, i)->name;
    if (strncmp(theirs, from_prefix, other) != 0 || strcmp(theirs + other, name + length) != 0)
      continue;
    *next = i + 1;
    return i;
  }
  return -1;
}

static ac_status blend(ac_trainer *to, int index, ac_trainer *from, int source, float rate) {
  const int64_t count = ac_shape_count(&parameter_of(to, index)->shape);
  float own[PIECE], other[PIECE];
  for (int64_t first = 0; first < count; first += PIECE) {
    const int64_t size = count - first < PIECE ? count - first : PIECE;
    AC_TRY(ac_instance_read_parameter(&from->instance, source, first, size, other));
    if (rate < 1) {
      AC_TRY(ac_instance_read_parameter(&to->instance, index, first, size, own));
      for (int64_t i = 0; i < size; i++) other[i] = own[i] + rate * (other[i] - own[i]);
    }
    AC_TRY(ac_instance_write_parameter(&to->instance, index, first, size, other));
  }
  return AC_OK;
}

/* What is kept in 16 bits alone does not move by a part of the way that is below half of its last
 * bit, however often. */
static ac_status check_storage(const ac_trainer *to, int index, double rate) {
  int own = index;
  const ac_instance *instance = ac_shared_owner(&to->instance, &own);
  const ac_parameter_tensors *memory = &instance->plan->problem.parameters[own];
  const int kept = instance->persistent[memory->tensor] ? memory->tensor : memory->working;
  const ac_dtype dtype = ac_tensor_at(instance->plan->graph, kept)->dtype;
  if (dtype == AC_F32 || rate == 0 || rate == 1) return AC_OK;
  const ac_blocks blocks = parameter_of(to, index)->desc.blocks;
  return ac_fail(AC_ERROR_ARGUMENT,
                 "trainer: \"%s\" is kept in %s alone, which loses steps at a rate of %g; plan for "
                 "f32, or copy it at the rate 1",
                 parameter_of(to, index)->name,
                 blocks ? ac_blocks_name(blocks) : ac_dtype_name(dtype), rate);
}

static ac_status check(const ac_trainer *to, const char *prefix, const ac_trainer *from,
                       const char *from_prefix, double rate) {
  int matches = 0, next = 0;
  if (!(rate >= 0 && rate <= 1))
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: weights are copied at a rate from 0 to 1, not %g",
                   rate);
  for (int i = 0; i < ac_trainer_parameter_count(to); i++) {
    const int source = source_of(to, i, prefix, from, from_prefix, &next);
    if (source < 0) continue;
    const ac_tensor *a = parameter_of(to, i), *b = parameter_of(from, source);
    char ours[AC_SHAPE_TEXT], theirs[AC_SHAPE_TEXT];
    if (!ac_shape_equal(&a->shape, &b->shape))
      return ac_fail(AC_ERROR_ARGUMENT, "trainer: \"%s\" %s cannot follow \"%s\" %s", a->name,
                     ac_shape_text(ours, &a->shape), b->name, ac_shape_text(theirs, &b->shape));
    AC_TRY(check_storage(to, i, rate));
    matches++;
  }
  if (matches) return AC_OK;
  return ac_fail(AC_ERROR_ARGUMENT,
                 "trainer: no parameter \"%s...\" has one with the name \"%s...\" to follow",
                 prefix, from_prefix);
}

ac_status ac_trainer_copy_weights(ac_trainer *to, const char *to_prefix, ac_trainer *from,
                                  const char *from_prefix, double rate) {
  AC_REQUIRE(to, from);
  const char *prefix = to_prefix ? to_prefix : "", *other = from_prefix ? from_prefix : "";
  AC_TRY(ac_trainer_check_writable(to));
  AC_TRY(ac_instance_check_usable(&from->instance, "trainer"));
  AC_TRY(check(to, prefix, from, other, rate));
  for (int i = 0, next = 0; i < ac_trainer_parameter_count(to); i++) {
    const int source = source_of(to, i, prefix, from, other, &next);
    if (source >= 0) AC_TRY(blend(to, i, from, source, (float)rate));
  }
  return AC_OK;
}

ac_status ac_session_create_shared(ac_session **session, const ac_plan *plan, uint64_t seed,
                                   const ac_trainer *trainer) {
  AC_CREATES(session);
  AC_REQUIRE(plan);
  return ac_session_create_from(session, plan, seed, trainer ? &trainer->instance : NULL);
}
