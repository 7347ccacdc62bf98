#include "core/error.h"
#include "run/instance.h"

#include <accrue/session.h>
#include <stdlib.h>
#include <string.h>

struct ac_session {
  ac_instance instance;
  int64_t samples; /* of the last run; 0: nothing was run */
  /* By output: all that the last run yielded, as f32; NULL: it was one micro-batch, and the device
   * has it. */
  float **kept;
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
  return ac_session_create_from(session, plan, seed, NULL);
}

ac_status ac_session_create_from(ac_session **session, const ac_plan *plan, uint64_t seed,
                                 const ac_instance *from) {
  if (plan->problem.desc.purpose == AC_TRAIN)
    return ac_fail(AC_ERROR_ARGUMENT, "session: the plan was made for training");
  ac_session *made = calloc(1, sizeof *made);
  if (!made) return ac_fail(AC_ERROR_MEMORY, "no memory for a session");
  const ac_wait wait = ac_instance_announce(plan);
  ac_status status = ac_instance_create(&made->instance, plan, from);
  made->instance.run.seed = seed;
  if (status == AC_OK) status = ac_instance_initialise(&made->instance, seed);
  if (ac_wait_end(&wait, status) != AC_OK) {
    ac_session_free(made);
    return status;
  }
  *session = made;
  return AC_OK;
}

ac_status ac_session_create_with(ac_session **session, const ac_plan *plan, uint64_t seed,
                                 const ac_session *other) {
  AC_CREATES(session);
  AC_REQUIRE(plan, other);
  return ac_session_create_from(session, plan, seed, &other->instance);
}

/* Gives back what the last run has left on the host. */
static void forget(ac_session *session) {
  const ac_plan *plan = session->instance.plan;
  for (int i = 0; session->kept && i < plan->graph->output_count; i++) free(session->kept[i]);
  free(session->kept);
  session->kept = NULL;
  session->samples = 0;
}

void ac_session_free(ac_session *session) {
  if (!session) return;
  if (session->instance.plan) forget(session);
  ac_instance_free(&session->instance);
  free(session);
}

ac_status ac_session_instance(ac_session *session, ac_instance **instance) {
  *instance = &session->instance;
  return check_at_work(session);
}

ac_status ac_session_load(ac_session *session, const char *path, const char *optional_prefix) {
  AC_REQUIRE(session, path);
  AC_TRY(check_at_work(session));
  return ac_instance_load(&session->instance, path, NULL, optional_prefix);
}

