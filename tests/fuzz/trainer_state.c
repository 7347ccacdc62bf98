/* State files of a trainer: the input is the text of the header, a 0, and the data. The header's
 * length and all checksums are corrected, so that the checks after them meet the input's changes.
 *
 * A trainer with a window in progress loads each input. If it refuses, it is what it was, bit for
 * bit; if not, it saves a state that is loaded and saved as the same bytes, and goes on. */
#include "fuzz.h"

#include "window/trainer.h"
#include "io/checksum.h"
#include "support/checksums.h"

#include <accrue/accrue.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 5, CHANNELS = 2, WIDTH = 2, LONGEST = 1 << 14 };

static ac_trainer *trainer;
static ac_dataset *dataset;
static char before[264], saved[264], again[264]; /* paths */

/* ---- the trainer ----------------------------------------------------------------------------- */

static ac_graph *make_graph(void) {
  const ac_parameter_desc frozen = {.frozen = true}, zeros = {.init = {AC_INIT_ZERO}};
  ac_graph *graph;
  FUZZ_CHECK(ac_graph_create(&graph) == AC_OK);
  ac_tensor *x = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, CHANNELS, WIDTH));
  ac_tensor *mean = ac_parameter(graph, "mean", AC_SHAPE(CHANNELS), &frozen);
  ac_tensor *variance = ac_parameter(graph, "var", AC_SHAPE(CHANNELS), &frozen);
  ac_tensor *w = ac_parameter(graph, "w", AC_SHAPE(WIDTH, WIDTH), &zeros);
  ac_tensor *h = ac_batch_norm(x, NULL, NULL, mean, variance, NULL);
  ac_graph_set_loss(graph, ac_mean_squared_error(ac_linear(h, w, NULL, AC_OUT_IN), x, NULL));
  FUZZ_CHECK(ac_graph_status(graph) == AC_OK);
  return graph;
}

static ac_dataset *make_dataset(void) {
  static float x[SAMPLES * CHANNELS * WIDTH];
  const ac_field field = {"x", AC_F32, CHANNELS * WIDTH};
  const void *const data[] = {x};
  ac_dataset *made;
  FUZZ_CHECK(ac_dataset_from_memory(&made, SAMPLES, 1, &field, data) == AC_OK);
  return made;
}

static bool stop_soon(void *user) {
  int *left = user;
  return (*left)-- == 0;
}

/* Until so many micro-batches have run. A step has two, an epoch three steps. */
static ac_status go_on(int64_t steps, int micro_batches) {
  return ac_fit(trainer,
                &(ac_fit_desc){.train = dataset,
                               .validation = dataset,
                               .steps = steps,
                               .eval_every = 2,
                               .resume = true,
                               .fingerprint = "fuzz",
                               .keep_window = true,
                               .stop = stop_soon,
                               .user = &micro_batches},
                NULL);
}

/* In a folder of its own, which stays: a fuzzer's end calls nothing. run.sh removes it. */
static void make_paths(void) {
  const char *within = getenv("TMPDIR");
  char folder[256];
  const int length =
      snprintf(folder, sizeof folder, "%s/accrue-fuzz-XXXXXX", within ? within : "/tmp");
  FUZZ_CHECK(length < (int)sizeof folder && mkdtemp(folder));
  snprintf(before, sizeof before, "%s/before", folder);
  snprintf(saved, sizeof saved, "%s/saved", folder);
  snprintf(again, sizeof again, "%s/again", folder);
}

