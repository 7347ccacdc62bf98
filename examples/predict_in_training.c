/* Results while a model trains: what it says of samples, its inner values, what windows compute, a
 * session with the trainer's weights, and a teacher that follows slowly. None of it changes a bit
 * of the training. */
#include <accrue/accrue.h>
#include <math.h>
#include <stdio.h>

enum { POINTS = 300, CLASSES = 3, HIDDEN = 32, BATCH = 60, UPDATES = 400 };

static float x[POINTS][2];
static int32_t labels[POINTS];

/* Three rings around the middle. */
static void make_points(void) {
  for (int i = 0; i < POINTS; i++) {
    const double angle = i * 2.399963, noise = 0.2 * sin(i * 12.9898);
    labels[i] = i % CLASSES;
    x[i][0] = (float)((labels[i] + noise) * cos(angle));
    x[i][1] = (float)((labels[i] + noise) * sin(angle));
  }
}

/* Tensors that are to be read have names. */
static void describe(ac_graph *graph) {
  ac_tensor *points = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, 2)),
            *classes = ac_input(graph, "labels", AC_I32, AC_SHAPE(AC_BATCH)),
            *hidden = ac_tanh(ac_dense(graph, "first", points, HIDDEN, NULL)),
            *logits = ac_dense(graph, "last", hidden, CLASSES, NULL);
  ac_graph_set_output(graph, "embedding", hidden);
  ac_graph_set_output(graph, "logits", logits);
  ac_graph_set_output(graph, "probabilities", ac_softmax(logits));
  ac_graph_set_loss(graph, ac_cross_entropy(logits, classes, NULL, NULL));
}

static int largest(const float *row) {
  int best = 0;
  for (int k = 1; k < CLASSES; k++)
    if (row[k] > row[best]) best = k;
  return best;
}

/* ---- what it says of samples ----------------------------------------------------------------- */

/* Any number of samples, in the memory of training. Targets need no feed. */
static ac_status look(ac_trainer *trainer, int update) {
  static float chances[POINTS][CLASSES], embedding[POINTS][HIDDEN];
  const ac_feed feed = {"x", x};
  ac_status status =
      ac_trainer_predict(trainer, "probabilities", POINTS, &feed, 1, POINTS * CLASSES, chances[0]);
  if (status == AC_OK)
    status =
        ac_trainer_predict(trainer, "embedding", POINTS, &feed, 1, POINTS * HIDDEN, embedding[0]);
  int right = 0;
  double length = 0;
  for (int i = 0; i < POINTS; i++) {
    right += largest(chances[i]) == labels[i];
    for (int k = 0; k < HIDDEN; k++)
      length += (double)embedding[i][k] * (double)embedding[i][k] / POINTS;
  }
  printf("update %3d: %3d of %d right, squared length of embeddings %.2f\n", update, right, POINTS,
         length);
  return status;
}

/* ---- what windows compute -------------------------------------------------------------------- */

typedef struct counts {
  const int32_t *labels; /* of the window */
  int right, samples;
} counts;

/* Micro-batches come one after another; view->first is the place in the window. */
static void count_right(void *user, const ac_tensor_view *view) {
  counts *c = user;
  for (int64_t i = 0; i < view->count; i++)
    c->right += largest(view->data + i * view->elements) == c->labels[view->first + i];
  c->samples += (int)view->count;
}

/* ---- a session with the trainer's weights ---------------------------------------------------- */

/* The plan shares all parameters, so the session takes memory for activations alone. */
static ac_status open_session(ac_session **session, ac_plan **plan, const ac_graph *graph,
                              ac_device *device, const ac_trainer *trainer) {
  const ac_plan_desc policy = {.purpose = AC_PREDICT, .batch = 1, .shared = "*"};
  ac_status status = ac_plan_create(plan, graph, device, &policy);
  if (status == AC_OK) status = ac_session_create_shared(session, *plan, 0, trainer);
  return status;
}

/* ---------------------------------------------------------------------------------------------- */

