/* base.h's rule about NULL, for every pointer that a public function takes. The headers say which
 * functions and parameters there are; one without an entry here fails. */
#include "support/headers.h"
#include "support/tiny_llm.h"

#include "core/error.h"

#include <unistd.h>

/* ---- what calls work on ---------------------------------------------------------------------- */

enum { FEATURES = 4, SAMPLES = 6 };

static ac_graph *graph;
static ac_tensor *x, *labels, *w, *hidden;
static ac_device *device;
static ac_plan *plan, *predicting, *evaluating;
static ac_trainer *trainer;
static ac_session *session, *evaluator;
static ac_dataset *dataset;
static ac_bench *bench;
static float images[SAMPLES * FEATURES], numbers[64];
static int32_t classes[SAMPLES];
static const ac_field fields[] = {{"x", AC_F32, FEATURES}, {"labels", AC_I32, 1}};
static const void *const data[] = {images, classes};
static void *const sample[] = {numbers, numbers + FEATURES};
static const ac_feed feeds[] = {{"x", images}, {"labels", classes}};
static const ac_sample_key key;
static char text[256];

static const char *do_nothing(const ac_custom_call *call) {
  (void)call;
  return NULL;
}
static const ac_custom_desc own_op = {.name = "own", .cpu = do_nothing};
static void count_run(const ac_custom_call *call, int64_t first, int64_t last, void *context) {
  (void)call, (void)first, (void)last;
  ++*(int *)context;
}

static void make_graph(void) {
  ac_graph_free(graph);
  assert_ok(ac_graph_create(&graph));
  x = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, FEATURES));
  labels = ac_input(graph, "labels", AC_I32, AC_SHAPE(AC_BATCH));
  w = ac_parameter(graph, "w", AC_SHAPE(3, FEATURES), ZEROS);
  hidden = ac_linear(x, w, NULL, AC_OUT_IN);
  assert_non_null(hidden);
}

static int open_all(void **state) {
  (void)state;
  make_graph();
  ac_graph_set_output(graph, "hidden", hidden);
  ac_graph_set_loss(graph, ac_cross_entropy(hidden, labels, NULL, NULL));
  const ac_plan_desc training = {.batch = 2}, predicts = {.purpose = AC_PREDICT, .batch = 2},
                     evaluates = {.purpose = AC_EVALUATE, .batch = 2};
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "dry"}));
  assert_ok(ac_plan_create(&plan, graph, device, &training));
  assert_ok(ac_plan_create(&predicting, graph, device, &predicts));
  assert_ok(ac_plan_create(&evaluating, graph, device, &evaluates));
  assert_ok(ac_trainer_create(&trainer, plan, NULL));
  assert_ok(ac_session_create(&session, predicting, 0));
  assert_ok(ac_session_create(&evaluator, evaluating, 0));
  assert_ok(ac_dataset_from_memory(&dataset, SAMPLES, 2, fields, data));
  assert_ok(ac_bench_create(&bench, device, NULL));
  assert_ok(ac_session_run(session, 2, feeds, 2));
  assert_ok(ac_bench_add_plan(bench, plan));
  return 0;
}

static int close_all(void **state) {
  (void)state;
  ac_bench_free(bench);
  ac_dataset_free(dataset);
  ac_session_free(session);
  ac_session_free(evaluator);
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_plan_free(predicting);
  ac_plan_free(evaluating);
  ac_device_close(device);
  ac_graph_free(graph);
  return 0;
}

/* ---- entries --------------------------------------------------------------------------------- */

/* "void *const *fields" is a pointer, so is "ac_bench_run run", which is a function. */
static bool is_pointer(const char *parameter) {
  static const char *const functions[] = {"ac_bench_run ",       "ac_stop_callback ",
                                          "ac_model_source ",    "ac_read_sample ",
                                          "ac_tensor_callback ", "ac_generator_graph "};
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
    if (!strncmp(parameter, functions[i], strlen(functions[i]))) return true;
  return strchr(parameter, '*') || strchr(parameter, '[');
}

/* The last word: "shape" of "int64_t shape[3]". */
static const char *parameter_name(const char *parameter) {
  static char name[64];
  size_t end = strcspn(parameter, "["), begin = end;
  while (begin && (isalnum((unsigned char)parameter[begin - 1]) || parameter[begin - 1] == '_'))
    begin--;
  snprintf(name, sizeof name, "%.*s", (int)(end - begin), parameter + begin);
  return name;
}

static bool entered[MOST_DECLARED][MOST_PARAMETERS];

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

/* Remembers that `function` was called with NULL for `parameter`, which must be there. */
static void enter(const char *function, const char *parameter, const char *call) {
  if (!strstr(call, function) || !(strstr(call, "NULL") || strstr(call, TEXT(NULL))))
    fail_msg("%s does not call %s with NULL", call, function);
  for (int d = 0; d < declared_count; d++) {
    if (strcmp(declarations[d].name, function) != 0) continue;
    for (int i = 0; i < declarations[d].count; i++) {
      if (strcmp(parameter_name(declarations[d].parameter[i]), parameter) != 0) continue;
      entered[d][i] = true;
      return;
    }
  }
  fail_msg("no header declares the parameter %s of %s", parameter, function);
}