static void make_trainer(void) {
  ac_device *device;
  ac_plan *plan;
  ac_graph *graph = make_graph();
  const ac_plan_desc desc = {.batch = 2, .micro_batch = 1, .batch_norm = AC_BATCH_NORM_MICRO};
  const ac_trainer_desc trains = {.loss_scaling = {.kind = AC_LOSS_SCALING_DYNAMIC},
                                  .noise_every = 1};
  FUZZ_CHECK(ac_device_open(&device, &(ac_device_desc){.name = "cpu"}) == AC_OK);
  FUZZ_CHECK(ac_plan_create(&plan, graph, device, &desc) == AC_OK);
  FUZZ_CHECK(ac_trainer_create(&trainer, plan, &trains) == AC_OK);
  ac_graph_free(graph);
  dataset = make_dataset();
  make_paths();
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static int count_tensors(const char *header) {
  int count = 0;
  for (const char *at = header; (at = strstr(at, "\"data_offsets\"")); at++) count++;
  return count;
}

/* The header with room for as many checksums as it has tensors. */
static size_t put_header(const char *text, char *header, size_t most) {
  char *digits = ac_checksum_digits((char *)text, AC_TENSOR_CHECKSUMS);
  const char *end = digits ? strchr(digits, '"') : NULL;
  if (!end) return (size_t)snprintf(header, most, "%s", text);
  const int room = AC_CHECKSUM_DIGITS * count_tensors(text);
  return (size_t)snprintf(header, most, "%.*s%0*d%s", (int)(digits - text), text, room, 0, end);
}

/* Returns the file's length; 0: the input is none. */
static size_t make_file(const uint8_t *input, size_t bytes, uint8_t *file) {
  static char text[LONGEST];
  const size_t length = strnlen((const char *)input, bytes);
  const size_t data = length < bytes ? bytes - length - 1 : 0;
  if (bytes >= LONGEST) return 0;
  memcpy(text, input, length);
  text[length] = 0;
  const size_t header = put_header(text, (char *)file + 8, 2 * LONGEST);
  if (header >= 2 * LONGEST) return 0;
  for (int i = 0; i < 8; i++) file[i] = (uint8_t)((uint64_t)header >> 8 * i);
  memcpy(file + 8 + header, input + bytes - data, data);
  put_checksums_right(file, 8 + header + data);
  return 8 + header + data;
}

/* ---- what has to hold ------------------------------------------------------------------------ */

static void check_same_files(const char *a, const char *b) {
  static char data[2][4 * LONGEST];
  size_t bytes[2];
  for (int i = 0; i < 2; i++) {
    FILE *file = fopen(i ? b : a, "rb");
    FUZZ_CHECK(file);
    bytes[i] = fread(data[i], 1, sizeof data[i], file);
    fclose(file);
  }
  FUZZ_CHECK(bytes[0] == bytes[1] && bytes[0] < sizeof data[0]);
  FUZZ_CHECK(!memcmp(data[0], data[1], bytes[0]));
}

static void check_loaded(void) {
  ac_progress progress;
  FUZZ_CHECK(ac_trainer_save_state(trainer, saved, NULL, 0) == AC_OK);
  FUZZ_CHECK(ac_trainer_load_state(trainer, saved) == AC_OK);
  FUZZ_CHECK(ac_trainer_save_state(trainer, again, NULL, 0) == AC_OK);
  check_same_files(saved, again);
  FUZZ_CHECK(ac_trainer_get_progress(trainer, &progress) == AC_OK);
  if (go_on(progress.steps + 2, 8) != AC_OK) fuzz_check_sentence();
  FUZZ_CHECK(ac_trainer_load_state(trainer, before) == AC_OK);
}

static void run(const uint8_t *input, size_t bytes) {
  static uint8_t file[4 * LONGEST];
  static ac_trainer was;
  const size_t length = make_file(input, bytes, file);
  const uint64_t hash = fuzz_memory_hash();
  was = *trainer;
  if (ac_trainer_load_state(trainer, fuzz_file(0, file, length)) == AC_OK) {
    check_loaded();
    return;
  }
  fuzz_check_sentence();
  FUZZ_CHECK(fuzz_memory_hash() == hash && !memcmp(&was, trainer, sizeof was));
}

static void take_state(fuzz_take take, const char *path) {
  static uint8_t data[LONGEST];
  FUZZ_CHECK(ac_trainer_save_state(trainer, path, NULL, 0) == AC_OK);
  FILE *file = fopen(path, "rb");
  FUZZ_CHECK(file);
  const size_t bytes = fread(data, 1, sizeof data, file);
  fclose(file);
  const size_t header = data[0] + 256u * data[1];
  FUZZ_CHECK(8 + header < bytes && bytes < sizeof data);
  memmove(data, data + 8, header);
  data[header] = 0;
  memmove(data + header + 1, data + 8 + header, bytes - 8 - header);
  take(data, bytes - 7);
}

static void seeds(fuzz_take take) {
  make_trainer();
  take_state(take, before);
  for (int micro_batches = 1; micro_batches < 6; micro_batches += 2) {
    FUZZ_CHECK(go_on(9, micro_batches) == AC_OK);
    take_state(take, before);
  }
}

const fuzz_format fuzz_trainer_state = {"trainer_state", run, seeds};
