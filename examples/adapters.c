/* Several adapters of one base in one process: a small network is trained, then frozen, and two
 * adapters learn two other tasks next to the same weights. One is saved in the form of PEFT, opened
 * again for a session that also shares the weights, and merged into them. */
#include <accrue/accrue.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { POINTS = 240, CLASSES = 3, HIDDEN = 32, UPDATES = 400 };
#define FOLDER "adapter_of_the_example"

static float x[POINTS][2];

/* Points in a disc. */
static void make_points(void) {
  unsigned state = 1;
  for (int i = 0; i < POINTS;) {
    for (int k = 0; k < 2; k++) {
      state = state * 1664525 + 1013904223;
      x[i][k] = (float)(state >> 8) / (1 << 23) - 1;
    }
    i += x[i][0] * x[i][0] + x[i][1] * x[i][1] < 1;
  }
}

/* Task 0: the third of the plane. Tasks 1 and 2: the same, turned. */
static void label(int task, int32_t labels[POINTS]) {
  static const float turns[3][2] = {{1, 0}, {0, 1}, {-0.8f, 0.6f}};
  for (int i = 0; i < POINTS; i++) {
    const float u = turns[task][0] * x[i][0] - turns[task][1] * x[i][1],
                v = turns[task][1] * x[i][0] + turns[task][0] * x[i][1];
    labels[i] = v > 0.577f * (u > 0 ? u : -u) ? 0 : u > 0 ? 1 : 2;
  }
}

/* ---- a layer with an adapter ----------------------------------------------------------------- */

static ac_tensor *layer(ac_graph *graph, const char *name, ac_tensor *in, int64_t width,
                        int64_t out, bool frozen, const ac_lora_desc *lora) {
  char weight[32], bias[32];
  const ac_parameter_desc desc = {.frozen = frozen};
  snprintf(weight, sizeof weight, "%s.weight", name);
  snprintf(bias, sizeof bias, "%s.bias", name);
  return ac_lora_linear(graph, name, in, ac_parameter(graph, weight, AC_SHAPE(out, width), &desc),
                        ac_parameter(graph, bias, AC_SHAPE(out), &desc), AC_OUT_IN, lora);
}

/* Without a description of adapters it is the base, which is trained. */
static void describe(ac_graph *graph, const ac_lora_desc *lora) {
  ac_tensor *points = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, 2)),
            *labels = ac_input(graph, "labels", AC_I32, AC_SHAPE(AC_BATCH));
  ac_tensor *h = ac_tanh(layer(graph, "first", points, 2, HIDDEN, lora != NULL, lora));
  h = ac_tanh(layer(graph, "second", h, HIDDEN, HIDDEN, lora != NULL, lora));
  ac_tensor *logits = layer(graph, "last", h, HIDDEN, CLASSES, lora != NULL, lora);
  ac_graph_set_output(graph, "logits", logits);
  ac_graph_set_loss(graph, ac_cross_entropy(logits, labels, NULL, NULL));
}

/* ---------------------------------------------------------------------------------------------- */

typedef struct run {
  ac_plan *plan;
  ac_trainer *trainer;
  ac_session *session;
} run;

static void end(run *r) {
  ac_session_free(r->session);
  ac_trainer_free(r->trainer);
  ac_plan_free(r->plan);
}

static ac_status make_plan(run *r, ac_device *device, const ac_lora_desc *lora,
                           const ac_plan_desc *policy) {
  ac_graph *graph = NULL;
  ac_status status = ac_graph_create(&graph);
  if (status == AC_OK) describe(graph, lora);
  if (status == AC_OK) status = ac_plan_create(&r->plan, graph, device, policy);
  ac_graph_free(graph);
  return status;
}

static ac_status train(ac_trainer *trainer, int task) {
  int32_t labels[POINTS];
  label(task, labels);
  const ac_feed feeds[] = {{"x", x}, {"labels", labels}};
  ac_status status = AC_OK;
  for (int update = 0; update < UPDATES && status == AC_OK; update++) {
    status = ac_trainer_accumulate(trainer, POINTS, feeds, 2);
    if (status == AC_OK) status = ac_trainer_update(trainer, NULL);
  }
  return status;
}

static int count_right(const float logits[POINTS][CLASSES], int task) {
  int32_t labels[POINTS];
  int right = 0;
  label(task, labels);
  for (int i = 0; i < POINTS; i++) {
    int best = 0;
    for (int k = 1; k < CLASSES; k++)
      if (logits[i][k] > logits[i][best]) best = k;
    right += best == labels[i];
  }
  return right;
}

/* Of the trainer or, if there is one, of the session. */
static ac_status ask(const run *r, int task, int *right) {
  static float logits[POINTS][CLASSES];
  const ac_feed feed = {"x", x};
  const int64_t all = POINTS * CLASSES;
  ac_status status =
      r->session ? ac_session_predict(r->session, "logits", POINTS, &feed, 1, all, logits[0])
                 : ac_trainer_predict(r->trainer, "logits", POINTS, &feed, 1, all, logits[0]);
  *right = status == AC_OK ? count_right((const float(*)[CLASSES])logits, task) : 0;
  return status;
}

/* ---- several adapters ------------------------------------------------------------------------ */

static const char own_weights[] = "first.weight,first.bias,second.weight,second.bias,last.weight,"
                                  "last.bias";