/* The call is refused, by a sentence of its own that names both. */
#define REFUSED(function, parameter, call)                                      \
  do {                                                                          \
    enter(#function, #parameter, #call);                                        \
    (void)ac_dataset_read(NULL, NULL, NULL);                                    \
    ac_status refused_status = (call);                                          \
    if (refused_status != AC_ERROR_ARGUMENT)                                    \
      fail_msg("%s: %s, not refused", #call, ac_status_name(refused_status));   \
    assert_string_equal(ac_last_error(), #function ": " #parameter " is NULL"); \
  } while (0)

/* The same of a function that makes something: the result is NULL then. */
#define NOT_MADE(function, parameter, type, result, call) \
  do {                                                    \
    type *result = (type *)(void *)numbers;               \
    REFUSED(function, parameter, call);                   \
    assert_null(result);                                  \
  } while (0)

/* A description that is NULL is one of zeros: what comes of the two is the same. */
#define ZEROED(function, parameter, null_call, zero_call) \
  do {                                                    \
    char said[1024];                                      \
    enter(#function, #parameter, #null_call);             \
    ac_status null_status = (null_call);                  \
    snprintf(said, sizeof said, "%s", ac_last_error());   \
    assert_int_equal(null_status, zero_call);             \
    if (null_status == AC_OK) break;                      \
    assert_string_equal(ac_last_error(), said);           \
    assert_null(strstr(said, "is NULL"));                 \
  } while (0)

/* The function's own text allows NULL, or what it does then is harmless. */
#define HARMLESS(function, parameter, condition)          \
  do {                                                    \
    enter(#function, #parameter, #condition);             \
    if (!(condition)) fail_msg("not so: %s", #condition); \
  } while (0)
#define NOTHING(function, parameter, call) \
  do {                                     \
    enter(#function, #parameter, #call);   \
    call;                                  \
  } while (0)

/* ---- modules ---------------------------------------------------------------------------------
 */

static void devices(void) {
  ac_device *d;
  ac_device_info found;
  int count;
  HARMLESS(ac_device_list, list, ac_device_list(NULL, 0, &count) == AC_OK);
  REFUSED(ac_device_list, count, ac_device_list(NULL, 0, NULL));
  assert_int_equal(ac_device_list(NULL, 2, &count), AC_ERROR_ARGUMENT);
  assert_string_equal(ac_last_error(), "ac_device_list: there is no list of 2 devices");
  REFUSED(ac_device_find, info, ac_device_find(NULL, "cpu"));
  HARMLESS(ac_device_find, name, ac_device_find(&found, NULL) == AC_OK);
  assert_int_equal(ac_device_find(&found, "abacus"), AC_ERROR_DEVICE);
  assert_non_null(strstr(ac_last_error(), "no device \"abacus\"; there is: cpu"));
  assert_ok(ac_device_find(&found, "dry"));
  assert_string_equal(found.id, "dry");
  REFUSED(ac_device_open, device, ac_device_open(NULL, NULL));
  HARMLESS(ac_device_open, desc, ac_device_open(&d, NULL) == AC_OK);
  ac_device_close(d);
  NOTHING(ac_device_close, device, ac_device_close(NULL));
  HARMLESS(ac_device_get_info, device, !ac_device_get_info(NULL));
  HARMLESS(ac_device_allocated_bytes, device, ac_device_allocated_bytes(NULL) == 0);
  HARMLESS(ac_device_peak_bytes, device, ac_device_peak_bytes(NULL) == 0);
  HARMLESS(ac_device_host_allocated_bytes, device, ac_device_host_allocated_bytes(NULL) == 0);
  HARMLESS(ac_device_host_peak_bytes, device, ac_device_host_peak_bytes(NULL) == 0);
  NOTHING(ac_device_reset_peak, device, ac_device_reset_peak(NULL));
  HARMLESS(ac_device_object_count, device, ac_device_object_count(NULL) == 0);
}

static void graphs(void) {
  ac_tensor_info info;
  REFUSED(ac_graph_create, graph, ac_graph_create(NULL));
  NOTHING(ac_graph_free, graph, ac_graph_free(NULL));
  REFUSED(ac_graph_status, graph, ac_graph_status(NULL));
  HARMLESS(ac_graph_message, graph, !*ac_graph_message(NULL));
  NOTHING(ac_graph_scope, graph, ac_graph_scope(NULL, "scope"));
  NOTHING(ac_graph_scope, scope, ac_graph_scope(graph, NULL));
  NOTHING(ac_graph_set_loss, graph, ac_graph_set_loss(NULL, hidden));
  NOTHING(ac_graph_add_metric, graph, ac_graph_add_metric(NULL, "top", hidden, AC_METRIC_MEAN));
  NOTHING(ac_graph_add_loss, graph, ac_graph_add_loss(NULL, "loss", hidden, 1));
  NOTHING(ac_graph_set_output, graph, ac_graph_set_output(NULL, "y", hidden));
  HARMLESS(ac_graph_parameter_count, graph, ac_graph_parameter_count(NULL) == 0);
  HARMLESS(ac_graph_input_count, graph, ac_graph_input_count(NULL) == 0);
  REFUSED(ac_graph_parameter, graph, ac_graph_parameter(NULL, 0, &info));
  REFUSED(ac_graph_parameter, info, ac_graph_parameter(graph, 0, NULL));
  REFUSED(ac_graph_input, graph, ac_graph_input(NULL, 0, &info));
  REFUSED(ac_graph_input, info, ac_graph_input(graph, 0, NULL));
  HARMLESS(ac_tensor_get_info, tensor,
           (ac_tensor_get_info(NULL, &info), !*info.name && !info.rank));
  NOTHING(ac_tensor_get_info, info, ac_tensor_get_info(x, NULL));
  HARMLESS(ac_input, graph, !ac_input(NULL, "x", AC_F32, AC_SHAPE(AC_BATCH)));
  assert_string_equal(ac_last_error(), "ac_input: graph is NULL");
  HARMLESS(ac_constant, graph, !ac_constant(NULL, "c", AC_F32, AC_SHAPE(1), (const float[]){1}));
  assert_string_equal(ac_last_error(), "ac_constant: graph is NULL");
  HARMLESS(ac_parameter, graph, !ac_parameter(NULL, "w", AC_SHAPE(2), NULL));
  HARMLESS(ac_concat, graph, !ac_concat(NULL, &hidden, 1, 1));
  HARMLESS(ac_stack, graph, !ac_stack(NULL, &hidden, 1, 1));
  HARMLESS(ac_custom_op, graph, !ac_custom_op(NULL, &hidden, 1, NULL, &own_op));
  HARMLESS(ac_formula, graph, !ac_formula(NULL, "a", &hidden, 1));
}

/* What an op of one's own calls. */
static void own_calls(void) {
  const float value = 3;
  float got = 5;
  const ac_custom_call call = {.in = {{&value, AC_F32, 1, {1}, 1}},
                               .out = {{&got, AC_F32, 1, {1}, 1}},
                               .in_count = 1,
                               .out_count = 1};
  int runs = 0;
  NOTHING(ac_custom_parallel, call, ac_custom_parallel(NULL, 1, 1, count_run, &runs));
  NOTHING(ac_custom_parallel, part, ac_custom_parallel(&call, 1, 1, NULL, &runs));
  NOTHING(ac_custom_parallel, context, ac_custom_parallel(&call, 1, 1, NULL, NULL));
  NOTHING(ac_custom_read, call, ac_custom_read(NULL, 0, 0, 1, &got));
  NOTHING(ac_custom_read, to, ac_custom_read(&call, 0, 0, 1, NULL));
  NOTHING(ac_custom_write, call, ac_custom_write(NULL, 0, 0, 1, &value));
  NOTHING(ac_custom_write, from, ac_custom_write(&call, 0, 0, 1, NULL));
  NOTHING(ac_custom_launch, call, ac_custom_launch(NULL, NULL));
  NOTHING(ac_custom_launch, desc, ac_custom_launch(&call, NULL));
  ac_custom_read(&call, 1, 0, 1, &got);
  ac_custom_write(&call, -1, 0, 1, &value);
  assert_true(got == 5 && runs == 0);
  ac_custom_parallel(&call, 2, 1, count_run, &runs);
  ac_custom_write(&call, 0, 0, 1, &value);
  assert_true(got == 3 && runs == 1);
}

/* A layer on a graph of its own. */
#define LAYERED(function, parameter, call)                                 \
  do {                                                                     \
    ac_graph *g = NULL;                                                    \
    assert_ok(ac_graph_create(&g));                                        \
    ac_tensor *in = ac_input(g, "x", AC_F32, AC_SHAPE(AC_BATCH, 4, 4, 4)); \
    ac_tensor *ids = ac_input(g, "ids", AC_I32, AC_SHAPE(AC_BATCH));       \
    ac_tensor *line = ac_reshape(in, AC_SHAPE(AC_BATCH, 4, 16));           \
    ac_tensor *volume = ac_reshape(in, AC_SHAPE(AC_BATCH, 1, 4, 4, 4));    \
    ac_tensor *steps = ac_input(g, "s", AC_F32, AC_SHAPE(AC_BATCH, 4, 4)); \
    (void)in, (void)ids, (void)line, (void)volume, (void)steps;            \
    HARMLESS(function, parameter, call);                                   \
    ac_graph_free(g);                                                      \
  } while (0)

/* A weight of the layer's graph. */
static ac_tensor *in_own(ac_graph *g) {
  return ac_parameter(g, "l.weight", AC_SHAPE(3, 4), NULL);
}

static void layers(void) {
  LAYERED(ac_dense, graph, !ac_dense(NULL, "l", in, 2, NULL));
  LAYERED(ac_dense, name, !ac_dense(g, NULL, in, 2, NULL));
  LAYERED(ac_dense, x, !ac_dense(g, "l", NULL, 2, NULL));
  LAYERED(ac_dense, desc, ac_dense(g, "l", in, 2, NULL));
  LAYERED(ac_lora_linear, graph, !ac_lora_linear(NULL, "l", in, w, NULL, AC_OUT_IN, NULL));
  LAYERED(ac_lora_linear, name, !ac_lora_linear(g, NULL, in, in_own(g), NULL, AC_OUT_IN, NULL));
  LAYERED(ac_lora_linear, x, !ac_lora_linear(g, "l", NULL, in_own(g), NULL, AC_OUT_IN, NULL));
  LAYERED(ac_lora_linear, weight, !ac_lora_linear(g, "l", in, NULL, NULL, AC_OUT_IN, NULL));
  LAYERED(ac_lora_linear, bias, ac_lora_linear(g, "l", in, in_own(g), NULL, AC_OUT_IN, NULL));
  LAYERED(ac_lora_linear, desc, ac_lora_linear(g, "l", in, in_own(g), NULL, AC_OUT_IN, NULL));
  LAYERED(ac_conv2d_layer, graph, !ac_conv2d_layer(NULL, "l", in, 2, 3, NULL));
  LAYERED(ac_conv2d_layer, name, !ac_conv2d_layer(g, NULL, in, 2, 3, NULL));
  LAYERED(ac_conv2d_layer, x, !ac_conv2d_layer(g, "l", NULL, 2, 3, NULL));
  LAYERED(ac_conv2d_layer, desc, ac_conv2d_layer(g, "l", in, 2, 3, NULL));
  LAYERED(ac_conv1d_layer, graph, !ac_conv1d_layer(NULL, "l", line, 2, 3, NULL));
  LAYERED(ac_conv1d_layer, name, !ac_conv1d_layer(g, NULL, line, 2, 3, NULL));
  LAYERED(ac_conv1d_layer, x, !ac_conv1d_layer(g, "l", NULL, 2, 3, NULL));
  LAYERED(ac_conv1d_layer, desc, ac_conv1d_layer(g, "l", line, 2, 3, NULL));
  LAYERED(ac_conv3d_layer, graph, !ac_conv3d_layer(NULL, "l", volume, 2, 3, NULL));
  LAYERED(ac_conv3d_layer, name, !ac_conv3d_layer(g, NULL, volume, 2, 3, NULL));
  LAYERED(ac_conv3d_layer, x, !ac_conv3d_layer(g, "l", NULL, 2, 3, NULL));
  LAYERED(ac_conv3d_layer, desc, ac_conv3d_layer(g, "l", volume, 2, 3, NULL));
  LAYERED(ac_conv_transpose1d_layer, graph,
          !ac_conv_transpose1d_layer(NULL, "l", line, 2, 3, NULL));
  LAYERED(ac_conv_transpose1d_layer, name, !ac_conv_transpose1d_layer(g, NULL, line, 2, 3, NULL));
  LAYERED(ac_conv_transpose1d_layer, x, !ac_conv_transpose1d_layer(g, "l", NULL, 2, 3, NULL));
  LAYERED(ac_conv_transpose1d_layer, desc, ac_conv_transpose1d_layer(g, "l", line, 2, 3, NULL));
  LAYERED(ac_conv_transpose2d_layer, graph, !ac_conv_transpose2d_layer(NULL, "l", in, 2, 3, NULL));
  LAYERED(ac_conv_transpose2d_layer, name, !ac_conv_transpose2d_layer(g, NULL, in, 2, 3, NULL));
  LAYERED(ac_conv_transpose2d_layer, x, !ac_conv_transpose2d_layer(g, "l", NULL, 2, 3, NULL));
  LAYERED(ac_conv_transpose2d_layer, desc, ac_conv_transpose2d_layer(g, "l", in, 2, 3, NULL));
  LAYERED(ac_lstm_layer, graph, !ac_lstm_layer(NULL, "l", steps, 2, NULL, NULL));
  LAYERED(ac_lstm_layer, name, !ac_lstm_layer(g, NULL, steps, 2, NULL, NULL));
  LAYERED(ac_lstm_layer, x, !ac_lstm_layer(g, "l", NULL, 2, NULL, NULL));
  LAYERED(ac_lstm_layer, desc, ac_lstm_layer(g, "l", steps, 2, NULL, NULL));
  LAYERED(ac_lstm_layer, final, ac_lstm_layer(g, "l", steps, 2, NULL, NULL));
  LAYERED(ac_gru_layer, graph, !ac_gru_layer(NULL, "l", steps, 2, NULL, NULL));
  LAYERED(ac_gru_layer, name, !ac_gru_layer(g, NULL, steps, 2, NULL, NULL));
  LAYERED(ac_gru_layer, x, !ac_gru_layer(g, "l", NULL, 2, NULL, NULL));
  LAYERED(ac_gru_layer, desc, ac_gru_layer(g, "l", steps, 2, NULL, NULL));
  LAYERED(ac_gru_layer, final, ac_gru_layer(g, "l", steps, 2, NULL, NULL));
  LAYERED(ac_rnn_layer, graph, !ac_rnn_layer(NULL, "l", steps, 2, NULL, NULL));
  LAYERED(ac_rnn_layer, name, !ac_rnn_layer(g, NULL, steps, 2, NULL, NULL));
  LAYERED(ac_rnn_layer, x, !ac_rnn_layer(g, "l", NULL, 2, NULL, NULL));
  LAYERED(ac_rnn_layer, desc, ac_rnn_layer(g, "l", steps, 2, NULL, NULL));
  LAYERED(ac_rnn_layer, final, ac_rnn_layer(g, "l", steps, 2, NULL, NULL));
  LAYERED(ac_norm_layer, graph, !ac_norm_layer(NULL, "l", in, NULL));
  LAYERED(ac_norm_layer, name, !ac_norm_layer(g, NULL, in, NULL));
  LAYERED(ac_norm_layer, x, !ac_norm_layer(g, "l", NULL, NULL));
  LAYERED(ac_norm_layer, desc, ac_norm_layer(g, "l", in, NULL));
  LAYERED(ac_embedding_layer, graph, !ac_embedding_layer(NULL, "l", ids, 2, 3, NULL));
  LAYERED(ac_embedding_layer, name, !ac_embedding_layer(g, NULL, ids, 2, 3, NULL));
  LAYERED(ac_embedding_layer, ids, !ac_embedding_layer(g, "l", NULL, 2, 3, NULL));
  LAYERED(ac_embedding_layer, desc, ac_embedding_layer(g, "l", ids, 2, 3, NULL));
  LAYERED(ac_residual, graph, !ac_residual(NULL, "l", in, in));
  LAYERED(ac_residual, name, !ac_residual(g, NULL, in, in));
  LAYERED(ac_residual, x, !ac_residual(g, "l", NULL, in));
  LAYERED(ac_residual, branch, !ac_residual(g, "l", in, NULL));
}

static void learners(void) {
  ac_learner *l = NULL;
  const ac_learner_desc dry = {.device = {.name = "dry"}};
  REFUSED(ac_learner_create, learner, ac_learner_create(NULL, graph, &dry));
  NOT_MADE(ac_learner_create, graph, ac_learner, made, ac_learner_create(&made, NULL, &dry));
  HARMLESS(ac_learner_create, desc, ac_learner_create(&l, graph, NULL) == AC_ERROR_ARGUMENT);
  assert_contains(ac_last_error(), "plan: the batch of a training plan is 0");
  assert_ok(ac_learner_create(&l, graph, &(ac_learner_desc){.plan = {.batch = 1}}));
  REFUSED(ac_learner_fit, learner, ac_learner_fit(NULL, dataset, NULL, 1, NULL));
  REFUSED(ac_learner_fit, train, ac_learner_fit(l, NULL, NULL, 1, NULL));
  HARMLESS(ac_learner_fit, validation, ac_learner_fit(l, dataset, NULL, 1, NULL) == AC_OK);
  HARMLESS(ac_learner_fit, result, ac_learner_fit(l, dataset, NULL, 1, NULL) == AC_OK);
  ac_learner_free(l);
  NOTHING(ac_learner_free, learner, ac_learner_free(NULL));
  HARMLESS(ac_learner_trainer, learner, !ac_learner_trainer(NULL));
  HARMLESS(ac_learner_plan, learner, !ac_learner_plan(NULL));
  HARMLESS(ac_learner_device, learner, !ac_learner_device(NULL));
}

static void plans(void) {
  ac_plan_step step;
  int count;
  REFUSED(ac_plan_create, plan, ac_plan_create(NULL, graph, device, NULL));
  NOT_MADE(ac_plan_create, graph, ac_plan, p, ac_plan_create(&p, NULL, device, NULL));
  NOT_MADE(ac_plan_create, device, ac_plan, p, ac_plan_create(&p, graph, NULL, NULL));
  ac_plan *p, *q;
  ZEROED(ac_plan_create, desc, ac_plan_create(&p, graph, device, NULL),
         ac_plan_create(&q, graph, device, &(ac_plan_desc){0}));
  assert_contains(ac_last_error(), "plan: the batch of a training plan is 0");
  NOTHING(ac_plan_free, plan, ac_plan_free(NULL));
  HARMLESS(ac_plan_get_info, plan, !ac_plan_get_info(NULL));
  REFUSED(ac_plan_get_step, plan, ac_plan_get_step(NULL, 0, &step));
  REFUSED(ac_plan_get_step, result, ac_plan_get_step(plan, 0, NULL));
  ac_plan_parameter parameter;
  REFUSED(ac_plan_get_parameter, plan, ac_plan_get_parameter(NULL, 0, &parameter));
  REFUSED(ac_plan_get_parameter, result, ac_plan_get_parameter(plan, 0, NULL));
  ac_plan_offer offer;
  REFUSED(ac_plan_offers, graph, ac_plan_offers(NULL, device, NULL, &offer, 1, &count));
  REFUSED(ac_plan_offers, device, ac_plan_offers(graph, NULL, NULL, &offer, 1, &count));
  REFUSED(ac_plan_offers, count, ac_plan_offers(graph, device, NULL, &offer, 1, NULL));
  HARMLESS(ac_plan_offers, list, ac_plan_offers(graph, device, NULL, NULL, 0, &count) == AC_OK);
  HARMLESS(ac_plan_offers, desc, ac_plan_offers(graph, device, NULL, NULL, 0, &count) == AC_OK);
  REFUSED(ac_plan_alternatives, plan, ac_plan_alternatives(NULL, NULL, 0, &count));
  REFUSED(ac_plan_alternatives, count, ac_plan_alternatives(plan, NULL, 0, NULL));
  HARMLESS(ac_plan_alternatives, list, ac_plan_alternatives(plan, NULL, 0, &count) == AC_OK);
}

static ac_status read_nothing(void *user, const ac_sample_key *sample_key, void *const *out) {
  (void)user, (void)sample_key, (void)out;
  return AC_OK;
}

static void datasets(void) {
  ac_dataset *d = NULL;
  int64_t shape[3];
  const ac_callback_dataset_desc desc = {
      .count = 1, .field_count = 1, .fields = {{"x", AC_F32, 1}}, .read = read_nothing};
  REFUSED(ac_dataset_from_callback, dataset, ac_dataset_from_callback(NULL, &desc));
  ZEROED(ac_dataset_from_callback, desc, ac_dataset_from_callback(&d, NULL),
         ac_dataset_from_callback(&d, &(ac_callback_dataset_desc){0}));
  REFUSED(ac_dataset_from_memory, dataset, ac_dataset_from_memory(NULL, 1, 2, fields, data));
  NOT_MADE(ac_dataset_from_memory, fields, ac_dataset, e,
           ac_dataset_from_memory(&e, 1, 2, NULL, data));
  NOT_MADE(ac_dataset_from_memory, data, ac_dataset, e,
           ac_dataset_from_memory(&e, 1, 2, fields, NULL));
  NOTHING(ac_dataset_free, dataset, ac_dataset_free(NULL));
  HARMLESS(ac_dataset_count, dataset, ac_dataset_count(NULL) == 0);
  HARMLESS(ac_dataset_field_count, dataset, ac_dataset_field_count(NULL) == 0);
  HARMLESS(ac_dataset_field, dataset, !ac_dataset_field(NULL, 0));
  HARMLESS(ac_dataset_classes, dataset, ac_dataset_classes(NULL) == 0);
  HARMLESS(ac_dataset_image_shape, dataset, !ac_dataset_image_shape(NULL, shape) && !shape[2]);
  HARMLESS(ac_dataset_image_shape, shape, !ac_dataset_image_shape(dataset, NULL));
  REFUSED(ac_dataset_check_labels, dataset, ac_dataset_check_labels(NULL, 3));
  REFUSED(ac_dataset_read, dataset, ac_dataset_read(NULL, &key, sample));
  REFUSED(ac_dataset_read, key, ac_dataset_read(dataset, NULL, sample));
  REFUSED(ac_dataset_read, fields, ac_dataset_read(dataset, &key, NULL));
  void *const absent[] = {numbers, NULL};
  assert_int_equal(ac_dataset_read(dataset, &key, absent), AC_ERROR_ARGUMENT);
  assert_string_equal(ac_last_error(), "ac_dataset_read: fields[1] is NULL");
  REFUSED(ac_dataset_slice, dataset, ac_dataset_slice(NULL, dataset, 0, 1));
  NOT_MADE(ac_dataset_slice, whole, ac_dataset, e, ac_dataset_slice(&e, NULL, 0, 1));
  REFUSED(ac_dataset_fold, train, ac_dataset_fold(NULL, &d, dataset, 1, 2));
  NOT_MADE(ac_dataset_fold, validation, ac_dataset, e, ac_dataset_fold(&e, NULL, dataset, 1, 2));
  NOT_MADE(ac_dataset_fold, whole, ac_dataset, e, ac_dataset_fold(&d, &e, NULL, 1, 2));
  REFUSED(ac_dataset_shard, dataset, ac_dataset_shard(NULL, dataset, 0, 1));
  NOT_MADE(ac_dataset_shard, whole, ac_dataset, e, ac_dataset_shard(&e, NULL, 0, 1));
  REFUSED(ac_dataset_augmented, dataset, ac_dataset_augmented(NULL, dataset, NULL));
  NOT_MADE(ac_dataset_augmented, whole, ac_dataset, e, ac_dataset_augmented(&e, NULL, NULL));
  ZEROED(ac_dataset_augmented, augmentation, ac_dataset_augmented(&d, dataset, NULL),
         ac_dataset_augmented(&d, dataset, &(ac_augmentation){0}));
}

static void pictures(void) {
  const char *path = ACCRUE_TEST_VECTORS "/pictures/pixel.png", *all = ACCRUE_TEST_VECTORS;
  const uint8_t pixel[3] = {0};
  const ac_sample_key key = {0};
  uint8_t mask[3];
  float box[4] = {0};
  int64_t size;
  ac_pictures *list, *p = NULL;
  ac_dataset *d = NULL;
  assert_ok(ac_pictures_open(&list, NULL, all, &(ac_pictures_desc){.unlabelled = true}));
  REFUSED(ac_pictures_open, pictures, ac_pictures_open(NULL, &p, path, NULL));
  HARMLESS(ac_pictures_open, validation,
           ac_pictures_open(&p, NULL, "nowhere", NULL) == AC_ERROR_ARGUMENT);
  NOT_MADE(ac_pictures_open, path, ac_pictures, q, ac_pictures_open(&q, NULL, NULL, NULL));
  ZEROED(ac_pictures_open, desc, ac_pictures_open(&p, NULL, path, NULL),
         ac_pictures_open(&p, NULL, path, &(ac_pictures_desc){0}));
  REFUSED(ac_pictures_fold, train, ac_pictures_fold(NULL, &p, list, 1, 2));
  NOT_MADE(ac_pictures_fold, validation, ac_pictures, q, ac_pictures_fold(&q, NULL, list, 1, 2));
  NOT_MADE(ac_pictures_fold, pictures, ac_pictures, q, ac_pictures_fold(&q, &p, NULL, 1, 2));
  REFUSED(ac_dataset_from_pictures, dataset, ac_dataset_from_pictures(NULL, list, NULL));
  NOT_MADE(ac_dataset_from_pictures, pictures, ac_dataset, e,
           ac_dataset_from_pictures(&e, NULL, NULL));
  ZEROED(ac_dataset_from_pictures, samples, ac_dataset_from_pictures(&d, list, NULL),
         (ac_dataset_free(d), ac_dataset_from_pictures(&d, list, &(ac_picture_samples){0})));
  uint8_t png[200];
  uint64_t png_bytes;
  REFUSED(ac_picture_encode_png, to, ac_picture_encode_png(NULL, 200, &png_bytes, 1, 1, 3, pixel));
  REFUSED(ac_picture_encode_png, bytes, ac_picture_encode_png(png, 200, NULL, 1, 1, 3, pixel));
  REFUSED(ac_picture_encode_png, pixels,
          ac_picture_encode_png(png, 200, &png_bytes, 1, 1, 3, NULL));
  REFUSED(ac_picture_write_png, path, ac_picture_write_png(NULL, 1, 1, 3, pixel));
  REFUSED(ac_picture_write_png, pixels, ac_picture_write_png("x.png", 1, 1, 3, NULL));
  REFUSED(ac_pictures_class_weights, pictures, ac_pictures_class_weights(NULL, numbers));
  REFUSED(ac_pictures_class_weights, weights, ac_pictures_class_weights(list, NULL));
  REFUSED(ac_dataset_weighted, dataset, ac_dataset_weighted(NULL, dataset, 3, numbers));
  NOT_MADE(ac_dataset_weighted, whole, ac_dataset, e, ac_dataset_weighted(&e, NULL, 3, numbers));
  NOT_MADE(ac_dataset_weighted, weights, ac_dataset, e, ac_dataset_weighted(&e, dataset, 3, NULL));
  REFUSED(ac_dataset_mixed, dataset, ac_dataset_mixed(NULL, dataset, NULL));
  NOT_MADE(ac_dataset_mixed, whole, ac_dataset, e, ac_dataset_mixed(&e, NULL, NULL));
  ac_dataset_free(d);
  ZEROED(ac_dataset_mixed, mixing, ac_dataset_mixed(&d, dataset, NULL),
         ac_dataset_mixed(&d, dataset, &(ac_mixing){0}));
  NOTHING(ac_pictures_free, pictures, ac_pictures_free(NULL));
  REFUSED(ac_pictures_use_cache, pictures, ac_pictures_use_cache(NULL, "x.cache", 3));
  REFUSED(ac_pictures_use_cache, path, ac_pictures_use_cache(list, NULL, 3));
  HARMLESS(ac_pictures_cache_bytes, pictures, ac_pictures_cache_bytes(NULL, 3) == 0);
  HARMLESS(ac_picture_is_named, path, !ac_picture_is_named(NULL));
  HARMLESS(ac_pictures_count, pictures, ac_pictures_count(NULL) == 0);
  HARMLESS(ac_pictures_classes, pictures, ac_pictures_classes(NULL) == 0);
  HARMLESS(ac_pictures_class_name, pictures, !ac_pictures_class_name(NULL, 0));
  HARMLESS(ac_pictures_path, pictures, !ac_pictures_path(NULL, 0));
  HARMLESS(ac_pictures_label, pictures, ac_pictures_label(NULL, 0) == -1);
  HARMLESS(ac_pictures_left_out, pictures, ac_pictures_left_out(NULL) == 0);
  HARMLESS(ac_dataset_picture_bytes, dataset, ac_dataset_picture_bytes(NULL) == 0);
  HARMLESS(ac_pictures_mask, pictures, !ac_pictures_mask(NULL, 0));
  REFUSED(ac_pictures_size, pictures, ac_pictures_size(NULL, 0, &size, &size));
  REFUSED(ac_pictures_size, width, ac_pictures_size(list, 0, NULL, &size));
  REFUSED(ac_pictures_size, height, ac_pictures_size(list, 0, &size, NULL));
  REFUSED(ac_mask_write_png, path, ac_mask_write_png(NULL, 1, 1, pixel));
  REFUSED(ac_mask_write_png, mask, ac_mask_write_png("x.png", 1, 1, NULL));
  ac_dataset_free(d);
  assert_ok(ac_dataset_from_pictures(&d, list, NULL));
  REFUSED(ac_dataset_map_boxes, dataset, ac_dataset_map_boxes(NULL, &key, 1, box, box));
  REFUSED(ac_dataset_map_boxes, key, ac_dataset_map_boxes(d, NULL, 1, box, box));
  REFUSED(ac_dataset_map_boxes, boxes, ac_dataset_map_boxes(d, &key, 1, NULL, box));
  REFUSED(ac_dataset_map_boxes, mapped, ac_dataset_map_boxes(d, &key, 1, box, NULL));
  REFUSED(ac_dataset_restore_mask, dataset, ac_dataset_restore_mask(NULL, 0, pixel, mask));
  REFUSED(ac_dataset_restore_mask, mask, ac_dataset_restore_mask(d, 0, NULL, mask));
  REFUSED(ac_dataset_restore_mask, restored, ac_dataset_restore_mask(d, 0, pixel, NULL));
  ac_dataset_free(d);
  ac_pictures_free(list);
}

static void language_models(void) {
  static const char path[] = ACCRUE_TEST_VECTORS "/models/llama/config.json";
  ac_model *m;
  ac_model_info info;
  ac_tokenizer *t;
  ac_graph *g;
  REFUSED(ac_model_open, model, ac_model_open(NULL, path));
  NOT_MADE(ac_model_open, path, ac_model, e, ac_model_open(&e, NULL));
  NOTHING(ac_model_free, model, ac_model_free(NULL));
  assert_ok(ac_model_open(&m, path));
  HARMLESS(ac_model_get_info, model, (ac_model_get_info(NULL, &info), info.layers == 0));
  NOTHING(ac_model_get_info, info, ac_model_get_info(m, NULL));
  HARMLESS(ac_model_weights, model, !ac_model_weights(NULL));
  REFUSED(ac_model_tokenizer, model, ac_model_tokenizer(NULL, &t));
  REFUSED(ac_model_tokenizer, tokenizer, ac_model_tokenizer(m, NULL));
  NOTHING(ac_model_close_tokenizer, model, ac_model_close_tokenizer(NULL));
  HARMLESS(ac_model_chat_template, model, !ac_model_chat_template(NULL));
  assert_ok(ac_graph_create(&g));
  HARMLESS(ac_model_build, model, !ac_model_build(NULL, g, NULL));
  assert_contains(ac_graph_message(g), "ac_model_build: model is NULL");
  ac_graph_free(g);
  HARMLESS(ac_model_build, graph, !ac_model_build(m, NULL, NULL));
  assert_ok(ac_graph_create(&g));
  HARMLESS(ac_model_build, desc, ac_model_build(m, g, NULL) && ac_graph_status(g) == AC_OK);
  ac_graph_free(g);
  REFUSED(ac_model_load, model, ac_model_load(NULL, trainer));
  REFUSED(ac_model_load, trainer, ac_model_load(m, NULL));
  REFUSED(ac_model_load_session, model, ac_model_load_session(NULL, session));
  REFUSED(ac_model_load_session, session, ac_model_load_session(m, NULL));
  ac_model_free(m);
}

static void adapters(void) {
  static const char folder[] = ACCRUE_TEST_VECTORS "/adapter_of_peft";
  ac_adapter *a;
  char *json;
  float row[16] = {0};
  REFUSED(ac_adapter_open, adapter, ac_adapter_open(NULL, folder));
  NOT_MADE(ac_adapter_open, folder, ac_adapter, e, ac_adapter_open(&e, NULL));
  NOTHING(ac_adapter_close, adapter, ac_adapter_close(NULL));
  assert_ok(ac_adapter_open(&a, folder));
  HARMLESS(ac_adapter_desc, adapter, !ac_adapter_desc(NULL));
  HARMLESS(ac_adapter_base, adapter, !*ac_adapter_base(NULL));
  REFUSED(ac_adapter_load, adapter, ac_adapter_load(NULL, trainer));
  REFUSED(ac_adapter_load, trainer, ac_adapter_load(a, NULL));
  REFUSED(ac_adapter_load_session, adapter, ac_adapter_load_session(NULL, session));
  REFUSED(ac_adapter_load_session, session, ac_adapter_load_session(a, NULL));
  REFUSED(ac_adapter_merge, adapter, ac_adapter_merge(NULL, "w", AC_OUT_IN, 0, 1, 16, row));
  REFUSED(ac_adapter_merge, weight, ac_adapter_merge(a, NULL, AC_OUT_IN, 0, 1, 16, row));
  REFUSED(ac_adapter_merge, rows, ac_adapter_merge(a, "w", AC_OUT_IN, 0, 1, 16, NULL));
  REFUSED(ac_adapter_save, trainer, ac_adapter_save(NULL, folder, NULL, NULL));
  REFUSED(ac_adapter_save, folder, ac_adapter_save(trainer, NULL, NULL, NULL));
  ZEROED(ac_adapter_save, desc, ac_adapter_save(trainer, folder, NULL, "b"),
         ac_adapter_save(trainer, folder, &(ac_lora_desc){0}, "b"));
  HARMLESS(ac_adapter_save, base, ac_adapter_save(trainer, folder, NULL, NULL) != AC_OK);
  REFUSED(ac_adapter_save_weights, trainer, ac_adapter_save_weights(NULL, folder, NULL, 0));
  REFUSED(ac_adapter_save_weights, path, ac_adapter_save_weights(trainer, NULL, NULL, 0));
  REFUSED(ac_adapter_save_weights, metadata, ac_adapter_save_weights(trainer, folder, NULL, 1));
  REFUSED(ac_adapter_config, json, ac_adapter_config(NULL, trainer, NULL, NULL));
  REFUSED(ac_adapter_config, trainer, ac_adapter_config(&json, NULL, NULL, NULL));
  ZEROED(ac_adapter_config, desc, ac_adapter_config(&json, trainer, NULL, "b"),
         ac_adapter_config(&json, trainer, &(ac_lora_desc){0}, "b"));
  HARMLESS(ac_adapter_config, base, ac_adapter_config(&json, trainer, NULL, NULL) != AC_OK);
  ac_adapter_close(a);
}

/* Attention of one head to caches. */
static void build_generator(void *user, ac_graph *g, int64_t tokens, int64_t context) {
  (void)user;
  ac_tensor *ids = ac_input(g, "tokens", AC_I32, AC_SHAPE(AC_BATCH, tokens)),
            *ends = ac_input(g, "ends", AC_I32, AC_SHAPE(AC_BATCH)),
            *table = ac_parameter(g, "w", AC_SHAPE(3, FEATURES), ZEROS),
            *y = ac_reshape(ac_embedding(table, ids), AC_SHAPE(AC_BATCH, tokens, 1, FEATURES));
  y = ac_cached_attention(y, y, y, "a", ends, context, NULL);
  y = ac_reshape(ac_slice(y, 1, tokens - 1, 1), AC_SHAPE(AC_BATCH, 1, FEATURES));
  ac_graph_set_output(g, "logits", ac_linear(y, table, NULL, AC_OUT_IN));
}

static void generators(void) {
  static const char path[] = ACCRUE_TEST_VECTORS "/models/llama";
  const ac_generator_desc desc = {.context = 8, .chunk = 1};
  const uint32_t one[] = {1};
  ac_generator *g;
  ac_generator_info info;
  ac_model *m;
  uint32_t token;
  int64_t count;
  REFUSED(ac_generator_create, generator,
          ac_generator_create(NULL, device, &desc, build_generator, NULL));
  NOT_MADE(ac_generator_create, device, ac_generator, e,
           ac_generator_create(&e, NULL, &desc, build_generator, NULL));
  NOT_MADE(ac_generator_create, desc, ac_generator, e,
           ac_generator_create(&e, device, NULL, build_generator, NULL));
  assert_int_equal(ac_generator_create(&g, device, &desc, NULL, NULL), AC_ERROR_ARGUMENT);
  enter("ac_generator_create", "build", "ac_generator_create(&g, device, &desc, NULL, NULL)");
  HARMLESS(ac_generator_create, user,
           ac_generator_create(&g, device, &desc, build_generator, NULL) == AC_OK);
  assert_ok(ac_model_open(&m, path));
  REFUSED(ac_generator_create_model, generator,
          ac_generator_create_model(NULL, m, device, &desc, NULL));
  NOT_MADE(ac_generator_create_model, model, ac_generator, e,
           ac_generator_create_model(&e, NULL, device, &desc, NULL));
  NOT_MADE(ac_generator_create_model, device, ac_generator, e,
           ac_generator_create_model(&e, m, NULL, &desc, NULL));
  NOT_MADE(ac_generator_create_model, desc, ac_generator, e,
           ac_generator_create_model(&e, m, device, NULL, NULL));
  ac_generator *of_model;
  HARMLESS(ac_generator_create_model, graph,
           ac_generator_create_model(&of_model, m, device, &desc, NULL) == AC_OK);
  ac_generator_free(of_model);
  ac_model_free(m);
  NOTHING(ac_generator_free, generator, ac_generator_free(NULL));
  HARMLESS(ac_generator_session, generator, !ac_generator_session(NULL));
  HARMLESS(ac_generator_get_info, generator,
           (ac_generator_get_info(NULL, &info), info.context == 0));
  NOTHING(ac_generator_get_info, info, ac_generator_get_info(g, NULL));
  REFUSED(ac_generator_feed, generator, ac_generator_feed(NULL, one, 1));
  REFUSED(ac_generator_feed, tokens, ac_generator_feed(g, NULL, 1));
  HARMLESS(ac_generator_feed, tokens, ac_generator_feed(g, NULL, 0) == AC_OK);
  REFUSED(ac_generator_set_text, generator, ac_generator_set_text(NULL, one, 1));
  REFUSED(ac_generator_set_text, tokens, ac_generator_set_text(g, NULL, 1));
  assert_ok(ac_generator_set_text(g, one, 1));
  REFUSED(ac_generator_rewind, generator, ac_generator_rewind(NULL, 0));
  HARMLESS(ac_generator_text, generator, !ac_generator_text(NULL, &count) && count == 0);
  HARMLESS(ac_generator_text, count, ac_generator_text(g, NULL) != NULL);
  REFUSED(ac_generator_read, generator, ac_generator_read(NULL, &count));
  HARMLESS(ac_generator_read, read, ac_generator_read(g, NULL) == AC_OK);
  REFUSED(ac_generator_logits, generator, ac_generator_logits(NULL, numbers, 3));
  REFUSED(ac_generator_logits, logits, ac_generator_logits(g, NULL, 3));
  REFUSED(ac_generator_next, generator, ac_generator_next(NULL, &token));
  REFUSED(ac_generator_next, token, ac_generator_next(g, NULL));
  REFUSED(ac_generator_set_sampling, generator,
          ac_generator_set_sampling(NULL, &(ac_sampling){.seed = 1}));
  REFUSED(ac_generator_set_sampling, sampling, ac_generator_set_sampling(g, NULL));
  ac_generator_free(g);
}

static void tokenizers(void) {
  static const char path[] = ACCRUE_TEST_VECTORS "/tokenizers/gpt2.json";
  ac_tokenizer *t;
  ac_encoding encoding;
  char *text;
  size_t bytes;
  uint32_t id = 0;
  REFUSED(ac_tokenizer_open, tokenizer, ac_tokenizer_open(NULL, path));
  NOT_MADE(ac_tokenizer_open, path, ac_tokenizer, e, ac_tokenizer_open(&e, NULL));
  NOTHING(ac_tokenizer_free, tokenizer, ac_tokenizer_free(NULL));
  assert_ok(ac_tokenizer_open(&t, path));
  HARMLESS(ac_tokenizer_vocabulary, tokenizer, ac_tokenizer_vocabulary(NULL) == 0);
  HARMLESS(ac_tokenizer_find, tokenizer, !ac_tokenizer_find(NULL, "a", &id));
  HARMLESS(ac_tokenizer_find, text, !ac_tokenizer_find(t, NULL, &id));
  HARMLESS(ac_tokenizer_find, id, !ac_tokenizer_find(t, "a", NULL));
  HARMLESS(ac_tokenizer_token, tokenizer, !ac_tokenizer_token(NULL, 0, &bytes));
  HARMLESS(ac_tokenizer_token, bytes, !ac_tokenizer_token(t, 0, NULL));
  HARMLESS(ac_tokenizer_is_special, tokenizer, !ac_tokenizer_is_special(NULL, 0));
  REFUSED(ac_tokenizer_encode, tokenizer, ac_tokenizer_encode(NULL, "a", 1, NULL, &encoding));
  REFUSED(ac_tokenizer_encode, text, ac_tokenizer_encode(t, NULL, 1, NULL, &encoding));
  HARMLESS(ac_tokenizer_encode, text,
           ac_tokenizer_encode(t, NULL, 0, NULL, &encoding) == AC_OK && !encoding.count);
  HARMLESS(ac_tokenizer_encode, desc, ac_tokenizer_encode(t, "", 0, NULL, &encoding) == AC_OK);
  REFUSED(ac_tokenizer_encode, encoding, ac_tokenizer_encode(t, "a", 1, NULL, NULL));
  NOTHING(ac_encoding_free, encoding, ac_encoding_free(NULL));
  REFUSED(ac_tokenizer_decode, text, ac_tokenizer_decode(NULL, &bytes, t, &id, 1, false));
  HARMLESS(ac_tokenizer_decode, bytes, ac_tokenizer_decode(&text, NULL, t, &id, 0, false) == AC_OK);
  free(text);
  REFUSED(ac_tokenizer_decode, tokenizer, ac_tokenizer_decode(&text, &bytes, NULL, &id, 1, false));
  REFUSED(ac_tokenizer_decode, ids, ac_tokenizer_decode(&text, &bytes, t, NULL, 1, false));
  ac_tokenizer_free(t);
}

static void chat_texts(ac_tokenizer *t) {
  static const ac_chat_message message = {"user", "a", AC_TURN_DEFAULT};
  const ac_chat_template *found = ac_chat_template_at(0);
  ac_chat_source source;
  ac_chat_text text;
  ac_encoding encoding;
  bool *learned;
  HARMLESS(ac_chat_template_name, chat_template, !ac_chat_template_name(NULL));
  REFUSED(ac_chat_template_find, chat_template, ac_chat_template_find(NULL, "chatml"));
  NOT_MADE(ac_chat_template_find, name, const ac_chat_template, e, ac_chat_template_find(&e, NULL));
  REFUSED(ac_chat_template_recognise, chat_template, ac_chat_template_recognise(NULL, ""));
  NOT_MADE(ac_chat_template_recognise, jinja, const ac_chat_template, e,
           ac_chat_template_recognise(&e, NULL));
  REFUSED(ac_chat_source_read, source, ac_chat_source_read(NULL, "."));
  REFUSED(ac_chat_source_read, path, ac_chat_source_read(&source, NULL));
  NOTHING(ac_chat_source_free, source, ac_chat_source_free(NULL));
  REFUSED(ac_chat_render, chat_template, ac_chat_render(NULL, &message, 1, NULL, &text));
  REFUSED(ac_chat_render, messages, ac_chat_render(found, NULL, 1, NULL, &text));
  REFUSED(ac_chat_render, text, ac_chat_render(found, &message, 1, NULL, NULL));
  HARMLESS(ac_chat_render, desc, ac_chat_render(found, &message, 1, NULL, &text) == AC_OK);
  REFUSED(ac_chat_encode, tokenizer, ac_chat_encode(NULL, &text, &encoding, &learned));
  REFUSED(ac_chat_encode, text, ac_chat_encode(t, NULL, &encoding, &learned));
  REFUSED(ac_chat_encode, encoding, ac_chat_encode(t, &text, NULL, &learned));
  HARMLESS(ac_chat_encode, learned, ac_chat_encode(t, &text, &encoding, NULL) == AC_OK);
  ac_encoding_free(&encoding);
  ac_chat_text_free(&text);
  NOTHING(ac_chat_text_free, text, ac_chat_text_free(NULL));
}

static void chats(void) {
  static const char path[] = AC_TEST_HEADERS "/chat.h";
  ac_chat *chat;
  ac_chat_info info;
  ac_chat_document document;
  ac_chat_desc desc = {.context = 8};
  uint32_t id;
  assert_ok(ac_tokenizer_open(&desc.tokenizer, ACCRUE_TEST_VECTORS "/tokenizers/gpt2.json"));
  chat_texts(desc.tokenizer);
  REFUSED(ac_chat_open, chat, ac_chat_open(NULL, path, &desc));
  NOT_MADE(ac_chat_open, path, ac_chat, e, ac_chat_open(&e, NULL, &desc));
  NOT_MADE(ac_chat_open, desc, ac_chat, e, ac_chat_open(&e, path, NULL));
  assert_ok(ac_chat_open(&chat, path, &desc));
  NOTHING(ac_chat_get_info, chat, ac_chat_get_info(NULL, &info));
  NOTHING(ac_chat_get_info, info, ac_chat_get_info(chat, NULL));
  REFUSED(ac_chat_get_document, chat, ac_chat_get_document(NULL, 0, &document));
  REFUSED(ac_chat_get_document, document, ac_chat_get_document(chat, 0, NULL));
  REFUSED(ac_chat_get_tokens, chat, ac_chat_get_tokens(NULL, 0, 0, 1, &id, NULL));
  REFUSED(ac_chat_get_tokens, ids, ac_chat_get_tokens(chat, 0, 0, 1, NULL, NULL));
  HARMLESS(ac_chat_get_tokens, learned, ac_chat_get_tokens(chat, 0, 0, 1, &id, NULL) == AC_OK);
  REFUSED(ac_dataset_from_chat, dataset, ac_dataset_from_chat(NULL, chat, false));
  NOT_MADE(ac_dataset_from_chat, chat, ac_dataset, e, ac_dataset_from_chat(&e, NULL, false));
  ac_chat_free(chat);
  NOTHING(ac_chat_free, chat, ac_chat_free(NULL));
  ac_tokenizer_free(desc.tokenizer);
}

static void files(void) {
  ac_dataset *d;
  ac_tokens *t;
  const char *none = "there/is/none";
  REFUSED(ac_tokens_from_text, tokens, ac_tokens_from_text(NULL, none, 0));
  NOT_MADE(ac_tokens_from_text, path, ac_tokens, e, ac_tokens_from_text(&e, NULL, 0));
  REFUSED(ac_tokens_from_text_where, tokens, ac_tokens_from_text_where(NULL, none, 0, NULL, NULL));
  NOT_MADE(ac_tokens_from_text_where, path, ac_tokens, e,
           ac_tokens_from_text_where(&e, NULL, 0, NULL, NULL));
  REFUSED(ac_tokens_from_bytes, tokens, ac_tokens_from_bytes(NULL, none, 0, NULL, NULL));
  NOT_MADE(ac_tokens_from_bytes, path, ac_tokens, e, ac_tokens_from_bytes(&e, NULL, 0, NULL, NULL));
  ac_tokens *taken = NULL;
  HARMLESS(ac_tokens_from_bytes, takes,
           ac_tokens_from_bytes(&taken, none, 0, NULL, NULL) == AC_ERROR_IO && !taken);
  HARMLESS(ac_tokens_from_bytes, user,
           ac_tokens_from_bytes(&taken, none, 0, NULL, NULL) == AC_ERROR_IO && !taken);
  HARMLESS(ac_format_name, data, ac_format_name(NULL, 4, 4) == NULL);
  REFUSED(ac_tokens_from_uint16, tokens, ac_tokens_from_uint16(NULL, none, 9));
  NOT_MADE(ac_tokens_from_uint16, path, ac_tokens, e, ac_tokens_from_uint16(&e, NULL, 9));
  REFUSED(ac_tokens_from_uint32, tokens, ac_tokens_from_uint32(NULL, none, 9));
  NOT_MADE(ac_tokens_from_uint32, path, ac_tokens, e, ac_tokens_from_uint32(&e, NULL, 9));
  NOTHING(ac_tokens_free, tokens, ac_tokens_free(NULL));
  HARMLESS(ac_tokens_count, tokens, ac_tokens_count(NULL) == 0);
  HARMLESS(ac_tokens_from_text_where, takes,
           ac_tokens_from_text_where(&t, AC_TEST_HEADERS "/base.h", 0, NULL, NULL) == AC_OK);
  ac_tokens_free(t);
  HARMLESS(ac_tokens_from_text_where, user,
           ac_tokens_from_text_where(&t, AC_TEST_HEADERS "/base.h", 0, NULL, NULL) == AC_OK);
  ac_tokens_free(t);
  assert_ok(ac_tokens_from_text(&t, AC_TEST_HEADERS "/base.h", 0));
  REFUSED(ac_dataset_from_tokens, dataset, ac_dataset_from_tokens(NULL, t, 0, 9, 2, false));
  NOT_MADE(ac_dataset_from_tokens, tokens, ac_dataset, e,
           ac_dataset_from_tokens(&e, NULL, 0, 9, 2, false));
  REFUSED(ac_dataset_fold_tokens, train, ac_dataset_fold_tokens(NULL, &d, t, 1, 2, 2));
  NOT_MADE(ac_dataset_fold_tokens, validation, ac_dataset, e,
           ac_dataset_fold_tokens(&e, NULL, t, 1, 2, 2));
  NOT_MADE(ac_dataset_fold_tokens, tokens, ac_dataset, e,
           ac_dataset_fold_tokens(&e, &d, NULL, 1, 2, 2));
  ac_tokens_free(t);
  REFUSED(ac_dataset_from_idx, dataset, ac_dataset_from_idx(NULL, none, none, 0, -1));
  NOT_MADE(ac_dataset_from_idx, images_path, ac_dataset, e,
           ac_dataset_from_idx(&e, NULL, none, 0, -1));
  ac_dataset *unlabelled = NULL;
  HARMLESS(ac_dataset_from_idx, labels_path,
           ac_dataset_from_idx(&unlabelled, none, NULL, 0, -1) == AC_ERROR_IO && !unlabelled);
  REFUSED(ac_dataset_mnist_folder, train, ac_dataset_mnist_folder(NULL, &d, none));
  HARMLESS(ac_dataset_mnist_folder, validation,
           ac_dataset_mnist_folder(&d, NULL, none) == AC_ERROR_IO);
  NOT_MADE(ac_dataset_mnist_folder, folder, ac_dataset, e, ac_dataset_mnist_folder(&d, &e, NULL));
  REFUSED(ac_dataset_from_cifar10, dataset, ac_dataset_from_cifar10(NULL, none, 0, -1));
  NOT_MADE(ac_dataset_from_cifar10, path, ac_dataset, e, ac_dataset_from_cifar10(&e, NULL, 0, -1));
  REFUSED(ac_dataset_from_cifar, dataset, ac_dataset_from_cifar(NULL, none, 0, -1));
  NOT_MADE(ac_dataset_from_cifar, path, ac_dataset, e, ac_dataset_from_cifar(&e, NULL, 0, -1));
  REFUSED(ac_dataset_from_cifar100, dataset, ac_dataset_from_cifar100(NULL, none, true, 0, -1));
  NOT_MADE(ac_dataset_from_cifar100, path, ac_dataset, e,
           ac_dataset_from_cifar100(&e, NULL, true, 0, -1));
  REFUSED(ac_dataset_cifar10_folder, train, ac_dataset_cifar10_folder(NULL, &d, none));
  HARMLESS(ac_dataset_cifar10_folder, validation,
           ac_dataset_cifar10_folder(&d, NULL, none) == AC_ERROR_IO);
  NOT_MADE(ac_dataset_cifar10_folder, folder, ac_dataset, e,
           ac_dataset_cifar10_folder(&d, &e, NULL));
  REFUSED(ac_dataset_cifar100_folder, train, ac_dataset_cifar100_folder(NULL, &d, none, true));
  HARMLESS(ac_dataset_cifar100_folder, validation,
           ac_dataset_cifar100_folder(&d, NULL, none, true) == AC_ERROR_IO);
  NOT_MADE(ac_dataset_cifar100_folder, folder, ac_dataset, e,
           ac_dataset_cifar100_folder(&d, &e, NULL, true));
}

static ac_status write_zeros(void *user, int index, int64_t first, int64_t count, void *to) {
  (void)user, (void)index, (void)first;
  memset(to, 0, (size_t)count * sizeof(float));
  return AC_OK;
}

static void model_files(void) {
  char path[] = "/tmp/accrue-arguments-XXXXXX";
  const int made = mkstemp(path);
  assert_true(made >= 0);
  const ac_model_tensor tensor = {"w", AC_F32, 1, {2}};
  const ac_metadata metadata = {"key", "value"};
  REFUSED(ac_model_file_write, path,
          ac_model_file_write(NULL, &tensor, 1, &metadata, 1, write_zeros, NULL));
  REFUSED(ac_model_file_write, tensors,
          ac_model_file_write(path, NULL, 1, &metadata, 1, write_zeros, NULL));
  REFUSED(ac_model_file_write, metadata,
          ac_model_file_write(path, &tensor, 1, NULL, 1, write_zeros, NULL));
  REFUSED(ac_model_file_write, source,
          ac_model_file_write(path, &tensor, 1, &metadata, 1, NULL, NULL));
  HARMLESS(ac_model_file_write, tensors,
           ac_model_file_write(path, NULL, 0, NULL, 0, NULL, NULL) == AC_OK);
  HARMLESS(ac_model_file_write, user,
           ac_model_file_write(path, &tensor, 1, &metadata, 1, write_zeros, NULL) == AC_OK);
  ac_model_file *file;
  REFUSED(ac_model_file_open, file, ac_model_file_open(NULL, path));
  NOT_MADE(ac_model_file_open, path, ac_model_file, e, ac_model_file_open(&e, NULL));
  NOTHING(ac_model_file_close, file, ac_model_file_close(NULL));
  assert_ok(ac_model_file_open(&file, path));
  HARMLESS(ac_model_file_tensor_count, file, ac_model_file_tensor_count(NULL) == 0);
  HARMLESS(ac_model_file_tensor, file, !ac_model_file_tensor(NULL, 0));
  HARMLESS(ac_model_file_find, file, ac_model_file_find(NULL, "w") == -1);
  HARMLESS(ac_model_file_find, name, ac_model_file_find(file, NULL) == -1);
  HARMLESS(ac_model_file_metadata, file, !ac_model_file_metadata(NULL, "key"));
  HARMLESS(ac_model_file_metadata, key, !ac_model_file_metadata(file, NULL));
  REFUSED(ac_model_file_read, file, ac_model_file_read(NULL, 0, 0, 1, numbers));
  REFUSED(ac_model_file_read, data, ac_model_file_read(file, 0, 0, 1, NULL));
  HARMLESS(ac_model_file_read, data, ac_model_file_read(file, 0, 0, 0, NULL) == AC_OK);
  HARMLESS(ac_model_file_blocks, file, ac_model_file_blocks(NULL, 0) == AC_BLOCKS_NONE);
  REFUSED(ac_model_file_read_blocks, file, ac_model_file_read_blocks(NULL, 0, 0, 32, numbers));
  REFUSED(ac_model_file_read_blocks, data, ac_model_file_read_blocks(file, 0, 0, 32, NULL));
  ac_state_info info;
  REFUSED(ac_state_get_info, file, ac_state_get_info(NULL, &info));
  REFUSED(ac_state_get_info, info, ac_state_get_info(file, NULL));
  ac_model_file_close(file);
  remove(path);
}

static void gguf_files(void) {
  static const uint32_t number = 1;
  char path[] = "/tmp/accrue-arguments-XXXXXX";
  assert_true(mkstemp(path) >= 0);
  const ac_gguf_tensor tensor = {.name = "w", .rank = 1, .shape = {2}};
  const ac_gguf_value value = {"key", AC_GGUF_U32, false, 1, &number};
  ac_gguf_metadata *m;
  REFUSED(ac_gguf_write, path, ac_gguf_write(NULL, &tensor, 1, &value, 1, write_zeros, NULL));
  REFUSED(ac_gguf_write, tensors, ac_gguf_write(path, NULL, 1, &value, 1, write_zeros, NULL));
  REFUSED(ac_gguf_write, values, ac_gguf_write(path, &tensor, 1, NULL, 1, write_zeros, NULL));
  REFUSED(ac_gguf_write, source, ac_gguf_write(path, &tensor, 1, &value, 1, NULL, NULL));
  HARMLESS(ac_gguf_write, user,
           ac_gguf_write(path, &tensor, 1, &value, 1, write_zeros, NULL) == AC_OK);
  REFUSED(ac_gguf_metadata_open, metadata, ac_gguf_metadata_open(NULL, path));
  NOT_MADE(ac_gguf_metadata_open, path, ac_gguf_metadata, e, ac_gguf_metadata_open(&e, NULL));
  NOTHING(ac_gguf_metadata_close, metadata, ac_gguf_metadata_close(NULL));
  assert_ok(ac_gguf_metadata_open(&m, path));
  HARMLESS(ac_gguf_metadata_count, metadata, ac_gguf_metadata_count(NULL) == 0);
  HARMLESS(ac_gguf_metadata_at, metadata, !ac_gguf_metadata_at(NULL, 0));
  HARMLESS(ac_gguf_metadata_find, metadata, !ac_gguf_metadata_find(NULL, "key"));
  HARMLESS(ac_gguf_metadata_find, key, !ac_gguf_metadata_find(m, NULL));
  ac_gguf_metadata_close(m);
  remove(path);
}

static void exports(void) {
  static const float a[64], b[64];
  const char *none = "there/is/none", *path = "/tmp/accrue-arguments-export";
  const ac_export_adapter adapter = {"layer", 1, a, b};
  const ac_export_desc desc = {.storage = AC_EXPORT_AS_IT_IS};
  ac_model *m;
  char *json;
  REFUSED(ac_model_config_json, model, ac_model_config_json(&json, NULL, AC_F32));
  REFUSED(ac_model_export_files, model, ac_model_export_files(NULL, none));
  REFUSED(ac_model_export_folder, model, ac_model_export_folder(NULL, none, &desc));
  REFUSED(ac_model_export_gguf, model, ac_model_export_gguf(NULL, none, &desc));
  REFUSED(ac_adapter_export_gguf, model, ac_adapter_export_gguf(NULL, none, 1, &adapter, 1));
  char folder[] = "/tmp/accrue-arguments-XXXXXX";
  assert_non_null(mkdtemp(folder));
  assert_true(tiny_llm_write(folder, 1, true));
  assert_ok(ac_model_open(&m, folder));
  REFUSED(ac_model_config_json, json, ac_model_config_json(NULL, m, AC_F32));
  assert_refused(ac_model_config_json(&json, m, AC_I32), AC_ERROR_ARGUMENT, "not of dtype");
  REFUSED(ac_model_export_files, path, ac_model_export_files(m, NULL));
  REFUSED(ac_model_export_folder, path, ac_model_export_folder(m, NULL, &desc));
  REFUSED(ac_model_export_gguf, path, ac_model_export_gguf(m, NULL, &desc));
  ZEROED(ac_model_export_gguf, desc, ac_model_export_gguf(m, path, NULL),
         ac_model_export_gguf(m, path, &desc));
  HARMLESS(ac_model_export_folder, desc, ac_model_export_folder(m, folder, NULL) == AC_OK);
  REFUSED(ac_adapter_export_gguf, path, ac_adapter_export_gguf(m, NULL, 1, &adapter, 1));
  REFUSED(ac_adapter_export_gguf, adapters, ac_adapter_export_gguf(m, path, 1, NULL, 1));
  ac_model_free(m);
  remove(path);
  static const char *const files[] = {"config.json", "tokenizer.json", "tokenizer_config.json",
                                      "model.safetensors"};
  for (int i = 0; i < 4; i++) {
    char file[128];
    snprintf(file, sizeof file, "%s/%s", folder, files[i]);
    remove(file);
  }
  rmdir(folder);
}

static void states(void) {
  const char *none = "there/is/none";
  ac_progress progress;
  REFUSED(ac_trainer_get_progress, trainer, ac_trainer_get_progress(NULL, &progress));
  REFUSED(ac_trainer_get_progress, progress, ac_trainer_get_progress(trainer, NULL));
  ac_batch_stage stages[AC_MAX_BATCH_STAGES];
  int count;
  REFUSED(ac_trainer_get_growth, trainer, ac_trainer_get_growth(NULL, stages, &count));
  REFUSED(ac_trainer_get_growth, stages, ac_trainer_get_growth(trainer, NULL, &count));
  REFUSED(ac_trainer_get_growth, count, ac_trainer_get_growth(trainer, stages, NULL));
  HARMLESS(ac_trainer_state_count, trainer, ac_trainer_state_count(NULL) == 0);
  REFUSED(ac_trainer_get_state, trainer, ac_trainer_get_state(NULL, 0, 0, 0, 1, numbers));
  REFUSED(ac_trainer_get_state, data, ac_trainer_get_state(trainer, 0, 0, 0, 1, NULL));
  HARMLESS(ac_trainer_get_state, data, ac_trainer_get_state(trainer, 0, 0, 0, 0, NULL) == AC_OK);
  REFUSED(ac_trainer_set_state, trainer, ac_trainer_set_state(NULL, 0, 0, 0, 1, numbers));
  REFUSED(ac_trainer_set_state, data, ac_trainer_set_state(trainer, 0, 0, 0, 1, NULL));
  HARMLESS(ac_trainer_set_state, data, ac_trainer_set_state(trainer, 0, 0, 0, 0, NULL) == AC_OK);
  REFUSED(ac_trainer_set_updates, trainer, ac_trainer_set_updates(NULL, 1));
  REFUSED(ac_trainer_use_average, trainer, ac_trainer_use_average(NULL, true));
  ac_group_settings group = {0};
  REFUSED(ac_trainer_set_group, trainer, ac_trainer_set_group(NULL, 0, &group));
  REFUSED(ac_trainer_set_group, settings, ac_trainer_set_group(trainer, 0, NULL));
  REFUSED(ac_trainer_get_group, trainer, ac_trainer_get_group(NULL, 0, &group));
  REFUSED(ac_trainer_get_group, settings, ac_trainer_get_group(trainer, 0, NULL));
  REFUSED(ac_trainer_save_part, trainer, ac_trainer_save_part(NULL, none, "*", NULL, 0));
  REFUSED(ac_trainer_save_part, path, ac_trainer_save_part(trainer, NULL, "*", NULL, 0));
  REFUSED(ac_trainer_save_part, pattern, ac_trainer_save_part(trainer, none, NULL, NULL, 0));
  REFUSED(ac_trainer_save_part, metadata, ac_trainer_save_part(trainer, none, "*", NULL, 1));
  REFUSED(ac_trainer_load_part, trainer, ac_trainer_load_part(NULL, none, "*", NULL));
  REFUSED(ac_trainer_load_part, path, ac_trainer_load_part(trainer, NULL, "*", NULL));
  REFUSED(ac_trainer_load_part, pattern, ac_trainer_load_part(trainer, none, NULL, NULL));
  HARMLESS(ac_trainer_load_part, optional_prefix,
           ac_trainer_load_part(trainer, none, "*", NULL) == AC_ERROR_IO);
  REFUSED(ac_trainer_save_state, trainer, ac_trainer_save_state(NULL, none, NULL, 0));
  REFUSED(ac_trainer_save_state, path, ac_trainer_save_state(trainer, NULL, NULL, 0));
  REFUSED(ac_trainer_save_state, metadata, ac_trainer_save_state(trainer, none, NULL, 1));
  REFUSED(ac_trainer_load_state, trainer, ac_trainer_load_state(NULL, none));
  REFUSED(ac_trainer_load_state, path, ac_trainer_load_state(trainer, NULL));
}

static void trainer_rates(void) {
  HARMLESS(ac_schedule_rate, schedule,
           ac_schedule_rate(NULL, 0) == ac_schedule_rate(&(ac_schedule){0}, 0));
  HARMLESS(ac_schedule_momentum, schedule, ac_schedule_momentum(NULL, 0) == -1);
  HARMLESS(ac_trainer_rate, trainer, ac_trainer_rate(NULL) == 0);
  ac_rate_point points[10];
  ac_rate_test tested;
  const ac_rate_test_desc tests = {0};
  REFUSED(ac_trainer_test_rates, trainer, ac_trainer_test_rates(NULL, &tests, points, &tested));
  ZEROED(ac_trainer_test_rates, desc, ac_trainer_test_rates(trainer, NULL, points, &tested),
         ac_trainer_test_rates(trainer, &tests, points, &tested));
  REFUSED(ac_trainer_test_rates, points, ac_trainer_test_rates(trainer, &tests, NULL, &tested));
  REFUSED(ac_trainer_test_rates, result, ac_trainer_test_rates(trainer, &tests, points, NULL));
  ac_noise_scale noise;
  REFUSED(ac_trainer_noise_scale, trainer, ac_trainer_noise_scale(NULL, &noise));
  REFUSED(ac_trainer_noise_scale, result, ac_trainer_noise_scale(trainer, NULL));
  ac_layer_report layer;
  REFUSED(ac_trainer_layer, trainer, ac_trainer_layer(NULL, 0, &layer));
  REFUSED(ac_trainer_layer, result, ac_trainer_layer(trainer, 0, NULL));
  REFUSED(ac_trainer_noise_scale_of, trainer, ac_trainer_noise_scale_of(NULL, 0, &noise));
  REFUSED(ac_trainer_noise_scale_of, result, ac_trainer_noise_scale_of(trainer, 0, NULL));
  REFUSED(ac_trainer_set_batch, trainer, ac_trainer_set_batch(NULL, 1));
  REFUSED(ac_trainer_begin_share, trainer, ac_trainer_begin_share(NULL, 0));
  ac_rank_report report;
  REFUSED(ac_trainer_rank_report, trainer, ac_trainer_rank_report(NULL, 0, &report));
  REFUSED(ac_trainer_rank_report, result, ac_trainer_rank_report(trainer, 0, NULL));
  HARMLESS(ac_trainer_batch, trainer, ac_trainer_batch(NULL) == 0);
  REFUSED(ac_trainer_observe_validation, trainer, ac_trainer_observe_validation(NULL, 1));
}

static void trainers(void) {
  const ac_parameter_group group = {.patterns = "*"};
  HARMLESS(ac_parameter_group_matches, group, !ac_parameter_group_matches(NULL, "w"));
  HARMLESS(ac_parameter_group_matches, name, !ac_parameter_group_matches(&group, NULL));
  REFUSED(ac_trainer_create, trainer, ac_trainer_create(NULL, plan, NULL));
  NOT_MADE(ac_trainer_create, plan, ac_trainer, e, ac_trainer_create(&e, NULL, NULL));
  ac_trainer *t;
  HARMLESS(ac_trainer_create, desc, ac_trainer_create(&t, plan, NULL) == AC_OK);
  ac_trainer_free(t);
  NOTHING(ac_trainer_free, trainer, ac_trainer_free(NULL));
  NOTHING(ac_trainer_discard, trainer, ac_trainer_discard(NULL));
}

static void trainer_windows(void) {
  const double one = 1;
  REFUSED(ac_trainer_accumulate, trainer, ac_trainer_accumulate(NULL, 2, feeds, 2));
  REFUSED(ac_trainer_accumulate, feeds, ac_trainer_accumulate(trainer, 2, NULL, 2));
  REFUSED(ac_trainer_begin_window, trainer, ac_trainer_begin_window(NULL, 2, &one, 1));
  REFUSED(ac_trainer_begin_window, weights, ac_trainer_begin_window(trainer, 2, NULL, 1));
  REFUSED(ac_trainer_update, trainer, ac_trainer_update(NULL, NULL));
  assert_ok(ac_trainer_accumulate(trainer, 2, feeds, 2));
  int64_t first, count;
  REFUSED(ac_trainer_gradient_part, trainer, ac_trainer_gradient_part(NULL, 0, &first, &count));
  REFUSED(ac_trainer_gradient_part, first, ac_trainer_gradient_part(trainer, 0, NULL, &count));
  REFUSED(ac_trainer_gradient_part, count, ac_trainer_gradient_part(trainer, 0, &first, NULL));
  REFUSED(ac_trainer_get_gradient, trainer, ac_trainer_get_gradient(NULL, 0, 0, 1, numbers));
  REFUSED(ac_trainer_get_gradient, data, ac_trainer_get_gradient(trainer, 0, 0, 1, NULL));
  HARMLESS(ac_trainer_get_gradient, data, ac_trainer_get_gradient(trainer, 0, 0, 0, NULL) == AC_OK);
  REFUSED(ac_trainer_set_gradient, trainer, ac_trainer_set_gradient(NULL, 0, 0, 1, numbers));
  REFUSED(ac_trainer_set_gradient, data, ac_trainer_set_gradient(trainer, 0, 0, 1, NULL));
  HARMLESS(ac_trainer_set_gradient, data, ac_trainer_set_gradient(trainer, 0, 0, 0, NULL) == AC_OK);
  REFUSED(ac_trainer_get_mean_gradient, trainer,
          ac_trainer_get_mean_gradient(NULL, 0, 0, 1, numbers));
  REFUSED(ac_trainer_get_mean_gradient, data, ac_trainer_get_mean_gradient(trainer, 0, 0, 1, NULL));
  HARMLESS(ac_trainer_get_mean_gradient, data,
           ac_trainer_get_mean_gradient(trainer, 0, 0, 0, NULL) == AC_ERROR_STATE);
  HARMLESS(ac_trainer_gradient_norm, trainer, ac_trainer_gradient_norm(NULL, 0) == 0);
  HARMLESS(ac_trainer_update, result, ac_trainer_update(trainer, NULL) == AC_OK);
}

static void trainer_numerics(void) {
  ac_numerics numerics;
  REFUSED(ac_trainer_locate_nonfinite, trainer,
          ac_trainer_locate_nonfinite(NULL, 2, feeds, 2, text, sizeof text));
  REFUSED(ac_trainer_locate_nonfinite, feeds,
          ac_trainer_locate_nonfinite(trainer, 2, NULL, 2, text, sizeof text));
  REFUSED(ac_trainer_locate_nonfinite, text,
          ac_trainer_locate_nonfinite(trainer, 2, feeds, 2, NULL, sizeof text));
  HARMLESS(ac_trainer_numerics_count, trainer, ac_trainer_numerics_count(NULL) == 0);
  REFUSED(ac_trainer_numerics, trainer, ac_trainer_numerics(NULL, 0, &numerics));
  REFUSED(ac_trainer_numerics, result, ac_trainer_numerics(trainer, 0, NULL));
}

static void trainer_parameters(void) {
  ac_tensor_info info;
  HARMLESS(ac_trainer_parameter_count, trainer, ac_trainer_parameter_count(NULL) == 0);
  REFUSED(ac_trainer_parameter_info, trainer, ac_trainer_parameter_info(NULL, 0, &info));
  REFUSED(ac_trainer_parameter_info, info, ac_trainer_parameter_info(trainer, 0, NULL));
  HARMLESS(ac_trainer_find_parameter, trainer, ac_trainer_find_parameter(NULL, "w") == -1);
  HARMLESS(ac_trainer_find_parameter, name, ac_trainer_find_parameter(trainer, NULL) == -1);
  REFUSED(ac_trainer_get_parameter, trainer, ac_trainer_get_parameter(NULL, 0, 0, 1, numbers));
  REFUSED(ac_trainer_get_parameter, data, ac_trainer_get_parameter(trainer, 0, 0, 1, NULL));
  REFUSED(ac_trainer_set_input, trainer, ac_trainer_set_input(NULL, "x", numbers));
  REFUSED(ac_trainer_set_input, name, ac_trainer_set_input(trainer, NULL, numbers));
  REFUSED(ac_trainer_set_input, data, ac_trainer_set_input(trainer, "x", NULL));
  REFUSED(ac_trainer_set_parameter, trainer, ac_trainer_set_parameter(NULL, 0, 0, 1, numbers));
  REFUSED(ac_trainer_set_parameter, data, ac_trainer_set_parameter(trainer, 0, 0, 1, NULL));
  HARMLESS(ac_trainer_get_parameter, data,
           ac_trainer_get_parameter(trainer, 0, 0, 0, NULL) == AC_OK);
  HARMLESS(ac_trainer_set_parameter, data,
           ac_trainer_set_parameter(trainer, 0, 0, 0, NULL) == AC_OK);
}

static void trainer_files(void) {
  REFUSED(ac_trainer_save, trainer, ac_trainer_save(NULL, "there/is/none", NULL, 0));
  REFUSED(ac_trainer_save, path, ac_trainer_save(trainer, NULL, NULL, 0));
  REFUSED(ac_trainer_save, metadata, ac_trainer_save(trainer, "there/is/none", NULL, 1));
  REFUSED(ac_trainer_load, trainer, ac_trainer_load(NULL, "there/is/none", NULL));
  REFUSED(ac_trainer_load, path, ac_trainer_load(trainer, NULL, NULL));
  HARMLESS(ac_trainer_load, optional_prefix,
           ac_trainer_load(trainer, "there/is/none", NULL) == AC_ERROR_IO);
}

static void trainer_results(void) {
  float h[6];
  REFUSED(ac_trainer_predict, trainer, ac_trainer_predict(NULL, "hidden", 2, feeds, 2, 6, h));
  REFUSED(ac_trainer_predict, name, ac_trainer_predict(trainer, NULL, 2, feeds, 2, 6, h));
  REFUSED(ac_trainer_predict, feeds, ac_trainer_predict(trainer, "hidden", 2, NULL, 2, 6, h));
  REFUSED(ac_trainer_predict, data, ac_trainer_predict(trainer, "hidden", 2, feeds, 2, 6, NULL));
  REFUSED(ac_session_predict, session, ac_session_predict(NULL, "hidden", 2, feeds, 2, 6, h));
  REFUSED(ac_session_predict, name, ac_session_predict(session, NULL, 2, feeds, 2, 6, h));
  REFUSED(ac_session_predict, feeds, ac_session_predict(session, "hidden", 2, NULL, 2, 6, h));
  REFUSED(ac_session_predict, data, ac_session_predict(session, "hidden", 2, feeds, 2, 6, NULL));
  REFUSED(ac_trainer_watch_tensor, trainer,
          ac_trainer_watch_tensor(NULL, "hidden", ac_keep_tensor, NULL));
  REFUSED(ac_trainer_watch_tensor, name,
          ac_trainer_watch_tensor(trainer, NULL, ac_keep_tensor, NULL));
  HARMLESS(ac_trainer_watch_tensor, user,
           ac_trainer_watch_tensor(trainer, "hidden", ac_keep_tensor, NULL) == AC_OK);
  HARMLESS(ac_trainer_watch_tensor, callback,
           ac_trainer_watch_tensor(trainer, "hidden", NULL, NULL) == AC_OK);
  REFUSED(ac_trainer_copy_weights, to, ac_trainer_copy_weights(NULL, "", trainer, "", 1));
  REFUSED(ac_trainer_copy_weights, from, ac_trainer_copy_weights(trainer, "", NULL, "", 1));
  HARMLESS(ac_trainer_copy_weights, to_prefix,
           ac_trainer_copy_weights(trainer, NULL, trainer, "", 1) == AC_OK);
  HARMLESS(ac_trainer_copy_weights, from_prefix,
           ac_trainer_copy_weights(trainer, "", trainer, NULL, 1) == AC_OK);
  NOT_MADE(ac_session_create_shared, plan, ac_session, made,
           ac_session_create_shared(&made, NULL, 0, trainer));
  REFUSED(ac_session_create_shared, session,
          ac_session_create_shared(NULL, predicting, 0, trainer));
  ac_session *alone;
  HARMLESS(ac_session_create_shared, trainer,
           ac_session_create_shared(&alone, predicting, 0, NULL) == AC_OK);
  ac_session_free(alone);
  const ac_tensor_view view = {.count = 1, .elements = 1, .data = h};
  HARMLESS(ac_keep_tensor, buffer, (ac_keep_tensor(NULL, &view), true));
  HARMLESS(ac_keep_tensor, view, (ac_keep_tensor(h, NULL), true));
}

static void trainer_evaluations(void) {
  ac_evaluation evaluation;
  REFUSED(ac_trainer_evaluate, trainer, ac_trainer_evaluate(NULL, dataset, 0, &evaluation));
  REFUSED(ac_trainer_evaluate, dataset, ac_trainer_evaluate(trainer, NULL, 0, &evaluation));
  REFUSED(ac_trainer_evaluate, result, ac_trainer_evaluate(trainer, dataset, 0, NULL));
  bool stopped;
  REFUSED(ac_trainer_evaluate_until, trainer,
          ac_trainer_evaluate_until(NULL, dataset, 0, NULL, NULL, &evaluation, &stopped));
  REFUSED(ac_trainer_evaluate_until, dataset,
          ac_trainer_evaluate_until(trainer, NULL, 0, NULL, NULL, &evaluation, &stopped));
  REFUSED(ac_trainer_evaluate_until, result,
          ac_trainer_evaluate_until(trainer, dataset, 0, NULL, NULL, NULL, &stopped));
  REFUSED(ac_trainer_evaluate_until, stopped,
          ac_trainer_evaluate_until(trainer, dataset, 0, NULL, NULL, &evaluation, NULL));
  HARMLESS(ac_trainer_evaluate_until, stop,
           ac_trainer_evaluate_until(trainer, dataset, 0, NULL, NULL, &evaluation, &stopped) ==
                   AC_OK &&
               !stopped);
  HARMLESS(ac_trainer_evaluate_until, user,
           ac_trainer_evaluate_until(trainer, dataset, 0, NULL, NULL, &evaluation, &stopped) ==
               AC_OK);
}

static void fits(void) {
  REFUSED(ac_fit, trainer, ac_fit(NULL, &(ac_fit_desc){.train = dataset, .steps = 1}, NULL));
  int64_t windows;
  REFUSED(ac_fit_windows, desc, ac_fit_windows(NULL, 1, &windows));
  REFUSED(ac_fit_windows, windows,
          ac_fit_windows(&(ac_fit_desc){.train = dataset, .steps = 1}, 1, NULL));
  ZEROED(ac_fit, desc, ac_fit(trainer, NULL, NULL), ac_fit(trainer, &(ac_fit_desc){0}, NULL));
  HARMLESS(ac_fit, result,
           ac_fit(trainer, &(ac_fit_desc){.train = dataset, .steps = 1}, NULL) == AC_OK);
}

static void sessions(void) {
  ac_evaluation evaluation;
  REFUSED(ac_session_create, session, ac_session_create(NULL, predicting, 0));
  NOT_MADE(ac_session_create, plan, ac_session, e, ac_session_create(&e, NULL, 0));
  NOTHING(ac_session_free, session, ac_session_free(NULL));
  REFUSED(ac_session_load, session, ac_session_load(NULL, "there/is/none", NULL));
  REFUSED(ac_session_load, path, ac_session_load(session, NULL, NULL));
  REFUSED(ac_session_create_with, session, ac_session_create_with(NULL, predicting, 0, session));
  NOT_MADE(ac_session_create_with, plan, ac_session, e,
           ac_session_create_with(&e, NULL, 0, session));
  NOT_MADE(ac_session_create_with, other, ac_session, e,
           ac_session_create_with(&e, predicting, 0, NULL));
  HARMLESS(ac_session_load, optional_prefix,
           ac_session_load(session, "there/is/none", NULL) == AC_ERROR_IO);
  REFUSED(ac_session_load_part, session, ac_session_load_part(NULL, "there/is/none", "*", NULL));
  REFUSED(ac_session_load_part, path, ac_session_load_part(session, NULL, "*", NULL));
  REFUSED(ac_session_load_part, pattern,
          ac_session_load_part(session, "there/is/none", NULL, NULL));
  HARMLESS(ac_session_load_part, optional_prefix,
           ac_session_load_part(session, "there/is/none", "*", NULL) == AC_ERROR_IO);
  REFUSED(ac_session_set_input, session, ac_session_set_input(NULL, "x", numbers));
  REFUSED(ac_session_set_input, name, ac_session_set_input(session, NULL, numbers));
  REFUSED(ac_session_set_input, data, ac_session_set_input(session, "x", NULL));
  REFUSED(ac_session_set_parameter, session, ac_session_set_parameter(NULL, "w", 0, 1, numbers));
  REFUSED(ac_session_set_parameter, name, ac_session_set_parameter(session, NULL, 0, 1, numbers));
  REFUSED(ac_session_set_parameter, data, ac_session_set_parameter(session, "w", 0, 1, NULL));
  HARMLESS(ac_session_set_parameter, data,
           ac_session_set_parameter(session, "w", 0, 0, NULL) == AC_OK);
  REFUSED(ac_session_get_parameter, session, ac_session_get_parameter(NULL, "w", 0, 1, numbers));
  REFUSED(ac_session_get_parameter, name, ac_session_get_parameter(session, NULL, 0, 1, numbers));
  REFUSED(ac_session_get_parameter, data, ac_session_get_parameter(session, "w", 0, 1, NULL));
  HARMLESS(ac_session_get_parameter, data,
           ac_session_get_parameter(session, "w", 0, 0, NULL) == AC_OK);
  REFUSED(ac_session_run, session, ac_session_run(NULL, 2, feeds, 2));
  REFUSED(ac_session_run, feeds, ac_session_run(session, 2, NULL, 2));
  REFUSED(ac_session_output, session, ac_session_output(NULL, "hidden", 0, 1, numbers));
  REFUSED(ac_session_output, name, ac_session_output(session, NULL, 0, 1, numbers));
  REFUSED(ac_session_output, data, ac_session_output(session, "hidden", 0, 1, NULL));
  HARMLESS(ac_session_output, data, ac_session_output(session, "hidden", 0, 0, NULL) == AC_OK);
  REFUSED(ac_session_evaluate, session, ac_session_evaluate(NULL, dataset, 0, &evaluation));
  REFUSED(ac_session_evaluate, dataset, ac_session_evaluate(evaluator, NULL, 0, &evaluation));
  REFUSED(ac_session_evaluate, result, ac_session_evaluate(evaluator, dataset, 0, NULL));
  bool stopped;
  REFUSED(ac_session_evaluate_until, session,
          ac_session_evaluate_until(NULL, dataset, 0, NULL, NULL, &evaluation, &stopped));
  REFUSED(ac_session_evaluate_until, dataset,
          ac_session_evaluate_until(evaluator, NULL, 0, NULL, NULL, &evaluation, &stopped));
  REFUSED(ac_session_evaluate_until, result,
          ac_session_evaluate_until(evaluator, dataset, 0, NULL, NULL, NULL, &stopped));
  REFUSED(ac_session_evaluate_until, stopped,
          ac_session_evaluate_until(evaluator, dataset, 0, NULL, NULL, &evaluation, NULL));
  HARMLESS(ac_session_evaluate_until, stop,
           ac_session_evaluate_until(evaluator, dataset, 0, NULL, NULL, &evaluation, &stopped) ==
                   AC_OK &&
               !stopped);
  HARMLESS(ac_session_evaluate_until, user,
           ac_session_evaluate_until(evaluator, dataset, 0, NULL, NULL, &evaluation, &stopped) ==
               AC_OK);
}

static ac_status fail_to_run(void *user, int64_t runs) {
  (void)user, (void)runs;
  return ac_fail(AC_ERROR_STATE, "it does not run");
}

static void benches(void) {
  ac_bench_timing timing, visit = {.median = 1};
  ac_bench_roofs roofs = {.launch = 1};
  ac_bench_op op;
  const ac_bench_desc zero = {0};
  REFUSED(ac_bench_measure, timing, ac_bench_measure(NULL, NULL, fail_to_run, NULL));
  ZEROED(ac_bench_measure, desc, ac_bench_measure(&timing, NULL, fail_to_run, NULL),
         ac_bench_measure(&timing, &zero, fail_to_run, NULL));
  REFUSED(ac_bench_measure, run, ac_bench_measure(&timing, NULL, NULL, NULL));
  HARMLESS(ac_bench_measure, user,
           ac_bench_measure(&timing, &zero, fail_to_run, NULL) == AC_ERROR_STATE);
  REFUSED(ac_bench_combine, timing, ac_bench_combine(NULL, NULL, &visit, 1));
  ZEROED(ac_bench_combine, desc, ac_bench_combine(&timing, NULL, &visit, 1),
         ac_bench_combine(&timing, &zero, &visit, 1));
  REFUSED(ac_bench_combine, visits, ac_bench_combine(&timing, NULL, NULL, 1));
  REFUSED(ac_bench_measure_roofs, roofs, ac_bench_measure_roofs(NULL, device, NULL));
  REFUSED(ac_bench_measure_roofs, device, ac_bench_measure_roofs(&roofs, NULL, NULL));
  ZEROED(ac_bench_measure_roofs, desc, ac_bench_measure_roofs(&roofs, device, NULL),
         ac_bench_measure_roofs(&roofs, device, &zero));
  REFUSED(ac_bench_measure_copy, roofs, ac_bench_measure_copy(NULL, device, NULL));
  REFUSED(ac_bench_measure_copy, device, ac_bench_measure_copy(&roofs, NULL, NULL));
  ZEROED(ac_bench_measure_copy, desc, ac_bench_measure_copy(&roofs, device, NULL),
         ac_bench_measure_copy(&roofs, device, &zero));
  ac_bench_bound bound;
  HARMLESS(ac_bench_limit, roofs, ac_bench_limit(NULL, AC_PRECISION_F32, 1, 1, &bound) == 0);
  HARMLESS(ac_bench_limit, bound, ac_bench_limit(&roofs, AC_PRECISION_F32, 1, 1, NULL) == 0);
  REFUSED(ac_bench_create, bench, ac_bench_create(NULL, device, NULL));
  NOT_MADE(ac_bench_create, device, ac_bench, e, ac_bench_create(&e, NULL, NULL));
  ac_bench *b;
  HARMLESS(ac_bench_create, desc, ac_bench_create(&b, device, NULL) == AC_OK);
  ac_bench_free(b);
  NOTHING(ac_bench_free, bench, ac_bench_free(NULL));
  REFUSED(ac_bench_add_plan, bench, ac_bench_add_plan(NULL, plan));
  REFUSED(ac_bench_add_plan, plan, ac_bench_add_plan(bench, NULL));
  REFUSED(ac_bench_add_window, bench, ac_bench_add_window(NULL, plan));
  REFUSED(ac_bench_add_window, plan, ac_bench_add_window(bench, NULL));
  REFUSED(ac_bench_add_others, bench, ac_bench_add_others(NULL, AC_PRECISION_F32));
  REFUSED(ac_bench_add_product, bench, ac_bench_add_product(NULL, AC_PRECISION_F32, 1, 1, 1));
  HARMLESS(ac_bench_count, bench, ac_bench_count(NULL) == 0);
  REFUSED(ac_bench_get, bench, ac_bench_get(NULL, 0, &op));
  REFUSED(ac_bench_get, op, ac_bench_get(bench, 0, NULL));
  REFUSED(ac_bench_time, bench, ac_bench_time(NULL, 0, &timing));
  REFUSED(ac_bench_time, timing, ac_bench_time(bench, 0, NULL));
}

static void ranks_of_processes(void) {
  ac_ranks *r, *list[1];
  const ac_ranks_fact fact = {"a", "b"};
  REFUSED(ac_ranks_open, ranks, ac_ranks_open(NULL, NULL));
  HARMLESS(ac_ranks_open, desc, ac_ranks_open(&r, NULL) == AC_OK);
  REFUSED(ac_ranks_create_threads, list, ac_ranks_create_threads(NULL, 1, NULL));
  HARMLESS(ac_ranks_create_threads, desc, ac_ranks_create_threads(list, 1, NULL) == AC_OK);
  ac_ranks_close(list[0]);
  HARMLESS(ac_ranks_launched, rank, ac_ranks_launched(NULL) == 1);
  HARMLESS(ac_ranks_rank, ranks, ac_ranks_rank(NULL) == 0);
  HARMLESS(ac_ranks_size, ranks, ac_ranks_size(NULL) == 0);
  HARMLESS(ac_ranks_local_rank, ranks, ac_ranks_local_rank(NULL) == 0);
  HARMLESS(ac_ranks_local_size, ranks, ac_ranks_local_size(NULL) == 0);
  HARMLESS(ac_ranks_engine, ranks, !strcmp(ac_ranks_engine(NULL), ""));
  HARMLESS(ac_ranks_threads, ranks, ac_ranks_threads(NULL) == 0);
  REFUSED(ac_ranks_agree, ranks, ac_ranks_agree(NULL, &fact, 1));
  REFUSED(ac_ranks_agree, facts, ac_ranks_agree(r, NULL, 1));
  HARMLESS(ac_ranks_agree, facts, ac_ranks_agree(r, NULL, 0) == AC_OK);
  REFUSED(ac_ranks_tell, ranks, ac_ranks_tell(NULL, list, 1));
  REFUSED(ac_ranks_tell, bytes, ac_ranks_tell(r, NULL, 1));
  ac_network network;
  ac_rank_price price;
  REFUSED(ac_ranks_measure, ranks, ac_ranks_measure(NULL, &network));
  REFUSED(ac_ranks_measure, network, ac_ranks_measure(r, NULL));
  network = (ac_network){1e9, 1e-5};
  REFUSED(ac_plan_price_ranks, plan, ac_plan_price_ranks(NULL, &network, &price));
  REFUSED(ac_plan_price_ranks, network, ac_plan_price_ranks(plan, NULL, &price));
  REFUSED(ac_plan_price_ranks, price, ac_plan_price_ranks(plan, &network, NULL));
  REFUSED(ac_ranks_barrier, ranks, ac_ranks_barrier(NULL));
  NOTHING(ac_ranks_begin_absence, ranks, ac_ranks_begin_absence(NULL));
  NOTHING(ac_ranks_end_absence, ranks, ac_ranks_end_absence(NULL));
  NOTHING(ac_ranks_abort, ranks, ac_ranks_abort(NULL, "why"));
  NOTHING(ac_ranks_abort, why, ac_ranks_abort(r, NULL));
  NOTHING(ac_ranks_close, ranks, ac_ranks_close(NULL));
  ac_ranks_close(r);
}

/* ---- builders -------------------------------------------------------------------------------- */

/* Fails the graph, by a sentence that says what is missing. */
#define STICKS(function, parameter, sentence, call)              \
  do {                                                           \
    make_graph();                                                \
    enter(#function, #parameter, #call);                         \
    call;                                                        \
    assert_int_equal(ac_graph_status(graph), AC_ERROR_ARGUMENT); \
    assert_contains(ac_graph_message(graph), sentence);          \
  } while (0)

/* Operands that may be absent, and descriptions. */
#define BUILDS(function, parameter, call)            \
  do {                                               \
    make_graph();                                    \
    enter(#function, #parameter, #call);             \
    assert_non_null(call);                           \
    assert_int_equal(ac_graph_status(graph), AC_OK); \
  } while (0)

/* An only operand tells no graph: NULL comes of an earlier failure, and leads to NULL. */
#define PASSES(function, parameter, call) HARMLESS(function, parameter, !(call))

static ac_tensor *vector(const char *name, int64_t count) {
  return ac_parameter(graph, name, AC_SHAPE(count), NULL);
}
static ac_tensor *frozen(const char *name) {
  const ac_parameter_desc desc = {.frozen = true};
  return ac_parameter(graph, name, AC_SHAPE(FEATURES), &desc);
}
static ac_tensor *bag(void) {
  return ac_input(graph, "bag", AC_I32, AC_SHAPE(AC_BATCH, 2));
}
static ac_tensor *sequence(void) {
  return ac_input(graph, "sequence", AC_F32, AC_SHAPE(AC_BATCH, 3, 2));
}
static ac_tensor *lengths_of(void) {
  return ac_input(graph, "lengths of sequences", AC_I32, AC_SHAPE(AC_BATCH));
}
/* Of one layer with two units. */
static const ac_recurrent_weights *recurrent(int gates) {
  static ac_recurrent_weights w;
  w.input = ac_parameter(graph, "weight_ih", AC_SHAPE(2 * gates, 2), NULL);
  w.hidden = ac_parameter(graph, "weight_hh", AC_SHAPE(2 * gates, 2), NULL);
  return &w;
}
static ac_tensor *heads_of(const char *name) {
  return ac_input(graph, name, AC_F32, AC_SHAPE(AC_BATCH, 5, 2, 3));
}
static ac_tensor *image(void) {
  return ac_input(graph, "image", AC_F32, AC_SHAPE(AC_BATCH, 2, 3, 3));
}
static ac_tensor *heads(void) {
  return ac_input(graph, "queries", AC_F32, AC_SHAPE(AC_BATCH, 3, 2, 4));
}
static ac_tensor *kernel(void) {
  return ac_parameter(graph, "kernel", AC_SHAPE(2, 2, 3, 3), ZEROS);
}
static ac_tensor *row(void) {
  return ac_reshape(image(), AC_SHAPE(AC_BATCH, 2, 9));
}
static ac_tensor *taps(void) {
  return ac_reshape(kernel(), AC_SHAPE(2, 2, 9));
}
static ac_tensor *block(void) {
  return ac_reshape(image(), AC_SHAPE(AC_BATCH, 2, 1, 3, 3));
}
static ac_tensor *cube(void) {
  return ac_reshape(kernel(), AC_SHAPE(2, 2, 1, 3, 3));
}

static void leaves(void) {
  STICKS(ac_input, name, "input: it has no name",
         ac_input(graph, NULL, AC_F32, AC_SHAPE(AC_BATCH)));
  STICKS(ac_input, shape, "input: the shape of \"y\"", ac_input(graph, "y", AC_F32, 1, NULL));
  STICKS(ac_constant, name, "constant: it has no name",
         ac_constant(graph, NULL, AC_F32, AC_SHAPE(1), (const float[]){1}));
  STICKS(ac_constant, shape, "constant: the shape of \"y\"",
         ac_constant(graph, "y", AC_F32, 1, NULL, (const float[]){1}));
  STICKS(ac_constant, data, "constant: \"y\" has no data",
         ac_constant(graph, "y", AC_F32, AC_SHAPE(1), NULL));
  STICKS(ac_parameter, name, "parameter: it has no name",
         ac_parameter(graph, NULL, AC_SHAPE(1), NULL));
  STICKS(ac_parameter, shape, "parameter: the shape of \"y\"",
         ac_parameter(graph, "y", 1, NULL, NULL));
  BUILDS(ac_parameter, desc, ac_parameter(graph, "y", AC_SHAPE(1), NULL));
  STICKS(ac_reshape, shape, "reshape: the shape's rank", ac_reshape(x, 2, NULL));
  STICKS(ac_graph_set_loss, loss, "set_loss: the loss", ac_graph_set_loss(graph, NULL));
  STICKS(ac_graph_add_metric, name, "add_metric: metric \"\": it has no name",
         ac_graph_add_metric(graph, NULL, ac_cross_entropy(hidden, labels, NULL, NULL), 0));
  STICKS(ac_graph_add_metric, sums, "add_metric: metric \"top\": it is not a result",
         ac_graph_add_metric(graph, "top", NULL, AC_METRIC_MEAN));
  STICKS(ac_top_k_accuracy, logits, "top_k_accuracy: logits is missing",
         ac_top_k_accuracy(NULL, labels, 1, NULL));
  STICKS(ac_top_k_accuracy, targets, "top_k_accuracy: targets is missing",
         ac_top_k_accuracy(hidden, NULL, 1, NULL));
  STICKS(ac_class_precision, logits, "class_precision: logits is missing",
         ac_class_precision(NULL, labels, 1, NULL));
  STICKS(ac_class_precision, targets, "class_precision: targets is missing",
         ac_class_precision(hidden, NULL, 1, NULL));
  STICKS(ac_class_recall, logits, "class_recall: logits is missing",
         ac_class_recall(NULL, labels, 1, NULL));
  STICKS(ac_class_recall, targets, "class_recall: targets is missing",
         ac_class_recall(hidden, NULL, 1, NULL));
  STICKS(ac_class_iou, logits, "class_iou: logits is missing", ac_class_iou(NULL, labels, 1, NULL));
  STICKS(ac_class_iou, targets, "class_iou: targets is missing",
         ac_class_iou(hidden, NULL, 1, NULL));
  STICKS(ac_graph_add_loss, name, "add_loss: loss \"\": it has no name",
         ac_graph_add_loss(graph, NULL, ac_cross_entropy(hidden, labels, NULL, NULL), 1));
  STICKS(ac_graph_add_loss, loss, "add_loss: loss \"main\": it is not a result",
         ac_graph_add_loss(graph, "main", NULL, 1));
  STICKS(ac_graph_set_output, name, "set_output: output", ac_graph_set_output(graph, NULL, hidden));
  STICKS(ac_graph_set_output, tensor, "set_output: output", ac_graph_set_output(graph, "y", NULL));
  STICKS(ac_concat, parts, "concat: 2 parts at NULL", ac_concat(graph, NULL, 2, 1));
  STICKS(ac_stack, parts, "stack: 2 parts at NULL", ac_stack(graph, NULL, 2, 1));
  ac_tensor *halves[2];
  NOTHING(ac_split, x, ac_split(NULL, 1, 2, NULL, halves));
  BUILDS(ac_split, sizes, (ac_split(x, 1, 2, NULL, halves), halves[1]));
  STICKS(ac_split, parts, "split: there is no room", ac_split(hidden, 1, 2, NULL, NULL));
  STICKS(ac_custom_op, inputs, "custom_op: 1 inputs at NULL",
         ac_custom_op(graph, NULL, 1, NULL, &own_op));
  BUILDS(ac_custom_op, outputs, ac_custom_op(graph, &hidden, 1, NULL, &own_op));
  STICKS(ac_custom_op, desc, "custom_op: the op: it has no name",
         ac_custom_op(graph, &hidden, 1, NULL, NULL));
}

static void only_operands(void) {
  make_graph();
  PASSES(ac_scale, x, ac_scale(NULL, 2));
  PASSES(ac_weight_standardisation, weight, ac_weight_standardisation(NULL, 0));
  PASSES(ac_gelu, x, ac_gelu(NULL, AC_GELU_ERF));
  PASSES(ac_relu, x, ac_relu(NULL));
  PASSES(ac_silu, x, ac_silu(NULL));
  PASSES(ac_leaky_relu, x, ac_leaky_relu(NULL, 0.1f));
  PASSES(ac_sigmoid, x, ac_sigmoid(NULL));
  PASSES(ac_tanh, x, ac_tanh(NULL));
  PASSES(ac_softmax, x, ac_softmax(NULL));
  PASSES(ac_length_mask, lengths, ac_length_mask(NULL, 3));
  PASSES(ac_sum, x, ac_sum(NULL, AC_AXES(1), false));
  STICKS(ac_sum, axes, "sum: 1 axes at NULL", ac_sum(x, 1, NULL, false));
  PASSES(ac_mean, x, ac_mean(NULL, AC_AXES(1), false));
  STICKS(ac_mean, axes, "mean: 1 axes at NULL", ac_mean(x, 1, NULL, false));
  PASSES(ac_max, x, ac_max(NULL, AC_AXES(1), false));
  STICKS(ac_max, axes, "max: 1 axes at NULL", ac_max(x, 1, NULL, false));
  PASSES(ac_min, x, ac_min(NULL, AC_AXES(1), false));
  STICKS(ac_min, axes, "min: 1 axes at NULL", ac_min(x, 1, NULL, false));
  PASSES(ac_logsumexp, x, ac_logsumexp(NULL, AC_AXES(1), false));
  STICKS(ac_logsumexp, axes, "logsumexp: 1 axes at NULL", ac_logsumexp(x, 1, NULL, false));
  PASSES(ac_norm, x, ac_norm(NULL, 1, AC_AXES(1), false));
  STICKS(ac_norm, axes, "norm: 1 axes at NULL", ac_norm(x, 1, 1, NULL, false));
  PASSES(ac_variance, x, ac_variance(NULL, true, AC_AXES(1), false));
  STICKS(ac_variance, axes, "variance: 1 axes at NULL", ac_variance(x, true, 1, NULL, false));
  PASSES(ac_softmax_over, x, ac_softmax_over(NULL, 1));
  PASSES(ac_log_softmax, x, ac_log_softmax(NULL, 1));
  PASSES(ac_cumulative_sum, x, ac_cumulative_sum(NULL, 1));
  PASSES(ac_argmax, x, ac_argmax(NULL, 1, false));
  PASSES(ac_top_k, x, ac_top_k(NULL, 1, NULL));
  BUILDS(ac_top_k, ids, ac_top_k(x, 1, NULL));
  STICKS(ac_lstm, x, "lstm: x is missing",
         ac_lstm(NULL, lengths_of(), NULL, recurrent(4), NULL, NULL));
  BUILDS(ac_lstm, lengths, ac_lstm(sequence(), NULL, NULL, recurrent(4), NULL, NULL));
  BUILDS(ac_lstm, initial, ac_lstm(sequence(), NULL, NULL, recurrent(4), NULL, NULL));
  STICKS(ac_lstm, weights, "lstm: weights are NULL",
         ac_lstm(sequence(), NULL, NULL, NULL, NULL, NULL));
  BUILDS(ac_lstm, desc, ac_lstm(sequence(), NULL, NULL, recurrent(4), NULL, NULL));
  BUILDS(ac_lstm, final, ac_lstm(sequence(), NULL, NULL, recurrent(4), NULL, NULL));
  STICKS(ac_gru, x, "gru: x is missing",
         ac_gru(NULL, lengths_of(), NULL, recurrent(3), NULL, NULL));
  BUILDS(ac_gru, lengths, ac_gru(sequence(), NULL, NULL, recurrent(3), NULL, NULL));
  BUILDS(ac_gru, initial, ac_gru(sequence(), NULL, NULL, recurrent(3), NULL, NULL));
  STICKS(ac_gru, weights, "gru: weights are NULL",
         ac_gru(sequence(), NULL, NULL, NULL, NULL, NULL));
  BUILDS(ac_gru, desc, ac_gru(sequence(), NULL, NULL, recurrent(3), NULL, NULL));
  BUILDS(ac_gru, final, ac_gru(sequence(), NULL, NULL, recurrent(3), NULL, NULL));
  STICKS(ac_rnn, x, "rnn: x is missing",
         ac_rnn(NULL, lengths_of(), NULL, recurrent(1), NULL, NULL));
  BUILDS(ac_rnn, lengths, ac_rnn(sequence(), NULL, NULL, recurrent(1), NULL, NULL));
  BUILDS(ac_rnn, initial, ac_rnn(sequence(), NULL, NULL, recurrent(1), NULL, NULL));
  STICKS(ac_rnn, weights, "rnn: weights are NULL",
         ac_rnn(sequence(), NULL, NULL, NULL, NULL, NULL));
  BUILDS(ac_rnn, desc, ac_rnn(sequence(), NULL, NULL, recurrent(1), NULL, NULL));
  BUILDS(ac_rnn, final, ac_rnn(sequence(), NULL, NULL, recurrent(1), NULL, NULL));
  PASSES(ac_causal_attention, qkv, ac_causal_attention(NULL, NULL));
  STICKS(ac_rope, x, "x is missing", ac_rope(NULL, labels, NULL));
  BUILDS(ac_rope, positions, ac_rope(heads(), NULL, &(ac_rope_desc){.base = 100}));
  BUILDS(ac_rope, desc, ac_rope(heads(), NULL, NULL));
  PASSES(ac_dropout, x, ac_dropout(NULL, 0.1f));
  PASSES(ac_drop_path, x, ac_drop_path(NULL, 0.1f));
  PASSES(ac_reshape, x, ac_reshape(NULL, AC_SHAPE(2)));
  PASSES(ac_transpose, x, ac_transpose(NULL, 1, 2));
  PASSES(ac_permute, x, ac_permute(NULL, AC_AXES(0, 1)));
  STICKS(ac_permute, axes, "permute: 2 axes at NULL", ac_permute(x, 2, NULL));
  PASSES(ac_expand, x, ac_expand(NULL, AC_SHAPE(2)));
  STICKS(ac_expand, shape, "expand: x cannot be repeated", ac_expand(x, 2, NULL));
  PASSES(ac_slice_step, x, ac_slice_step(NULL, 1, 0, 1, 1));
  PASSES(ac_flip, x, ac_flip(NULL, AC_AXES(1)));
  STICKS(ac_flip, axes, "flip: 1 axes at NULL", ac_flip(x, 1, NULL));
  PASSES(ac_pad, x, ac_pad(NULL, NULL));
  BUILDS(ac_pad, desc, ac_pad(x, NULL));
  PASSES(ac_pixel_shuffle, x, ac_pixel_shuffle(NULL, 2));
  PASSES(ac_pixel_unshuffle, x, ac_pixel_unshuffle(NULL, 2));
  PASSES(ac_one_hot, ids, ac_one_hot(NULL, 2));
  PASSES(ac_stop_gradient, x, ac_stop_gradient(NULL));
  PASSES(ac_slice, x, ac_slice(NULL, 1, 0, 1));
  PASSES(ac_max_pool2d, x, ac_max_pool2d(NULL, NULL));
  PASSES(ac_average_pool2d, x, ac_average_pool2d(NULL, NULL));
  PASSES(ac_global_average_pool, x, ac_global_average_pool(NULL));
  PASSES(ac_max_pool1d, x, ac_max_pool1d(NULL, NULL));
  PASSES(ac_average_pool1d, x, ac_average_pool1d(NULL, NULL));
  PASSES(ac_max_pool3d, x, ac_max_pool3d(NULL, NULL));
  PASSES(ac_average_pool3d, x, ac_average_pool3d(NULL, NULL));
  PASSES(ac_adaptive_max_pool, x, ac_adaptive_max_pool(NULL, AC_SHAPE(1)));
  PASSES(ac_adaptive_average_pool, x, ac_adaptive_average_pool(NULL, AC_SHAPE(1)));
  PASSES(ac_global_max_pool, x, ac_global_max_pool(NULL));
  PASSES(ac_upsample_nearest2d, x, ac_upsample_nearest2d(NULL, 2));
  PASSES(ac_resize2d, x, ac_resize2d(NULL, NULL));
  BUILDS(ac_resize2d, desc, ac_resize2d(image(), NULL));
  PASSES(ac_local_response_norm, x, ac_local_response_norm(NULL, NULL));
  BUILDS(ac_local_response_norm, desc, ac_local_response_norm(image(), NULL));
  PASSES(ac_tensor_hint, tensor, ac_tensor_hint(NULL, AC_KEEP));
  STICKS(ac_causal_attention, desc, "at least one head",
         ac_causal_attention(ac_input(graph, "q", AC_F32, AC_SHAPE(AC_BATCH, 2, 6)), NULL));
  STICKS(ac_attention, q, "q is missing", ac_attention(NULL, heads_of("k"), heads_of("v"), NULL));
  STICKS(ac_attention, k, "it takes q", ac_attention(heads_of("q"), NULL, heads_of("v"), NULL));
  STICKS(ac_attention, v, "it takes q", ac_attention(heads_of("q"), heads_of("k"), NULL, NULL));
  BUILDS(ac_attention, desc, ac_attention(heads_of("q"), heads_of("k"), heads_of("v"), NULL));
  PASSES(ac_cache, rows, ac_cache(NULL, "c", labels, 4));
  STICKS(ac_cache, name, "it has no name", ac_cache(heads_of("q"), NULL, labels, 9));
  STICKS(ac_cache, ends, "ends is missing", ac_cache(heads_of("q"), "c", NULL, 9));
  PASSES(ac_cached_attention, q,
         ac_cached_attention(NULL, heads_of("k"), heads_of("v"), "c", labels, 9, NULL));
  STICKS(ac_cached_attention, k, "k is missing",
         ac_cached_attention(heads_of("q"), NULL, heads_of("v"), "c", labels, 9, NULL));
  STICKS(ac_cached_attention, v, "v is missing",
         ac_cached_attention(heads_of("q"), heads_of("k"), NULL, "c", labels, 9, NULL));
  STICKS(ac_cached_attention, name, "it has no name",
         ac_cached_attention(heads_of("q"), heads_of("k"), heads_of("v"), NULL, labels, 9, NULL));
  STICKS(ac_cached_attention, ends, "ends is missing",
         ac_cached_attention(heads_of("q"), heads_of("k"), heads_of("v"), "c", NULL, 9, NULL));
  BUILDS(ac_cached_attention, desc,
         ac_cached_attention(heads_of("q"), heads_of("k"), heads_of("v"), "c", labels, 9, NULL));
  STICKS(ac_max_pool2d, desc, "kernel 0", ac_max_pool2d(image(), NULL));
  STICKS(ac_average_pool2d, desc, "kernel 0", ac_average_pool2d(image(), NULL));
  STICKS(ac_max_pool1d, desc, "kernel 0", ac_max_pool1d(row(), NULL));
  STICKS(ac_average_pool1d, desc, "kernel 0", ac_average_pool1d(row(), NULL));
  STICKS(ac_max_pool3d, desc, "kernel 0", ac_max_pool3d(block(), NULL));
  STICKS(ac_average_pool3d, desc, "kernel 0", ac_average_pool3d(block(), NULL));
  STICKS(ac_adaptive_max_pool, outputs, "2 sizes at NULL", ac_adaptive_max_pool(image(), 2, NULL));
  STICKS(ac_adaptive_average_pool, outputs, "2 sizes at NULL",
         ac_adaptive_average_pool(image(), 2, NULL));
}

/* Functions of elements. */
static void of_elements(void) {
  make_graph();
  PASSES(ac_square, x, ac_square(NULL));
  PASSES(ac_sqrt, x, ac_sqrt(NULL));
  PASSES(ac_rsqrt, x, ac_rsqrt(NULL));
  PASSES(ac_reciprocal, x, ac_reciprocal(NULL));
  PASSES(ac_abs, x, ac_abs(NULL));
  PASSES(ac_sign, x, ac_sign(NULL));
  PASSES(ac_exp, x, ac_exp(NULL));
  PASSES(ac_expm1, x, ac_expm1(NULL));
  PASSES(ac_log, x, ac_log(NULL));
  PASSES(ac_log1p, x, ac_log1p(NULL));
  PASSES(ac_sin, x, ac_sin(NULL));
  PASSES(ac_cos, x, ac_cos(NULL));
  PASSES(ac_erf, x, ac_erf(NULL));
  PASSES(ac_softplus, x, ac_softplus(NULL));
  PASSES(ac_log_sigmoid, x, ac_log_sigmoid(NULL));
  PASSES(ac_relu6, x, ac_relu6(NULL));
  PASSES(ac_selu, x, ac_selu(NULL));
  PASSES(ac_mish, x, ac_mish(NULL));
  PASSES(ac_hard_sigmoid, x, ac_hard_sigmoid(NULL));
  PASSES(ac_hard_swish, x, ac_hard_swish(NULL));
  PASSES(ac_softsign, x, ac_softsign(NULL));
  PASSES(ac_not, x, ac_not(NULL));
  PASSES(ac_add_scalar, x, ac_add_scalar(NULL, 2));
  PASSES(ac_elu, x, ac_elu(NULL, 1));
  PASSES(ac_clamp, x, ac_clamp(NULL, 0, 1));
  STICKS(ac_subtract, a, "a is missing", ac_subtract(NULL, x));
  STICKS(ac_subtract, b, "b is missing", ac_subtract(x, NULL));
  STICKS(ac_divide, a, "a is missing", ac_divide(NULL, x));
  STICKS(ac_divide, b, "b is missing", ac_divide(x, NULL));
  STICKS(ac_maximum, a, "a is missing", ac_maximum(NULL, x));
  STICKS(ac_maximum, b, "b is missing", ac_maximum(x, NULL));
  STICKS(ac_minimum, a, "a is missing", ac_minimum(NULL, x));
  STICKS(ac_minimum, b, "b is missing", ac_minimum(x, NULL));
  STICKS(ac_power, a, "a is missing", ac_power(NULL, x));
  STICKS(ac_power, b, "b is missing", ac_power(x, NULL));
  STICKS(ac_less, a, "a is missing", ac_less(NULL, x));
  STICKS(ac_less, b, "b is missing", ac_less(x, NULL));
  STICKS(ac_equal, a, "a is missing", ac_equal(NULL, x));
  STICKS(ac_equal, b, "b is missing", ac_equal(x, NULL));
  STICKS(ac_swiglu, gate, "gate is missing", ac_swiglu(NULL, x));
  STICKS(ac_swiglu, up, "up is missing", ac_swiglu(x, NULL));
  STICKS(ac_geglu, gate, "gate is missing", ac_geglu(NULL, x));
  STICKS(ac_geglu, up, "up is missing", ac_geglu(x, NULL));
  STICKS(ac_where, condition, "condition is missing", ac_where(NULL, x, x));
  STICKS(ac_where, a, "a is missing", ac_where(x, NULL, x));
  STICKS(ac_where, b, "b is missing", ac_where(x, x, NULL));
  STICKS(ac_formula, formula, "the formula is missing", ac_formula(graph, NULL, &x, 1));
  STICKS(ac_formula, operands, "formula: 1 operands at NULL", ac_formula(graph, "a", NULL, 1));
}

static void operands(void) {
  STICKS(ac_linear, x, "x is missing", ac_linear(NULL, w, NULL, AC_OUT_IN));
  STICKS(ac_linear, weight, "weight is missing", ac_linear(x, NULL, NULL, AC_OUT_IN));
  BUILDS(ac_linear, bias, ac_linear(x, w, NULL, AC_OUT_IN));
  STICKS(ac_matmul, a, "a is missing", ac_matmul(NULL, w, false, false));
  STICKS(ac_matmul, b, "b is missing", ac_matmul(w, NULL, false, false));
  STICKS(ac_add, a, "a is missing", ac_add(NULL, x));
  STICKS(ac_add, b, "b is missing", ac_add(x, NULL));
  STICKS(ac_multiply, a, "a is missing", ac_multiply(NULL, x));
  STICKS(ac_multiply, b, "b is missing", ac_multiply(x, NULL));
  STICKS(ac_embedding, table, "table is missing", ac_embedding(NULL, labels));
  STICKS(ac_embedding, ids, "ids is missing", ac_embedding(w, NULL));
  STICKS(ac_gather, x, "x is missing", ac_gather(NULL, labels, 1));
  STICKS(ac_gather, ids, "ids is missing", ac_gather(x, NULL, 1));
  STICKS(ac_index_select, x, "x is missing", ac_index_select(NULL, labels, 1));
  STICKS(ac_index_select, ids, "ids is missing", ac_index_select(x, NULL, 1));
  STICKS(ac_scatter_add, values, "values is missing", ac_scatter_add(NULL, labels, 1, 2));
  STICKS(ac_scatter_add, ids, "ids is missing", ac_scatter_add(x, NULL, 1, 2));
  STICKS(ac_embedding_bag, table, "table is missing",
         ac_embedding_bag(NULL, bag(), NULL, NULL, NULL));
  STICKS(ac_embedding_bag, ids, "ids is missing", ac_embedding_bag(w, NULL, NULL, NULL, NULL));
  BUILDS(ac_embedding_bag, lengths, ac_embedding_bag(w, bag(), NULL, NULL, NULL));
  BUILDS(ac_embedding_bag, weights, ac_embedding_bag(w, bag(), NULL, NULL, NULL));
  BUILDS(ac_embedding_bag, desc, ac_embedding_bag(w, bag(), NULL, NULL, NULL));
  STICKS(ac_layer_norm, x, "x is missing", ac_layer_norm(NULL, vector("g", 4), NULL, 0));
  BUILDS(ac_layer_norm, gamma, ac_layer_norm(x, NULL, NULL, 0));
  BUILDS(ac_layer_norm, beta, ac_layer_norm(x, vector("g", 4), NULL, 0));
  STICKS(ac_rms_norm, x, "x is missing", ac_rms_norm(NULL, vector("g", 4), 0));
  BUILDS(ac_rms_norm, gamma, ac_rms_norm(x, NULL, 0));
  STICKS(ac_layer_norm_over, x, "x is missing", ac_layer_norm_over(NULL, w, NULL, AC_AXES(1), 0));
  BUILDS(ac_layer_norm_over, gamma, ac_layer_norm_over(x, NULL, NULL, AC_AXES(1), 0));
  BUILDS(ac_layer_norm_over, beta, ac_layer_norm_over(x, NULL, NULL, AC_AXES(1), 0));
  STICKS(ac_layer_norm_over, axes, "layer_norm_over: 1 axes at NULL",
         ac_layer_norm_over(x, NULL, NULL, 1, NULL, 0));
  STICKS(ac_rms_norm_over, x, "x is missing", ac_rms_norm_over(NULL, w, AC_AXES(1), 0));
  BUILDS(ac_rms_norm_over, gamma, ac_rms_norm_over(x, NULL, AC_AXES(1), 0));
  STICKS(ac_rms_norm_over, axes, "rms_norm_over: 1 axes at NULL",
         ac_rms_norm_over(x, NULL, 1, NULL, 0));
  STICKS(ac_group_norm, x, "x is missing", ac_group_norm(NULL, vector("g", 4), NULL, 1, 0));
  BUILDS(ac_group_norm, gamma, ac_group_norm(x, NULL, vector("b", 4), 1, 0));
  BUILDS(ac_group_norm, beta, ac_group_norm(x, vector("g", 4), NULL, 1, 0));
  STICKS(ac_instance_norm, x, "x is missing", ac_instance_norm(NULL, vector("g", 4), NULL, 0));
  BUILDS(ac_instance_norm, gamma, ac_instance_norm(x, NULL, vector("b", 4), 0));
  BUILDS(ac_instance_norm, beta, ac_instance_norm(x, vector("g", 4), NULL, 0));
  STICKS(ac_sample_norm, x, "x is missing", ac_sample_norm(NULL, vector("g", 4), NULL, 0));
  BUILDS(ac_sample_norm, gamma, ac_sample_norm(x, NULL, vector("b", 4), 0));
  BUILDS(ac_sample_norm, beta, ac_sample_norm(x, vector("g", 4), NULL, 0));
  STICKS(ac_batch_norm, x, "x is missing",
         ac_batch_norm(NULL, NULL, NULL, frozen("m"), frozen("v"), NULL));
  STICKS(ac_batch_norm, running_mean, "running_mean is missing",
         ac_batch_norm(x, NULL, NULL, NULL, frozen("v"), NULL));
  STICKS(ac_batch_norm, running_variance, "running_variance is missing",
         ac_batch_norm(x, NULL, NULL, frozen("m"), NULL, NULL));
  BUILDS(ac_batch_norm, gamma, ac_batch_norm(x, NULL, NULL, frozen("m"), frozen("v"), NULL));
  BUILDS(ac_batch_norm, beta, ac_batch_norm(x, NULL, NULL, frozen("m"), frozen("v"), NULL));
  BUILDS(ac_batch_norm, desc, ac_batch_norm(x, NULL, NULL, frozen("m"), frozen("v"), NULL));
  STICKS(ac_conv2d, x, "x is missing", ac_conv2d(NULL, kernel(), NULL, NULL));
  STICKS(ac_conv2d, weight, "weight is missing", ac_conv2d(image(), NULL, NULL, NULL));
  BUILDS(ac_conv2d, bias, ac_conv2d(image(), kernel(), NULL, NULL));
  BUILDS(ac_conv2d, desc, ac_conv2d(image(), kernel(), NULL, NULL));
  STICKS(ac_conv1d, x, "x is missing", ac_conv1d(NULL, taps(), NULL, NULL));
  STICKS(ac_conv1d, weight, "weight is missing", ac_conv1d(row(), NULL, NULL, NULL));
  BUILDS(ac_conv1d, bias, ac_conv1d(row(), taps(), NULL, NULL));
  BUILDS(ac_conv1d, desc, ac_conv1d(row(), taps(), NULL, NULL));
  STICKS(ac_conv3d, x, "x is missing", ac_conv3d(NULL, cube(), NULL, NULL));
  STICKS(ac_conv3d, weight, "weight is missing", ac_conv3d(block(), NULL, NULL, NULL));
  BUILDS(ac_conv3d, bias, ac_conv3d(block(), cube(), NULL, NULL));
  BUILDS(ac_conv3d, desc, ac_conv3d(block(), cube(), NULL, NULL));
  STICKS(ac_conv_transpose1d, x, "x is missing", ac_conv_transpose1d(NULL, taps(), NULL, NULL));
  STICKS(ac_conv_transpose1d, weight, "weight is missing",
         ac_conv_transpose1d(row(), NULL, NULL, NULL));
  BUILDS(ac_conv_transpose1d, bias, ac_conv_transpose1d(row(), taps(), NULL, NULL));
  BUILDS(ac_conv_transpose1d, desc, ac_conv_transpose1d(row(), taps(), NULL, NULL));
  STICKS(ac_conv_transpose2d, x, "x is missing", ac_conv_transpose2d(NULL, kernel(), NULL, NULL));
  STICKS(ac_conv_transpose2d, weight, "weight is missing",
         ac_conv_transpose2d(image(), NULL, NULL, NULL));
  BUILDS(ac_conv_transpose2d, bias, ac_conv_transpose2d(image(), kernel(), NULL, NULL));
  BUILDS(ac_conv_transpose2d, desc, ac_conv_transpose2d(image(), kernel(), NULL, NULL));
}

static ac_tensor *steps(void) {
  return ac_input(graph, "steps", AC_F32, AC_SHAPE(AC_BATCH, 5, FEATURES));
}
static ac_tensor *spelt(void) {
  return ac_input(graph, "spelt", AC_I32, AC_SHAPE(AC_BATCH, 2));
}
static ac_tensor *pairs(void) {
  return ac_reshape(x, AC_SHAPE(AC_BATCH, 2, 2));
}
static ac_tensor *ones(void) {
  return ac_input(graph, "ones", AC_F32, AC_SHAPE(AC_BATCH));
}

static void losses(void) {
  STICKS(ac_cross_entropy, logits, "logits is missing", ac_cross_entropy(NULL, labels, NULL, NULL));
  STICKS(ac_cross_entropy, targets, "targets is missing", ac_cross_entropy(x, NULL, NULL, NULL));
  BUILDS(ac_cross_entropy, weights, ac_cross_entropy(x, labels, NULL, NULL));
  BUILDS(ac_top_k_accuracy, desc, ac_top_k_accuracy(x, labels, 1, NULL));
  BUILDS(ac_class_precision, desc, ac_class_precision(x, labels, 1, NULL));
  BUILDS(ac_class_recall, desc, ac_class_recall(x, labels, 1, NULL));
  BUILDS(ac_class_iou, desc, ac_class_iou(x, labels, 1, NULL));
  BUILDS(ac_cross_entropy, desc, ac_cross_entropy(x, labels, NULL, NULL));
  STICKS(ac_linear_log_probability, x, "x is missing",
         ac_linear_log_probability(NULL, w, AC_OUT_IN, labels, NULL, NULL, 0));
  STICKS(ac_linear_log_probability, weight, "weight is missing",
         ac_linear_log_probability(x, NULL, AC_OUT_IN, labels, NULL, NULL, 0));
  STICKS(ac_linear_log_probability, targets, "targets is missing",
         ac_linear_log_probability(x, w, AC_OUT_IN, NULL, NULL, NULL, 0));
  BUILDS(ac_linear_log_probability, weights,
         ac_linear_log_probability(x, w, AC_OUT_IN, labels, NULL, NULL, 0));
  BUILDS(ac_linear_log_probability, less,
         ac_linear_log_probability(x, w, AC_OUT_IN, labels, NULL, NULL, 0));
  STICKS(ac_dpo_loss, policy_chosen, "policy_chosen is missing",
         ac_dpo_loss(NULL, x, x, x, NULL, NULL));
  STICKS(ac_dpo_loss, policy_rejected, "policy_rejected is missing",
         ac_dpo_loss(x, NULL, x, x, NULL, NULL));
  STICKS(ac_dpo_loss, reference_chosen, "one reference without the other",
         ac_dpo_loss(x, x, NULL, x, NULL, NULL));
  STICKS(ac_dpo_loss, reference_rejected, "one reference without the other",
         ac_dpo_loss(x, x, x, NULL, NULL, NULL));
  BUILDS(ac_dpo_loss, weights, ac_dpo_loss(x, x, NULL, NULL, NULL, NULL));
  BUILDS(ac_dpo_loss, desc, ac_dpo_loss(x, x, NULL, NULL, NULL, NULL));
  STICKS(ac_linear_cross_entropy, x, "x is missing",
         ac_linear_cross_entropy(NULL, w, AC_OUT_IN, labels, NULL, NULL));
  STICKS(ac_linear_cross_entropy, weight, "weight is missing",
         ac_linear_cross_entropy(x, NULL, AC_OUT_IN, labels, NULL, NULL));
  STICKS(ac_linear_cross_entropy, targets, "targets is missing",
         ac_linear_cross_entropy(x, w, AC_OUT_IN, NULL, NULL, NULL));
  BUILDS(ac_linear_cross_entropy, weights,
         ac_linear_cross_entropy(x, w, AC_OUT_IN, labels, NULL, NULL));
  BUILDS(ac_linear_cross_entropy, desc,
         ac_linear_cross_entropy(x, w, AC_OUT_IN, labels, NULL, NULL));
  STICKS(ac_mean_squared_error, prediction, "prediction is missing",
         ac_mean_squared_error(NULL, x, NULL));
  STICKS(ac_mean_squared_error, target, "target is missing", ac_mean_squared_error(x, NULL, NULL));
  BUILDS(ac_mean_squared_error, weights, ac_mean_squared_error(x, x, NULL));
  STICKS(ac_binary_cross_entropy, logits, "logits is missing",
         ac_binary_cross_entropy(NULL, x, NULL));
  STICKS(ac_binary_cross_entropy, targets, "targets is missing",
         ac_binary_cross_entropy(x, NULL, NULL));
  BUILDS(ac_binary_cross_entropy, weights, ac_binary_cross_entropy(x, x, NULL));
  STICKS(ac_loss, per_row, "per_row is missing", ac_loss(NULL, x));
  BUILDS(ac_loss, weights, ac_loss(x, NULL));
  STICKS(ac_ctc_loss, logits, "logits is missing",
         ac_ctc_loss(NULL, labels, NULL, NULL, NULL, NULL));
  STICKS(ac_ctc_loss, targets, "targets is missing",
         ac_ctc_loss(steps(), NULL, NULL, NULL, NULL, NULL));
  BUILDS(ac_ctc_loss, input_lengths, ac_ctc_loss(steps(), spelt(), NULL, NULL, NULL, NULL));
  BUILDS(ac_ctc_loss, target_lengths, ac_ctc_loss(steps(), spelt(), NULL, NULL, NULL, NULL));
  BUILDS(ac_ctc_loss, weights, ac_ctc_loss(steps(), spelt(), NULL, NULL, NULL, NULL));
  BUILDS(ac_ctc_loss, desc, ac_ctc_loss(steps(), spelt(), NULL, NULL, NULL, NULL));
}

/* Losses that are made of other ops. */
static void made_losses(void) {
  STICKS(ac_l1_loss, prediction, "prediction is missing", ac_l1_loss(NULL, x, NULL));
  STICKS(ac_l1_loss, target, "target is missing", ac_l1_loss(x, NULL, NULL));
  BUILDS(ac_l1_loss, weights, ac_l1_loss(x, x, NULL));
  STICKS(ac_huber_loss, prediction, "prediction is missing", ac_huber_loss(NULL, x, NULL, 1));
  STICKS(ac_huber_loss, target, "target is missing", ac_huber_loss(x, NULL, NULL, 1));
  BUILDS(ac_huber_loss, weights, ac_huber_loss(x, x, NULL, 1));
  STICKS(ac_hinge_loss, prediction, "prediction is missing", ac_hinge_loss(NULL, x, NULL, 1));
  STICKS(ac_hinge_loss, target, "target is missing", ac_hinge_loss(x, NULL, NULL, 1));
  BUILDS(ac_hinge_loss, weights, ac_hinge_loss(x, x, NULL, 1));
  STICKS(ac_focal_loss, logits, "logits is missing", ac_focal_loss(NULL, x, NULL, 0.25f, 2));
  STICKS(ac_focal_loss, targets, "targets is missing", ac_focal_loss(x, NULL, NULL, 0.25f, 2));
  BUILDS(ac_focal_loss, weights, ac_focal_loss(x, x, NULL, 0.25f, 2));
  STICKS(ac_poisson_nll, log_rate, "log_rate is missing", ac_poisson_nll(NULL, x, NULL));
  STICKS(ac_poisson_nll, target, "target is missing", ac_poisson_nll(x, NULL, NULL));
  BUILDS(ac_poisson_nll, weights, ac_poisson_nll(x, x, NULL));
  STICKS(ac_gaussian_nll, mean, "mean is missing", ac_gaussian_nll(NULL, x, x, NULL));
  STICKS(ac_gaussian_nll, target, "target is missing", ac_gaussian_nll(x, NULL, x, NULL));
  STICKS(ac_gaussian_nll, variance, "variance is missing", ac_gaussian_nll(x, x, NULL, NULL));
  BUILDS(ac_gaussian_nll, weights, ac_gaussian_nll(x, x, x, NULL));
  STICKS(ac_triplet_loss, anchor, "anchor is missing", ac_triplet_loss(NULL, x, x, NULL, 1));
  STICKS(ac_triplet_loss, positive, "positive is missing", ac_triplet_loss(x, NULL, x, NULL, 1));
  STICKS(ac_triplet_loss, negative, "negative is missing", ac_triplet_loss(x, x, NULL, NULL, 1));
  BUILDS(ac_triplet_loss, weights, ac_triplet_loss(x, x, x, NULL, 1));
  STICKS(ac_cosine_embedding_loss, a, "a is missing",
         ac_cosine_embedding_loss(NULL, x, ones(), NULL, 0));
  STICKS(ac_cosine_embedding_loss, b, "b is missing",
         ac_cosine_embedding_loss(x, NULL, ones(), NULL, 0));
  STICKS(ac_cosine_embedding_loss, label, "label is missing",
         ac_cosine_embedding_loss(x, x, NULL, NULL, 0));
  BUILDS(ac_cosine_embedding_loss, weights, ac_cosine_embedding_loss(x, x, ones(), NULL, 0));
  STICKS(ac_soft_cross_entropy, logits, "logits is missing", ac_soft_cross_entropy(NULL, x, NULL));
  STICKS(ac_soft_cross_entropy, probabilities, "probabilities is missing",
         ac_soft_cross_entropy(x, NULL, NULL));
  BUILDS(ac_soft_cross_entropy, weights, ac_soft_cross_entropy(x, x, NULL));
  STICKS(ac_kl_divergence, logits, "logits is missing", ac_kl_divergence(NULL, x, NULL, 1));
  STICKS(ac_kl_divergence, target_logits, "target_logits is missing",
         ac_kl_divergence(x, NULL, NULL, 1));
  BUILDS(ac_kl_divergence, weights, ac_kl_divergence(x, x, NULL, 1));
  STICKS(ac_contrastive_loss, a, "a is missing", ac_contrastive_loss(NULL, pairs(), NULL, 1));
  STICKS(ac_contrastive_loss, b, "b is missing", ac_contrastive_loss(pairs(), NULL, NULL, 1));
  BUILDS(ac_contrastive_loss, weights, ac_contrastive_loss(pairs(), pairs(), NULL, 1));
}

static void null_is_a_default_or_refused(void **state) {
  (void)state;
  read_declarations();
  devices();
  graphs();
  plans();
  datasets();
  pictures();
  files();
  tokenizers();
  chats();
  language_models();
  adapters();
  generators();
  model_files();
  gguf_files();
  exports();
  trainer_rates();
  trainers();
  trainer_windows();
  trainer_numerics();
  trainer_parameters();
  trainer_files();
  states();
  trainer_evaluations();
  trainer_results();
  fits();
  sessions();
  own_calls();
  layers();
  learners();
  benches();
  ranks_of_processes();
  leaves();
  only_operands();
  of_elements();
  operands();
  losses();
  made_losses();
  int missing = 0;
  for (int d = 0; d < declared_count; d++)
    for (int i = 0; i < declarations[d].count; i++) {
      const char *parameter = declarations[d].parameter[i];
      if (!is_pointer(parameter) || entered[d][i]) continue;
      print_message("no entry for NULL as %s of %s\n", parameter_name(parameter),
                    declarations[d].name);
      missing++;
    }
  assert_int_equal(missing, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(null_is_a_default_or_refused, open_all, close_all),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
