#include "core/error.h"
#include "run/instance.h"

#include <accrue/session.h>
#include <stdlib.h>
#include <string.h>

struct ac_session {
  ac_instance instance;
  bool has_run;
  bool evaluating; /* and the caller is asked whether to stop */
};

/* Refuses calls from a function that the session calls while it reads samples, or that is asked
 * during an evaluation.
 */
static ac_status check_at_work(const ac_session *session) {
  AC_TRY(ac_instance_check_reading(&session->instance, "session"));
  if (!session->evaluating) return AC_OK;
  return ac_fail(AC_ERROR_STATE,
                 "session: an evaluation is in progress; use the session once it has returned");
}

ac_status ac_session_create(ac_session **session, const ac_plan *plan, uint64_t seed) {
  AC_CREATES(session);
  AC_REQUIRE(plan);
  if (plan->problem.desc.purpose == AC_TRAIN)
    return ac_fail(AC_ERROR_ARGUMENT, "session: the plan was made for training");
  ac_session *made = calloc(1, sizeof *made);
  if (!made) return ac_fail(AC_ERROR_MEMORY, "no memory for a session");
  const ac_wait wait = ac_instance_announce(plan);
  ac_status status = ac_instance_create(&made->instance, plan);
  made->instance.run.seed = seed;
  if (status == AC_OK) status = ac_instance_initialise(&made->instance, seed);
  if (ac_wait_end(&wait, status) != AC_OK) {
    ac_session_free(made);
    return status;
  }
  *session = made;
  return AC_OK;
}

void ac_session_free(ac_session *session) {
  if (!session) return;
  ac_instance_free(&session->instance);
  free(session);
}

ac_status ac_session_load(ac_session *session, const char *path, const char *optional_prefix) {
  AC_REQUIRE(session, path);
  AC_TRY(check_at_work(session));
  return ac_instance_load(&session->instance, path, NULL, optional_prefix);
}

ac_status ac_session_load_part(ac_session *session, const char *path, const char *pattern,
                               const char *optional_prefix) {
  AC_REQUIRE(session, path, pattern);
  AC_TRY(check_at_work(session));
  return ac_instance_load(&session->instance, path, pattern, optional_prefix);
}

ac_status ac_session_set_input(ac_session *session, const char *name, const void *data) {
  AC_REQUIRE(session, name, data);
  AC_TRY(check_at_work(session));
  return ac_instance_set_input(&session->instance, name, data, "session");
}

ac_status ac_session_set_parameter(ac_session *session, const char *name, int64_t first,
                                   int64_t count, const float *data) {
  AC_REQUIRE(session, name);
  if (count > 0) AC_REQUIRE(data);
  ac_instance *instance = &session->instance;
  AC_TRY(check_at_work(session));
  int index = ac_instance_find_parameter(instance, name);
  if (index < 0) return ac_fail(AC_ERROR_ARGUMENT, "session: no parameter \"%s\"", name);
  AC_TRY(ac_instance_check_range(instance, index, first, count));
  return ac_instance_write_parameter(instance, index, first, count, data);
}

ac_status ac_session_run(ac_session *session, int64_t count, const ac_feed *feeds, int feed_count) {
  AC_REQUIRE(session);
  if (feed_count > 0) AC_REQUIRE(feeds);
  ac_instance *instance = &session->instance;
  const ac_plan_info *info = &instance->plan->info;
  const void *data[AC_MAX_GRAPH_INPUTS];
  if (info->purpose != AC_PREDICT)
    return ac_fail(AC_ERROR_STATE, "session: the plan was not made to predict");
  if (count > info->micro_batch)
    return ac_fail(AC_ERROR_ARGUMENT, "session: %lld samples exceed the micro-batch of %lld",
                   (long long)count, (long long)info->micro_batch);
  AC_TRY(check_at_work(session));
  AC_TRY(ac_instance_check_usable(instance, "session"));
  AC_TRY(ac_instance_match_feeds(instance, count, feeds, feed_count, data));
  session->has_run = false;
  AC_TRY(ac_instance_upload(instance, data, 0, count));
  instance->run.batch = count;
  AC_TRY(ac_instance_run(instance, &instance->main, true));
  session->has_run = true;
  return AC_OK;
}

/* The last value that filled the output's storage is kept to the sequence's end. */
static const void *output_handle(const ac_instance *instance, int tensor) {
  const ac_sequence *sequence = instance->main.sequence;
  int storage = ac_tensor_at(instance->plan->graph, tensor)->storage, found = -1;
  for (int i = 0; i < sequence->value_count; i++)
    if (sequence->values[i].tensor == storage) found = i;
  return found < 0 ? NULL : instance->main.handles[ac_sequence_root(sequence, found)];
}

ac_status ac_session_output(ac_session *session, const char *name, int64_t first, int64_t count,
                            float *data) {
  AC_REQUIRE(session, name);
  if (count > 0) AC_REQUIRE(data);
  const ac_instance *instance = &session->instance;
  const ac_graph *graph = instance->plan->graph;
  int tensor = -1;
  for (int i = 0; i < graph->output_count; i++)
    if (!strcmp(graph->outputs[i].name, name)) tensor = graph->outputs[i].tensor;
  if (tensor < 0) return ac_fail(AC_ERROR_ARGUMENT, "session: no output \"%s\"", name);
  if (!session->has_run) return ac_fail(AC_ERROR_STATE, "session: nothing was run yet");
  int64_t elements = ac_operand_of(ac_tensor_at(graph, tensor), instance->run.batch).count;
  if (first < 0 || count < 0 || first > elements || count > elements - first)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "session: output \"%s\" has %lld elements; asked for %lld from %lld", name,
                   (long long)elements, (long long)count, (long long)first);
  return ac_instance_read_floats(instance, output_handle(instance, tensor),
                                 ac_tensor_at(graph, tensor)->dtype, first, count, data);
}

static ac_status evaluate(ac_session *session, ac_dataset *dataset, int64_t limit, ac_stop *stop,
                          ac_evaluation *result) {
  ac_instance *instance = &session->instance;
  if (instance->plan->info.purpose != AC_EVALUATE)
    return ac_fail(AC_ERROR_STATE, "session: the plan was not made to evaluate");
  AC_TRY(check_at_work(session));
  AC_TRY(ac_instance_check_usable(instance, "session"));
  session->evaluating = true;
  const ac_status status =
      ac_instance_evaluate(instance, &instance->main, dataset, limit, stop, result);
  session->evaluating = false;
  return status;
}

ac_status ac_session_evaluate(ac_session *session, ac_dataset *dataset, int64_t limit,
                              ac_evaluation *result) {
  AC_REQUIRE(session, dataset, result);
  ac_stop never = {0};
  return evaluate(session, dataset, limit, &never, result);
}

ac_status ac_session_evaluate_until(ac_session *session, ac_dataset *dataset, int64_t limit,
                                    ac_stop_callback stop, void *user, ac_evaluation *result,
                                    bool *stopped) {
  AC_REQUIRE(session, dataset, result, stopped);
  ac_stop asked = {.ask = stop, .user = user};
  const ac_status status = evaluate(session, dataset, limit, &asked, result);
  *stopped = asked.stopped;
  return status;
}