/* A trainer for an adapter. All but the first one share the base of the first. */
static ac_status start(run *r, ac_device *device, const ac_lora_desc *lora, ac_trainer *first) {
  const ac_plan_desc policy = {.batch = POINTS, .shared = first ? own_weights : NULL};
  ac_status status = make_plan(r, device, lora, &policy);
  if (status == AC_OK)
    status =
        ac_trainer_create(&r->trainer, r->plan,
                          &(ac_trainer_desc){.seed = 2, .schedule = {.lr = 0.02}, .share = first});
  return status;
}

/* A session for a saved adapter, with the same base. */
static ac_status open_saved(run *r, ac_device *device, const ac_adapter *adapter,
                            const ac_trainer *first) {
  const ac_plan_desc policy = {.purpose = AC_PREDICT, .shared = own_weights};
  ac_status status = make_plan(r, device, ac_adapter_desc(adapter), &policy);
  if (status == AC_OK) status = ac_session_create_shared(&r->session, r->plan, 0, first);
  if (status == AC_OK) status = ac_adapter_load_session(adapter, r->session);
  return status;
}

/* ---- merging --------------------------------------------------------------------------------- */

/* Each matrix of the base gets the adapter's part; then no layer needs an adapter. */
static ac_status merge(ac_trainer *base, ac_adapter *adapter) {
  static float rows[HIDDEN * HIDDEN];
  ac_status status = AC_OK;
  for (int i = 0; i < ac_trainer_parameter_count(base) && status == AC_OK; i++) {
    ac_tensor_info info;
    status = ac_trainer_parameter_info(base, i, &info);
    if (status != AC_OK || info.rank != 2) continue;
    const int64_t count = info.shape[0] * info.shape[1];
    status = ac_trainer_get_parameter(base, i, 0, count, rows);
    if (status == AC_OK)
      status =
          ac_adapter_merge(adapter, info.name, AC_OUT_IN, 0, info.shape[0], info.shape[1], rows);
    if (status == AC_OK) status = ac_trainer_set_parameter(base, i, 0, count, rows);
  }
  return status;
}

/* ---------------------------------------------------------------------------------------------- */

int main(void) {
  const ac_lora_desc small = {.rank = 4},
                     large = {.rank = 6, .targets = "second,last", .dora = true};
  ac_device *device = NULL;
  ac_adapter *adapter = NULL;
  run base = {NULL, NULL, NULL}, one = base, two = base, saved = base;
  int right[5] = {0};
  make_points();
  ac_status status = ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1});
  /* The base. */
  if (status == AC_OK) status = make_plan(&base, device, NULL, &(ac_plan_desc){.batch = POINTS});
  if (status == AC_OK)
    status = ac_trainer_create(&base.trainer, base.plan,
                               &(ac_trainer_desc){.seed = 1, .schedule = {.lr = 0.02}});
  if (status == AC_OK) status = train(base.trainer, 0);
  if (status == AC_OK) status = ask(&base, 0, &right[0]);
  if (status == AC_OK) status = ac_trainer_save(base.trainer, "adapters_base.safetensors", NULL, 0);
  /* Two adapters of it. */
  if (status == AC_OK) status = start(&one, device, &small, NULL);
  if (status == AC_OK)
    status = ac_trainer_load_part(one.trainer, "adapters_base.safetensors", own_weights, NULL);
  if (status == AC_OK) status = start(&two, device, &large, one.trainer);
  if (status == AC_OK) status = train(one.trainer, 1);
  if (status == AC_OK) status = train(two.trainer, 2);
  if (status == AC_OK) status = ask(&one, 1, &right[1]);
  if (status == AC_OK) status = ask(&two, 2, &right[2]);
  /* The second one in files, and a third user of the same base. */
  mkdir(FOLDER, 0777);
  if (status == AC_OK) status = ac_adapter_save(two.trainer, FOLDER, &large, "adapters_base");
  if (status == AC_OK) status = ac_adapter_open(&adapter, FOLDER);
  if (status == AC_OK) status = open_saved(&saved, device, adapter, one.trainer);
  if (status == AC_OK) status = ask(&saved, 2, &right[3]);
  /* Merged. */
  if (status == AC_OK) status = merge(base.trainer, adapter);
  if (status == AC_OK) status = ask(&base, 2, &right[4]);
  if (status != AC_OK) fprintf(stderr, "adapters: %s\n", ac_last_error());
  else {
    printf("weights: base %llu bytes, first adapter %llu, second %llu\n",
           (unsigned long long)(ac_plan_get_info(base.plan)->bytes.parameters),
           (unsigned long long)(ac_plan_get_info(one.plan)->bytes.parameters),
           (unsigned long long)(ac_plan_get_info(two.plan)->bytes.parameters));
    printf("right of %d: base %d, adapters %d and %d, saved %d, merged %d\n", POINTS, right[0],
           right[1], right[2], right[3], right[4]);
  }
  end(&saved);
  end(&two);
  end(&one);
  end(&base);
  ac_adapter_close(adapter);
  ac_device_close(device);
  unlink(FOLDER "/adapter_model.safetensors");
  unlink(FOLDER "/adapter_config.json");
  rmdir(FOLDER);
  unlink("adapters_base.safetensors");
  for (int i = 0; i < 5 && status == AC_OK; i++)
    if (right[i] < 0.95 * POINTS) return 1;
  return status == AC_OK && right[3] == right[2] ? 0 : 1;
}