static ac_status train(ac_trainer *trainer, ac_trainer *teacher) {
  ac_status status = AC_OK;
  for (int update = 1; update <= UPDATES && status == AC_OK; update++) {
    const int first = update * BATCH % POINTS;
    const ac_feed feeds[] = {{"x", x[first]}, {"labels", labels + first}};
    counts c = {.labels = labels + first};
    const bool watch = update % 100 == 0;
    if (watch) status = ac_trainer_watch_tensor(trainer, "logits", count_right, &c);
    if (status == AC_OK) status = ac_trainer_accumulate(trainer, BATCH, feeds, 2);
    if (status == AC_OK) status = ac_trainer_update(trainer, NULL);
    /* The teacher: p = p + 0.02 (q - p). */
    if (status == AC_OK) status = ac_trainer_copy_weights(teacher, NULL, trainer, NULL, 0.02);
    if (!watch || status != AC_OK) continue;
    status = ac_trainer_watch_tensor(trainer, "logits", NULL, NULL);
    printf("the window had %d of %d right\n", c.right, c.samples);
    if (status == AC_OK) status = look(trainer, update);
  }
  return status;
}

/* The last window's logits, kept as a whole. */
static ac_status keep_window(ac_trainer *trainer, float logits[BATCH][CLASSES]) {
  ac_tensor_buffer buffer = {logits[0], BATCH * CLASSES};
  const ac_feed feeds[] = {{"x", x}, {"labels", labels}};
  ac_status status = ac_trainer_watch_tensor(trainer, "logits", ac_keep_tensor, &buffer);
  if (status == AC_OK) status = ac_trainer_accumulate(trainer, BATCH, feeds, 2);
  if (status == AC_OK) status = ac_trainer_watch_tensor(trainer, "logits", NULL, NULL);
  ac_trainer_discard(trainer);
  return status;
}

int main(void) {
  static float kept[BATCH][CLASSES], shared[BATCH][CLASSES], taught[POINTS][CLASSES];
  const ac_feed feed = {"x", x};
  const ac_trainer_desc training = {.seed = 1, .schedule = {.lr = 0.01}};
  ac_device *device = NULL;
  ac_graph *graph = NULL;
  ac_plan *plan = NULL, *predicts = NULL;
  ac_trainer *trainer = NULL, *teacher = NULL;
  ac_session *session = NULL;
  make_points();
  ac_status status = ac_graph_create(&graph);
  if (status == AC_OK) describe(graph);
  if (status == AC_OK)
    status = ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1});
  if (status == AC_OK)
    status =
        ac_plan_create(&plan, graph, device, &(ac_plan_desc){.batch = BATCH, .micro_batch = 20});
  if (status == AC_OK) status = ac_trainer_create(&trainer, plan, &training);
  if (status == AC_OK) status = ac_trainer_create(&teacher, plan, &training);
  if (status == AC_OK) status = train(trainer, teacher);
  if (status == AC_OK) status = keep_window(trainer, kept);
  if (status == AC_OK) status = open_session(&session, &predicts, graph, device, trainer);
  if (status == AC_OK)
    status = ac_session_predict(session, "logits", BATCH, &feed, 1, BATCH * CLASSES, shared[0]);
  if (status == AC_OK)
    status = ac_trainer_predict(teacher, "logits", POINTS, &feed, 1, POINTS * CLASSES, taught[0]);
  if (status != AC_OK) fprintf(stderr, "predict_in_training: %s\n", ac_last_error());

  double apart = 0;
  int right = 0;
  for (int i = 0; i < BATCH; i++)
    for (int k = 0; k < CLASSES; k++)
      apart = fmax(apart, fabs((double)kept[i][k] - (double)shared[i][k]));
  for (int i = 0; i < POINTS; i++) right += largest(taught[i]) == labels[i];
  printf("the session's logits are within %.0e of the window's\n", fmax(apart, 1e-6));
  printf("the teacher has %d of %d right\n", right, POINTS);
  ac_session_free(session);
  ac_trainer_free(teacher);
  ac_trainer_free(trainer);
  ac_plan_free(predicts);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(graph);
  return status == AC_OK && apart < 1e-4 && right > 0.95 * POINTS ? 0 : 1;
}