ac_status ac_session_load_from(ac_session *session, ac_model_file *file, const char *prefix,
                               bool (*takes)(void *user, const char *name), void *user) {
  AC_TRY(check_at_work(session));
  return ac_instance_load_from(&session->instance, file, prefix, takes, user);
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

ac_status ac_session_get_parameter(ac_session *session, const char *name, int64_t first,
                                   int64_t count, float *data) {
  AC_REQUIRE(session, name);
  if (count > 0) AC_REQUIRE(data);
  ac_instance *instance = &session->instance;
  AC_TRY(check_at_work(session));
  int index = ac_instance_find_parameter(instance, name);
  if (index < 0) return ac_fail(AC_ERROR_ARGUMENT, "session: no parameter \"%s\"", name);
  AC_TRY(ac_instance_check_range(instance, index, first, count));
  return ac_instance_read_parameter(instance, index, first, count, data);
}

/* Room for all outputs of so many samples. */
static ac_status make_room(ac_session *session, int64_t count) {
  const ac_instance *instance = &session->instance;
  const ac_graph *graph = instance->plan->graph;
  session->kept = calloc((size_t)graph->output_count + 1, sizeof *session->kept);
  bool fits = session->kept != NULL;
  for (int i = 0; i < graph->output_count && fits; i++) {
    const int64_t each = ac_instance_output_count(instance, graph->outputs[i].tensor, 1);
    fits = count <= PTRDIFF_MAX / (int64_t)sizeof(float) / each;
    if (fits) session->kept[i] = malloc((size_t)(each * count) * sizeof(float));
    fits = fits && session->kept[i];
  }
  if (fits) return AC_OK;
  return ac_fail(AC_ERROR_MEMORY,
                 "session: no memory on the host for the outputs of %lld samples; run fewer at a "
                 "time, or ask for one output (ac_session_predict)",
                 (long long)count);
}

/* Reads elements [first, first + count) of an output from the device. */
static ac_status read_output(const ac_session *session, int tensor, int64_t first, int64_t count,
                             float *data) {
  const ac_instance *instance = &session->instance;
  return ac_instance_read_floats(
      instance, ac_instance_output_handle(instance, &instance->main, tensor),
      ac_tensor_at(instance->plan->graph, tensor)->dtype, first, count, data);
}

/* Copies the outputs of a micro-batch that begins with this sample. */
static ac_status keep_outputs(ac_session *session, int64_t sample) {
  const ac_instance *instance = &session->instance;
  const ac_graph *graph = instance->plan->graph;
  for (int i = 0; i < graph->output_count; i++) {
    const int tensor = graph->outputs[i].tensor;
    const bool batched = ac_tensor_at(graph, tensor)->shape.batched;
    const int64_t from = batched ? ac_instance_output_count(instance, tensor, sample) : 0;
    AC_TRY(read_output(session, tensor, 0,
                       ac_instance_output_count(instance, tensor, instance->run.batch),
                       session->kept[i] + from));
  }
  return AC_OK;
}

static ac_status run_pieces(ac_session *session, int64_t count, const void *const *data) {
  ac_instance *instance = &session->instance;
  const int64_t piece = instance->plan->info.micro_batch;
  if (count > piece) AC_TRY(make_room(session, count));
  for (int64_t first = 0; first < count; first += piece) {
    instance->run.batch = count - first < piece ? count - first : piece;
    AC_TRY(ac_instance_upload(instance, data, first, instance->run.batch));
    AC_TRY(ac_instance_run(instance, &instance->main, true));
    if (session->kept) AC_TRY(keep_outputs(session, first));
  }
  return AC_OK;
}

static ac_status check_predicts(const ac_session *session) {
  if (session->instance.plan->info.purpose != AC_PREDICT)
    return ac_fail(AC_ERROR_STATE, "session: the plan was not made to predict");
  AC_TRY(check_at_work(session));
  return ac_instance_check_usable(&session->instance, "session");
}

/* A cache has room for the samples of one micro-batch, each time the same ones. */
static ac_status check_caches(const ac_session *session, int64_t count) {
  const ac_plan *plan = session->instance.plan;
  const int64_t most = plan->info.micro_batch;
  for (int i = 0; i < plan->cell_count && count > most; i++)
    if (plan->cells[i].role == AC_ROLE_CACHE)
      return ac_fail(AC_ERROR_ARGUMENT,
                     "session: cache \"%s\" has room for %lld samples, but %lld were fed",
                     ac_tensor_at(plan->graph, plan->cells[i].tensor)->name, (long long)most,
                     (long long)count);
  return AC_OK;
}

ac_status ac_session_run(ac_session *session, int64_t count, const ac_feed *feeds, int feed_count) {
  AC_REQUIRE(session);
  if (feed_count > 0) AC_REQUIRE(feeds);
  const void *data[AC_MAX_GRAPH_INPUTS];
  AC_TRY(check_predicts(session));
  AC_TRY(check_caches(session, count));
  AC_TRY(ac_instance_match_feeds(&session->instance, NULL, count, feeds, feed_count, data));
  forget(session);
  const ac_status status = run_pieces(session, count, data);
  if (status != AC_OK) forget(session);
  else session->samples = count;
  return status;
}

ac_status ac_session_output(ac_session *session, const char *name, int64_t first, int64_t count,
                            float *data) {
  AC_REQUIRE(session, name);
  if (count > 0) AC_REQUIRE(data);
  const ac_instance *instance = &session->instance;
  const int output = ac_instance_find_output(instance, name);
  if (output < 0) return ac_fail(AC_ERROR_ARGUMENT, "session: no output \"%s\"", name);
  if (!session->samples) return ac_fail(AC_ERROR_STATE, "session: nothing was run yet");
  const int tensor = instance->plan->graph->outputs[output].tensor;
  const int64_t elements = ac_instance_output_count(instance, tensor, session->samples);
  if (first < 0 || count < 0 || first > elements || count > elements - first)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "session: output \"%s\" has %lld elements; asked for %lld from %lld", name,
                   (long long)elements, (long long)count, (long long)first);
  if (!session->kept) return read_output(session, tensor, first, count, data);
  if (count > 0) memcpy(data, session->kept[output] + first, (size_t)count * sizeof *data);
  return AC_OK;
}

ac_status ac_session_predict(ac_session *session, const char *name, int64_t count,
                             const ac_feed *feeds, int feed_count, int64_t elements, float *data) {
  AC_REQUIRE(session, name, data);
  if (feed_count > 0) AC_REQUIRE(feeds);
  ac_instance *instance = &session->instance;
  const ac_prediction wanted = {"session", name, count, elements, data};
  AC_TRY(check_predicts(session));
  AC_TRY(check_caches(session, count));
  forget(session);
  return ac_instance_predict(instance, &instance->main, instance->plan->info.micro_batch, &wanted,
                             feeds, feed_count);
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
