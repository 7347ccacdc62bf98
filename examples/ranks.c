/* Ranks in one process: four threads train one model together, each on its share of every batch and
 * with a quarter of the gradients and of the optimizer's state. All have the same weights, and
 * those of a single rank but for rounding. Started by mpirun the same code would train on several
 * machines: then a process opens its one rank with ac_ranks_open. */
#include <accrue/accrue.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>

enum {
  RANKS = 4,
  SAMPLES = 400,
  FEATURES = 8,
  HIDDEN = 256,
  EPOCHS = 20,
  MOST = 2 * FEATURES * HIDDEN
};

/* Sample k: FEATURES numbers, and a smooth function of them. */
static ac_status read_sample(void *user, const ac_sample_key *key, void *const *fields) {
  float *x = fields[0], *y = fields[1];
  (void)user;
  *y = 0;
  for (int i = 0; i < FEATURES; i++) x[i] = sinf((float)(key->index * (i + 3)));
  for (int i = 0; i < FEATURES; i++) *y += x[i] * cosf(x[(i + 1) % FEATURES]);
  return AC_OK;
}

static ac_status describe(ac_graph *graph) {
  ac_tensor *x = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, FEATURES)),
            *y = ac_input(graph, "y", AC_F32, AC_SHAPE(AC_BATCH, 1)),
            *h = ac_dropout(ac_tanh(ac_dense(graph, "first", x, HIDDEN, NULL)), 0.05f);
  ac_graph_set_loss(graph, ac_mean_squared_error(ac_dense(graph, "last", h, 1, NULL), y, NULL));
  return ac_graph_status(graph);
}

/* Limits each element of the mean gradient. Each rank does so for the part that it keeps of the
 * sum of all; a rank that is alone keeps all of it. */
static void limit(void *user, ac_trainer *trainer, ac_decision *decision) {
  const float most = (float)(0.02 * decision->weight); /* gradients are sums over samples */
  ac_status *failed = user;
  for (int i = 0; i < ac_trainer_parameter_count(trainer) && *failed == AC_OK; i++) {
    float piece[256];
    int64_t first, count;
    *failed = ac_trainer_gradient_part(trainer, i, &first, &count);
    for (int64_t n; count > 0 && *failed == AC_OK; first += n, count -= n) {
      n = count < 256 ? count : 256;
      *failed = ac_trainer_get_gradient(trainer, i, first, n, piece);
      for (int64_t k = 0; k < n; k++) piece[k] = fmaxf(-most, fminf(piece[k], most));
      if (*failed == AC_OK) *failed = ac_trainer_set_gradient(trainer, i, first, n, piece);
    }
  }
}

/* What one rank has and does. */
typedef struct job {
  ac_ranks *ranks; /* NULL: it is alone */
  const ac_graph *graph;
  ac_status status;
  char sentence[256];
  float weights[MOST];
  double loss;
  uint64_t optimizer_bytes;
} job;

static ac_status train(job *j, ac_device *device, ac_dataset *data) {
  const int ranks = j->ranks ? ac_ranks_size(j->ranks) : 1;
  ac_status limited = AC_OK;
  const ac_plan_desc policy = {.batch = 30,
                               .gradients = AC_GRADIENTS_SHARDED,
                               .ranks = ranks,
                               .rank = j->ranks ? ac_ranks_rank(j->ranks) : 0};
  const ac_trainer_desc training = {
      .seed = 7, .schedule = {.lr = 0.01}, .decide = limit, .user = &limited, .ranks = j->ranks};
  const ac_fit_desc fit = {.train = data, .validation = data, .epochs = EPOCHS, .seed = 1};
  ac_plan *plan = NULL;
  ac_trainer *trainer = NULL;
  ac_fit_result result = {0};
  ac_status status = ac_plan_create(&plan, j->graph, device, &policy);
  if (status == AC_OK) j->optimizer_bytes = ac_plan_get_info(plan)->bytes.optimizer;
  if (status == AC_OK) status = ac_trainer_create(&trainer, plan, &training);
  if (status == AC_OK) status = ac_fit(trainer, &fit, &result);
  if (status == AC_OK) status = limited;
  if (status == AC_OK) {
    const int first = ac_trainer_find_parameter(trainer, "first.weight");
    status = ac_trainer_get_parameter(trainer, first, 0, FEATURES * HIDDEN, j->weights);
  }
  j->loss = result.final.loss;
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  return status;
}

static ac_status prepare(job *j) {
  const ac_callback_dataset_desc what = {.count = SAMPLES,
                                         .field_count = 2,
                                         .fields = {{"x", AC_F32, FEATURES}, {"y", AC_F32, 1}},
                                         .read = read_sample};
  ac_device *device = NULL;
  ac_dataset *data = NULL;
  ac_status status = ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1});
  if (status == AC_OK) status = ac_dataset_from_callback(&data, &what);
  if (status == AC_OK) status = train(j, device, data);
  ac_dataset_free(data);
  ac_device_close(device);
  return status;
}

/* A rank that cannot go on ends the others, which would wait for it. */
static void *run(void *user) {
  job *j = user;
  j->status = prepare(j);
  if (j->status == AC_OK) return NULL;
  snprintf(j->sentence, sizeof j->sentence, "%s", ac_last_error());
  ac_ranks_abort(j->ranks, j->sentence);
  return NULL;
}

static ac_status run_ranks(job jobs[RANKS]) {
  ac_ranks *list[RANKS];
  pthread_t threads[RANKS];
  const ac_status status = ac_ranks_create_threads(list, RANKS, NULL);
  if (status != AC_OK) return status;
  for (int r = 0; r < RANKS; r++) {
    jobs[r].ranks = list[r];
    pthread_create(&threads[r], NULL, run, &jobs[r]);
  }
  for (int r = 0; r < RANKS; r++) pthread_join(threads[r], NULL);
  for (int r = 0; r < RANKS; r++) ac_ranks_close(list[r]);
  return AC_OK;
}

static double distance(const float *a, const float *b) {
  double most = 0;
  for (int i = 0; i < FEATURES * HIDDEN; i++) most = fmax(most, fabs((double)a[i] - (double)b[i]));
  return most;
}

int main(void) {
  static job alone, jobs[RANKS];
  ac_graph *graph = NULL;
  ac_status status = ac_graph_create(&graph);
  if (status == AC_OK) status = describe(graph);
  alone.graph = graph;
  for (int r = 0; r < RANKS; r++) jobs[r].graph = graph;
  if (status == AC_OK) status = prepare(&alone);
  if (status == AC_OK) status = run_ranks(jobs);
  ac_graph_free(graph);
  if (status != AC_OK) {
    fprintf(stderr, "error: %s\n", ac_last_error());
    return 1;
  }
  printf("one rank: loss %.4f, %llu bytes of optimizer state\n", alone.loss,
         (unsigned long long)alone.optimizer_bytes);
  double apart = 0, among = 0;
  for (int r = 0; r < RANKS; r++) {
    if (jobs[r].status != AC_OK) {
      fprintf(stderr, "error: rank %d: %s\n", r, jobs[r].sentence);
      return 1;
    }
    printf("rank %d of %d: loss %.4f, %llu bytes\n", r, RANKS, jobs[r].loss,
           (unsigned long long)jobs[r].optimizer_bytes);
    apart = fmax(apart, distance(alone.weights, jobs[r].weights));
    among = fmax(among, distance(jobs[0].weights, jobs[r].weights));
  }
  printf("weights differ by %g between ranks, and by less than 0.0001 from those of one\n", among);
  return among == 0 && apart < 1e-4 ? 0 : 1;
}
