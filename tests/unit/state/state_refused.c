/* State files that cannot be loaded or resumed: each is refused with a message, and the trainer,
 * with a window in progress, does not change. */
#include "support/victims.h"

#include <math.h>

#include "support/checksums.h"
#include "core/error.h"
#include "io/checksum.h"
#include "io/safetensors.h"

static void refuses(const victim *v, const char *path, ac_status status, const char *mention) {
  assert_refused(ac_trainer_load_state(v->r.trainer, path), status, mention);
  assert_non_null(strstr(ac_last_error(), path));
  assert_untouched(v, mention);
}

/* ---- damage ---------------------------------------------------------------------------------- */

static void put_byte(const char *path, size_t at, unsigned char byte) {
  FILE *stream = fopen(path, "r+b");
  assert_non_null(stream);
  assert_int_equal(fseek(stream, (long)at, SEEK_SET), 0);
  assert_int_equal(fputc(byte, stream), byte);
  assert_int_equal(fclose(stream), 0);
}

static void any_damage_is_found(void **state) {
  (void)state;
  static const unsigned char flips[] = {1, 0xff};
  const test_path good = good_state(), bad = in_folder("damaged");
  victim v = make_victim(&both, &split, &trained, 3);
  size_t bytes;
  unsigned char *data = read_file(good.text, &bytes);
  data[bytes] = 0;
  write_file(bad.text, data, bytes + 1);
  refuses(&v, bad.text, AC_ERROR_FORMAT, "last 1 bytes");
  assert_int_equal(truncate(bad.text, (off_t)bytes), 0);
  for (size_t at = 0; at < bytes; at++) {
    for (int k = 0; k < 2; k++) {
      put_byte(bad.text, at, data[at] ^ flips[k]);
      refuses(&v, bad.text, AC_ERROR_FORMAT, "");
    }
    put_byte(bad.text, at, data[at]);
  }
  for (size_t length = bytes; length-- > 0;) {
    assert_int_equal(truncate(bad.text, (off_t)length), 0);
    refuses(&v, bad.text, AC_ERROR_FORMAT, "");
  }
  free(data);
  refuses(&v, in_folder("none").text, AC_ERROR_IO, "No such file");
  free_victim(&v);
}

/* What the checksums say where the file is a file of tensors. */
static void damage_is_named(void **state) {
  (void)state;
  const test_path good = good_state(), bad = in_folder("damaged");
  victim v = make_victim(&both, &split, &trained, 3);
  size_t bytes;
  unsigned char *data = read_file(good.text, &bytes);
  data[bytes - 1] ^= 1;
  write_file(bad.text, data, bytes);
  refuses(&v, bad.text, AC_ERROR_FORMAT, "is damaged: tensor \"");
  data[bytes - 1] ^= 1;
  char *digit = strstr((char *)data + 8, "\"accrue.state.updates\":\"1\"");
  assert_non_null(digit);
  *strchr(digit, '1') = '2';
  write_file(bad.text, data, bytes);
  refuses(&v, bad.text, AC_ERROR_FORMAT, "is damaged: its header");
  free(data);
  free_victim(&v);
}

/* ---- files that are whole but say something else --------------------------------------------- */

enum { MOST_KEYS = 64, MOST_TENSORS = 64 };

typedef struct text_pair {
  char key[64], value[512];
} text_pair;

/* What a file holds. */
typedef struct holding {
  text_pair pairs[MOST_KEYS];
  int pair_count, tensor_count;
  ac_model_tensor tensors[MOST_TENSORS];
  char names[MOST_TENSORS][64];
  float data[MOST_TENSORS][64];
} holding;

/* Their texts have nothing in them that JSON escapes. */
static void take_pairs(holding *h, const char *path) {
  size_t bytes;
  char *header = (char *)read_file(path, &bytes) + 8;
  for (const char *at = header; (at = strstr(at, "\"accrue.state.")); at++) {
    text_pair *pair = &h->pairs[h->pair_count++];
    assert_true(h->pair_count <= MOST_KEYS);
    assert_int_equal(sscanf(at, "\"%63[^\"]\":\"%511[^\"]\"", pair->key, pair->value), 2);
  }
  assert_true(h->pair_count > 20);
  free(header - 8);
}

static void take_tensors(holding *h, const char *path) {
  ac_model_file *file;
  assert_ok(ac_model_file_open(&file, path));
  h->tensor_count = ac_model_file_tensor_count(file);
  assert_in_range(h->tensor_count, 1, MOST_TENSORS - 1);
  for (int i = 0; i < h->tensor_count; i++) {
    ac_model_tensor *tensor = &h->tensors[i];
    *tensor = *ac_model_file_tensor(file, i);
    int64_t elements = 1;
    for (int d = 0; d < tensor->rank; d++) elements *= tensor->shape[d];
    assert_true(elements <= 64 && strlen(tensor->name) < 64);
    tensor->name = strcpy(h->names[i], tensor->name);
    assert_ok(ac_model_file_read(file, i, 0, elements, h->data[i]));
  }
  ac_model_file_close(file);
}

static holding *holding_of(const char *path) {
  holding *h = calloc(1, sizeof *h);
  assert_non_null(h);
  take_pairs(h, path);
  take_tensors(h, path);
  return h;
}

static ac_status copy_data(void *user, int index, int64_t first, int64_t count, void *to) {
  const holding *h = user;
  memcpy(to, h->data[index] + first, (size_t)count * sizeof(float));
  return AC_OK;
}

/* With the checksums of what it holds now. */
static void write_holding(const holding *h, const char *path) {
  ac_metadata metadata[MOST_KEYS];
  for (int i = 0; i < h->pair_count; i++)
    metadata[i] = (ac_metadata){h->pairs[i].key, h->pairs[i].value};
  assert_ok(ac_model_file_write_by(&(ac_write_rules){.checksums = true}, path, h->tensors,
                                   h->tensor_count, metadata, h->pair_count, copy_data, (void *)h));
}

static text_pair *find_pair(holding *h, const char *key) {
  char whole[96];
  snprintf(whole, sizeof whole, "accrue.state.%s", key);
  for (int i = 0; i < h->pair_count; i++)
    if (!strcmp(h->pairs[i].key, whole)) return &h->pairs[i];
  fail_msg("there is no %s", whole);
  abort();
}

static void refuses_value(const victim *v, const holding *h, const char *key) {
  const test_path bad = in_folder("changed");
  char sentence[128];
  snprintf(sentence, sizeof sentence, "%s is missing or makes no sense", key);
  write_holding(h, bad.text);
  refuses(v, bad.text, AC_ERROR_FORMAT, sentence);
}

/* No value may be missing, be text, be followed by some, or be too large for its type. */
static void every_value_is_needed(void **state) {
  (void)state;
  static const char *const nonsense[] = {"",   "x",  "1x",  "1 ",  " 1",
                                         "+1", "-1", "1.5", "0x1", "99999999999999999999"};
  victim v = make_victim(&both, &split, &trained, 3);
  holding *h = holding_of(good_state().text);
  write_holding(h, in_folder("same").text); /* what is written here is what the library writes */
  run r = start_model("cpu", &both, &split, &trained);
  assert_ok(ac_trainer_load_state(r.trainer, in_folder("same").text));
  end_run(&r);
  for (int i = 0; i < h->pair_count; i++) {
    text_pair kept = h->pairs[i];
    const bool real = strchr(kept.value, ' ') || !strcmp(kept.key, "accrue.state.loss_scale");
    for (size_t k = 0; k < sizeof nonsense / sizeof *nonsense; k++) {
      if (real && k >= 3 && k != 6) continue;
      strcpy(h->pairs[i].value, nonsense[k]);
      refuses_value(&v, h, kept.key);
    }
    h->pairs[i] = h->pairs[--h->pair_count];
    write_holding(h, in_folder("changed").text);
    if (!strcmp(kept.key, "accrue.state.version"))
      refuses(&v, in_folder("changed").text, AC_ERROR_FORMAT, "is not the state of a trainer");
    else refuses_value(&v, h, kept.key);
    h->pairs[h->pair_count++] = h->pairs[i];
    h->pairs[i] = kept;
  }
  free(h);
  free_victim(&v);
}

/* A state within a window, with a noise scale and a batch of its own. */
static void noise_and_batch_make_sense(void **state) {
  (void)state;
  static const struct {
    const char *key, *value; /* NULL: it is missing */
  } cases[] = {{"noise.count", NULL},
               {"noise.gs", NULL},
               {"noise.first_samples", "3"},
               {"noise.first_samples", "x"},
               {"noise.first_weight", "0"},
               {"noise.first_weight", "-1"},
               {"noise.first_squares", "inf"},
               {"noise.count", "-1"},
               {"noise.g", "nan"},
               {"noise.s", "inf"},
               {"noise.gg", "-1"},
               {"noise.ss", "nan"},
               {"window.batch", "0"},
               {"window.batch", "5"},
               {"window.batch", "x"}};
  ac_trainer_desc desc = trained;
  desc.noise_every = 1;
  victim v = make_victim(&both, &split, &desc, 3);
  run r = start_model("cpu", &both, &split, &desc);
  assert_ok(ac_trainer_set_batch(r.trainer, 3));
  assert_ok(feed_samples(&r, 0, 2));
  holding *h = holding_of(save_run(&r, "good").text);
  end_run(&r);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    text_pair *pair = find_pair(h, cases[i].key), kept = *pair;
    if (cases[i].value) strcpy(pair->value, cases[i].value);
    else *pair = h->pairs[--h->pair_count];
    refuses_value(&v, h, kept.key);
    if (!cases[i].value) h->pairs[h->pair_count++] = *pair;
    *pair = kept;
  }
  free(h);
  free_victim(&v);
}

/* A state with what is known of spikes and of layers. */
static void what_is_watched_makes_sense(void **state) {
  (void)state;
  static const struct {
    const char *key, *value; /* NULL: it is missing */
  } cases[] = {{"spikes.count", NULL},   {"spikes.count", "65"},
               {"spikes.rate", "0"},     {"spikes.rate", "1.5"},
               {"spikes.rate", "nan"},   {"spikes.history", NULL},
               {"spikes.history", "1"},  {"spikes.history", "1 nan"},
               {"spikes.history", ""},   {"spikes.history", "1 2 3 4"},
               {"spikes.has_good", "2"}, {"spikes.good_step", "-1"},
               {"layers", ""},           {"layers", "1 1"},
               {"layers", "x"},          {"layers", "-1 9"}};
  ac_trainer_desc desc = trained;
  desc.spikes.policy = AC_SPIKE_TELL;
  desc.layers_every = 1;
  victim v = make_victim(&both, &split, &desc, 3);
  run r = start_model("cpu", &both, &split, &desc);
  assert_ok(feed_samples(&r, 0, 4));
  assert_ok(ac_trainer_update(r.trainer, NULL));
  holding *h = holding_of(save_run(&r, "good").text);
  end_run(&r);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    text_pair *pair = find_pair(h, cases[i].key), kept = *pair;
    if (cases[i].value) strcpy(pair->value, cases[i].value);
    else *pair = h->pairs[--h->pair_count];
    refuses_value(&v, h, kept.key);
    if (!cases[i].value) h->pairs[h->pair_count++] = *pair;
    *pair = kept;
  }
  text_pair *pair = find_pair(h, "layers");
  for (size_t length = strlen(pair->value); length-- > 1;) { /* cut anywhere */
    pair->value[length] = 0;
    if (length > 8) refuses_value(&v, h, pair->key);
  }
  free(h);
  free_victim(&v);
}

/* Numbers that no run can have. */
static void values_make_sense(void **state) {
  (void)state;
  static const struct {
    const char *key, *value;
  } cases[] = {
      {"optimizer", "9"},
      {"precision", "3"},
      {"loss_scaling", "4"},
      {"loss_scale", "0"},
      {"loss_scale", "nan"},
      {"loss_scale", "inf"},
      {"loss_scale", "1e39"},
      {"loss_scale", "1e-60"},
      {"loss_scale.stuck", "2"},
      {"fit.begun", "2"},
      {"fit.evaluation_due", "2"},
      {"fit.no_shuffle", "2"},
      {"window.fed", "1 2 3"},
      {"window.fed", "0 0 0 0 0 0 0 0 0"},
      {"window.whole", "0 0 0 0 0 0 0"},
  };
  const test_path bad = in_folder("changed");
  victim v = make_victim(&both, &split, &trained, 3);
  holding *h = holding_of(good_state().text);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    text_pair *pair = find_pair(h, cases[i].key), kept = *pair;
    strcpy(pair->value, cases[i].value);
    refuses_value(&v, h, kept.key);
    *pair = kept;
  }
  strcpy(find_pair(h, "version")->value, "2");
  write_holding(h, bad.text);
  refuses(&v, bad.text, AC_ERROR_UNSUPPORTED, "is a state of version 2; 1 is read");
  free(h);
  free_victim(&v);
}

/* A schedule that depends on validation has four more values, which are there together. */
static void a_plateau_is_whole(void **state) {
  (void)state;
  static const char *const keys[] = {"plateau.best", "plateau.bad", "plateau.cooling",
                                     "plateau.reductions"};
  static const char *const nonsense[] = {"nan", "-1", "1.5", "99999999999999999999"};
  ac_trainer_desc desc = trained;
  desc.schedule.kind = AC_SCHEDULE_PLATEAU;
  const test_path good = in_folder("plateau");
  run r = begin_run(&both, &split, &desc, 3, 3);
  assert_ok(ac_trainer_observe_validation(r.trainer, 2));
  assert_ok(ac_trainer_save_state(r.trainer, good.text, NULL, 0));
  end_run(&r);
  victim v = make_victim(&both, &split, &desc, 3);
  holding *h = holding_of(good.text);
  for (int i = 0; i < 4; i++) {
    text_pair *pair = find_pair(h, keys[i]), kept = *pair;
    strcpy(pair->value, nonsense[i]);
    refuses_value(&v, h, kept.key);
    *pair = h->pairs[--h->pair_count];
    refuses_value(&v, h, kept.key);
    h->pairs[h->pair_count++] = *pair;
    *pair = kept;
  }
  free(h);
  free_victim(&v);
}

/* The rate of a run did not depend on validation, and begins to. */
static void a_plateau_begins_where_there_was_none(void **state) {
  (void)state;
  ac_trainer_desc desc = trained;
  desc.schedule.kind = AC_SCHEDULE_PLATEAU;
  run r = begin_run(&both, &split, &desc, 3, 3);
  for (int i = 0; i < 20; i++) assert_ok(ac_trainer_observe_validation(r.trainer, 2));
  assert_true(ac_trainer_rate(r.trainer) < trained.schedule.lr);
  assert_ok(ac_trainer_load_state(r.trainer, good_state().text));
  assert_true(ac_trainer_rate(r.trainer) == trained.schedule.lr);
  assert_true(isinf(AC_WATCHED(&r.trainer->run, plateau)->best));
  end_run(&r);
}

static void every_tensor_is_needed(void **state) {
  (void)state;
  const test_path bad = in_folder("changed");
  victim v = make_victim(&both, &split, &trained, 3);
  holding *h = holding_of(good_state().text);
  char sentence[128];
  for (int i = 0; i < h->tensor_count; i++) {
    const ac_model_tensor kept = h->tensors[i];
    snprintf(sentence, sizeof sentence, "tensor \"%s\" is not f32 [", kept.name);
    h->tensors[i].dtype = AC_I32;
    write_holding(h, bad.text);
    refuses(&v, bad.text, AC_ERROR_FORMAT, sentence);
    h->tensors[i] = kept;
    h->tensors[i].shape[0] = 1;
    write_holding(h, bad.text);
    refuses(&v, bad.text, AC_ERROR_FORMAT, sentence);
    h->tensors[i] = kept;
    h->tensors[i].name = "another";
    snprintf(sentence, sizeof sentence, "holds no tensor \"%s\"", kept.name);
    write_holding(h, bad.text);
    refuses(&v, bad.text, AC_ERROR_FORMAT, sentence);
    h->tensors[i] = kept;
  }
  h->tensors[h->tensor_count++] = (ac_model_tensor){"another", AC_U8, 1, {3}};
  write_holding(h, bad.text);
  refuses(&v, bad.text, AC_ERROR_FORMAT, "tensor \"another\", which the model does not have");
  free(h);
  free_victim(&v);
}

/* Tensors of dtypes that Accrue does not list are not passed over, as they are in model files,
 * whether they have a checksum or not. */
static void tensors_of_other_dtypes_are_refused(void **state) {
  (void)state;
  const test_path bad = in_folder("changed");
  const char *sentence = "holds tensor \"another\" in a dtype that no state has";
  victim v = make_victim(&both, &split, &trained, 3);
  holding *h = holding_of(good_state().text);
  h->tensors[h->tensor_count++] = (ac_model_tensor){"another", AC_U8, 1, {3}};
  write_holding(h, bad.text);
  size_t bytes;
  char *file = (char *)read_file(bad.text, &bytes);
  char *dtype = strstr(file + 8, "\"U8\"");
  char *last = strchr(ac_checksum_digits(file + 8, AC_TENSOR_CHECKSUMS), '"') - AC_CHECKSUM_DIGITS;
  assert_non_null(dtype);
  dtype[1] = 'I';
  put_checksums_right((unsigned char *)file, bytes);
  write_file(bad.text, file, bytes);
  refuses(&v, bad.text, AC_ERROR_FORMAT, sentence);
  memmove(last, last + AC_CHECKSUM_DIGITS, 1); /* the text's end */
  memset(last + 1, ' ', AC_CHECKSUM_DIGITS);
  put_checksums_right((unsigned char *)file, bytes);
  write_file(bad.text, file, bytes);
  refuses(&v, bad.text, AC_ERROR_FORMAT, sentence);
  free(file);
  free(h);
  free_victim(&v);
}

/* ---- other trainers -------------------------------------------------------------------------- */

static void other_trainers_refuse(void **state) {
  (void)state;
  const ac_plan_desc momentum = {.batch = BATCH, .optimizer = {.kind = AC_SGD}},
                     plain = {.batch = BATCH,
                              .optimizer = {.kind = AC_SGD, .sgd_no_momentum = true}},
                     adamw = {.batch = BATCH},
                     lion = {.batch = BATCH, .optimizer = {.kind = AC_LION}},
                     muon = {.batch = BATCH, .optimizer = {.kind = AC_MUON}};
  const shape_of_model one = {0}, norm = {.norm = true}, wider = {.hidden = 5};
  const struct {
    const shape_of_model *from, *to;
    const ac_plan_desc *saved, *plan;
    const char *sentence;
  } cases[] = {
      {&one, &one, &adamw, &momentum, "is of a run with AdamW, and the plan is for SGD"},
      {&one, &one, &plain, &adamw, "is of a run with SGD, and the plan is for AdamW"},
      {&one, &one, &lion, &momentum, "is of a run with Lion, and the plan is for SGD"},
      {&one, &one, &adamw, &muon, "is of a run with AdamW, and the plan is for Muon"},
      {&one, &one, &plain, &momentum, "holds no tensor \"accrue/state.0/encoder\""},
      {&one, &one, &momentum, &plain,
       "tensor \"accrue/state.0/encoder\", which the model does not"},
      {&one, &wider, &adamw, &adamw, "tensor \"encoder\" is not f32 [5, 4]"},
      {&one, &norm, &adamw, &adamw, "holds no tensor \"norm.weight\""},
      {&norm, &one, &adamw, &adamw, "tensor \"norm.weight\", which the model does not have"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    run r = begin_run(cases[i].from, cases[i].saved, &trained, 0, 0);
    const test_path path = save_run(&r, "other");
    end_run(&r);
    victim v = make_victim(cases[i].to, cases[i].plan, &trained, i % 2 ? 0 : BATCH);
    refuses(&v, path.text, AC_ERROR_FORMAT, cases[i].sentence);
    free_victim(&v);
  }
}

static void windows_go_on_only_with_their_like(void **state) {
  (void)state;
  const test_path path = good_state();
  const char *sentence = "holds a window in progress, which goes on only with its batch of 4";
  ac_plan_desc plan = split;
  plan.batch = 6;
  victim v = make_victim(&both, &plan, &trained, 3);
  refuses(&v, path.text, AC_ERROR_FORMAT, sentence);
  free_victim(&v);
  plan = split;
  plan.precision = AC_PRECISION_BF16;
  v = make_victim(&both, &plan, &trained, 3);
  refuses(&v, path.text, AC_ERROR_FORMAT, sentence);
  free_victim(&v);
  ac_trainer_desc scaled = trained;
  scaled.loss_scaling.kind = AC_LOSS_SCALING_STATIC;
  v = make_victim(&both, &split, &scaled, 3);
  refuses(&v, path.text, AC_ERROR_FORMAT, sentence);
  free_victim(&v);
  plan = split;
  plan.micro_batch = BATCH;
  plan.whole_windows = true;
  v = make_victim(&both, &plan, &trained, 0);
  refuses(&v, path.text, AC_ERROR_FORMAT, "and the plan was made for whole windows");
  free_victim(&v);
}

/* Of a model's file the sentence says what it is not, not what it lacks. */
static void model_files_are_no_states(void **state) {
  (void)state;
  const test_path path = in_folder("model");
  victim v = make_victim(&both, &split, &trained, 3);
  assert_ok(ac_trainer_save(v.r.trainer, path.text, NULL, 0));
  refuses(&v, path.text, AC_ERROR_FORMAT, "is not the state of a trainer");
  write_file(path.text, "\2\0\0\0\0\0\0\0{}", 10);
  refuses(&v, path.text, AC_ERROR_FORMAT, "is not the state of a trainer");
  free_victim(&v);
}

/* ---- when it may not be ---------------------------------------------------------------------- */

static const char *deciding_path;

static void decide(void *user, ac_trainer *trainer, ac_decision *decision) {
  (void)decision;
  int *asked = user;
  float zero = 0;
  ac_progress progress;
  assert_refused(ac_trainer_save_state(trainer, deciding_path, NULL, 0), AC_ERROR_STATE,
                 "is being decided");
  assert_refused(ac_trainer_load_state(trainer, deciding_path), AC_ERROR_STATE, "is being decided");
  assert_refused(ac_trainer_load_part(trainer, deciding_path, "*", NULL), AC_ERROR_STATE,
                 "is being decided");
  assert_refused(ac_trainer_set_state(trainer, 0, 0, 0, 1, &zero), AC_ERROR_STATE,
                 "is being decided");
  assert_ok(ac_trainer_get_progress(trainer, &progress));
  assert_ok(
      ac_trainer_get_state(trainer, ac_trainer_find_parameter(trainer, "shared"), 0, 0, 1, &zero));
  ++*asked;
}

static void a_decision_is_no_time_for_it(void **state) {
  (void)state;
  const test_path good = good_state();
  int asked = 0;
  ac_trainer_desc asking = trained;
  deciding_path = good.text;
  victim plain = make_victim(&both, &split, &trained, 2);
  asking.decide = decide;
  asking.user = &asked;
  victim v = make_victim(&both, &split, &asking, 2);
  assert_same("a decision", &plain.after, &v.after);
  free_victim(&plain);
  free_victim(&v);
  assert_int_equal(asked, 4);
}

/* A window with gradients in the arena cannot be saved, but can be ended. */
static void whole_windows_are_not_saved(void **state) {
  (void)state;
  const test_path path = in_folder("whole");
  const ac_plan_desc plan = {.batch = BATCH, .whole_windows = true};
  const shape_of_model one = {0};
  run r = begin_run(&one, &plan, &trained, 3, 2);
  const snapshot before = look_at(&r);
  assert_refused(ac_trainer_save_state(r.trainer, path.text, NULL, 0), AC_ERROR_STATE,
                 "update or discard it first");
  assert_int_equal(access(path.text, F_OK), -1);
  const snapshot now = look_at(&r);
  assert_same("whole windows", &before, &now);
  assert_ok(ac_trainer_update(r.trainer, NULL));
  assert_ok(ac_trainer_save_state(r.trainer, path.text, NULL, 0));
  end_run(&r);
}

/* What was there before stays, and no other file remains. */
static void a_failed_save_leaves_the_file(void **state) {
  (void)state;
  victim v = make_victim(&both, &split, &trained, 3);
  const test_path good = good_state(), none = in_folder("none/state");
  size_t bytes[2];
  unsigned char *before = read_file(good.text, &bytes[0]);
  const ac_metadata twice[] = {{"a", "1"}, {"a", "2"}};
  assert_refused(ac_trainer_save_state(v.r.trainer, good.text, twice, 2), AC_ERROR_ARGUMENT,
                 "metadata \"a\" comes twice");
  assert_refused(ac_trainer_save_state(v.r.trainer, good.text, NULL, -1), AC_ERROR_ARGUMENT,
                 "negative number of metadata");
  assert_refused(ac_trainer_save_state(v.r.trainer, none.text, NULL, 0), AC_ERROR_IO, "none/state");
  assert_untouched(&v, "a failed save");
  unsigned char *after = read_file(good.text, &bytes[1]);
  assert_int_equal(bytes[0], bytes[1]);
  assert_memory_equal(before, after, bytes[0]);
  free(before);
  free(after);
  free_victim(&v);
}

/* ---- a device that fails --------------------------------------------------------------------- */

static struct {
  const ac_backend *backend;
  int left; /* transfers that succeed */
} failing;

static ac_status fail_upload(void *state, void *handle, uint64_t offset, const void *data,
                             uint64_t bytes) {
  if (failing.left-- == 0) return ac_fail(AC_ERROR_DEVICE, "test: the device is gone");
  return failing.backend->upload(state, handle, offset, data, bytes);
}
static ac_status fail_download(void *state, const void *handle, uint64_t offset, void *data,
                               uint64_t bytes) {
  if (failing.left-- == 0) return ac_fail(AC_ERROR_DEVICE, "test: the device is gone");
  return failing.backend->download(state, handle, offset, data, bytes);
}

/* A trainer that is loaded in part is of no use until it is loaded whole. */
static void what_is_loaded_in_part_is_not_used(void **state) {
  (void)state;
  const test_path good = good_state();
  run r = begin_run(&both, &split, &trained, 3, 3);
  run whole = start_model("cpu", &both, &split, &trained);
  assert_ok(ac_trainer_load_state(whole.trainer, good.text));
  const snapshot expected = look_at(&whole);
  end_run(&whole);
  ac_backend copy = *r.device->backend;
  copy.upload = fail_upload;
  failing.backend = r.device->backend;
  int failures = 0;
  for (bool done = false; !done; failures++) {
    r.device->backend = &copy;
    failing.left = failures;
    const ac_status status = ac_trainer_load_state(r.trainer, good.text);
    done = status == AC_OK;
    r.device->backend = failing.backend;
    if (done) break;
    assert_refused(status, AC_ERROR_DEVICE, "the device is gone");
    const char *sentence = "a state was loaded in part only; load another";
    assert_refused(feed_samples(&r, 0, 2), AC_ERROR_STATE, sentence);
    assert_refused(ac_trainer_update(r.trainer, NULL), AC_ERROR_STATE, sentence);
    assert_refused(ac_trainer_save_state(r.trainer, good.text, NULL, 0), AC_ERROR_STATE, sentence);
    ac_trainer_discard(r.trainer);
    assert_refused(feed_samples(&r, 0, 2), AC_ERROR_STATE, sentence);
  }
  assert_true(failures > 10);
  const snapshot now = look_at(&r);
  assert_same("loaded at last", &expected, &now);
  assert_ok(feed_samples(&r, 0, 2));
  assert_ok(ac_trainer_update(r.trainer, NULL));
  end_run(&r);
}

/* Nothing is written, and what was there stays. */
static void a_device_that_fails_saves_nothing(void **state) {
  (void)state;
  victim v = make_victim(&both, &split, &trained, 3);
  const test_path path = in_folder("unsaved");
  ac_backend copy = *v.r.device->backend;
  copy.download = fail_download;
  failing.backend = v.r.device->backend;
  v.r.device->backend = &copy;
  failing.left = 3;
  assert_refused(ac_trainer_save_state(v.r.trainer, path.text, NULL, 0), AC_ERROR_DEVICE,
                 "the device is gone");
  v.r.device->backend = failing.backend;
  assert_int_equal(access(path.text, F_OK), -1);
  assert_untouched(&v, "a device that fails");
  free_victim(&v);
}

/* A window that failed is not saved; loading undoes that failure, and that of an update that was
 * left half done. */
static void states_are_loaded_after_failures(void **state) {
  (void)state;
  run r = begin_run(&both, &split, &trained, 3, 2);
  const test_path path = save_run(&r, "saved");
  const snapshot before = look_at(&r);
  ac_backend copy = *r.device->backend;
  copy.upload = fail_upload;
  failing.backend = r.device->backend;
  r.device->backend = &copy;
  failing.left = 0;
  assert_refused(feed_samples(&r, 0, 1), AC_ERROR_DEVICE, "the device is gone");
  r.device->backend = failing.backend;
  assert_refused(ac_trainer_save_state(r.trainer, in_folder("none").text, NULL, 0), AC_ERROR_STATE,
                 "the window failed half way");
  assert_ok(ac_trainer_load_state(r.trainer, path.text));
  snapshot now = look_at(&r);
  assert_same("after a window that failed", &before, &now);
  r.trainer->instance.unusable = "some parameters were stepped";
  assert_refused(ac_trainer_save_state(r.trainer, in_folder("none").text, NULL, 0), AC_ERROR_STATE,
                 "some parameters were stepped");
  assert_ok(ac_trainer_load_state(r.trainer, path.text));
  now = look_at(&r);
  assert_same("after an update that failed", &before, &now);
  end_window(&r);
  end_run(&r);
}

/* ---- ac_fit that goes on --------------------------------------------------------------------- */

static int polls_left;
static bool until_polled(void *user) {
  (void)user;
  return polls_left-- == 0;
}

typedef struct going_on {
  const char *sentence;
  ac_status status;
  int64_t count;
  ac_fit_desc desc;
} going_on;

/* A run of ac_fit, stopped after so many polls, with what is left of its last window. */
static victim stop_fit(ac_fit_desc desc, int polls) {
  const ac_trainer_desc plain = {.seed = 3, .schedule = {.lr = 0.02}};
  victim v = {.r = start_model("cpu", &both, &split, &plain)};
  ac_dataset *dataset = dataset_of(COUNT);
  ac_fit_result result;
  desc.train = dataset;
  desc.keep_window = true;
  desc.stop = until_polled;
  polls_left = polls;
  assert_ok(ac_fit(v.r.trainer, &desc, &result));
  assert_true(result.stopped);
  ac_dataset_free(dataset);
  v.before = look_at(&v.r);
  return v;
}

/* Goes on by another description, with what was saved in a trainer of its own. */
static void refuses_to_go_on(const victim *v, const going_on *g) {
  ac_dataset *dataset = dataset_of(g->count);
  ac_fit_desc desc = g->desc;
  desc.train = dataset;
  desc.resume = true;
  assert_refused(ac_fit(v->r.trainer, &desc, NULL), g->status, g->sentence);
  ac_dataset_free(dataset);
  assert_untouched(v, g->sentence);
}

static void other_data_and_orders_do_not_go_on(void **state) {
  (void)state;
  const ac_fit_desc desc = {.epochs = 3, .seed = 5};
  const going_on cases[] = {
      {"trained on 11 samples, but now there are 12",
       AC_ERROR_ARGUMENT,
       12,
       {.epochs = 3, .seed = 5}},
      {"in another order (seed 5)", AC_ERROR_ARGUMENT, COUNT, {.epochs = 3, .seed = 6}},
      {"in another order (seed 5)",
       AC_ERROR_ARGUMENT,
       COUNT,
       {.epochs = 3, .seed = 5, .no_shuffle = true}},
      {"give one of the two", AC_ERROR_ARGUMENT, COUNT, {.seed = 5}},
  };
  for (int polls = 1; polls < 3; polls++) { /* before a window's second half, and before a window */
    victim v = stop_fit(desc, polls);
    assert_int_equal(v.before.progress.window_samples, polls == 1 ? 2 : 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) refuses_to_go_on(&v, &cases[i]);
    ac_dataset *dataset = dataset_of(COUNT);
    ac_fit_desc right = desc;
    ac_fit_result result;
    right.train = dataset;
    right.resume = true;
    assert_ok(ac_fit(v.r.trainer, &right, &result));
    assert_true(result.steps == 9 && result.samples == 33 && result.epochs == 3);
    ac_dataset_free(dataset);
    end_run(&v.r);
  }
}

/* A trainer with a fit that was stopped, from a state, as a victim. */
static victim load_stopped(const char *path) {
  const ac_trainer_desc plain = {.schedule = {.lr = 0.02}};
  victim v = {.r = start_model("cpu", &both, &split, &plain)};
  assert_ok(ac_trainer_load_state(v.r.trainer, path));
  v.before = look_at(&v.r);
  return v;
}

static bool end_at_once(void *user) {
  (void)user;
  return true;
}

/* Goes on from the state for no window at all, and saves another. */
static void pass_on(const char *path, const char *fingerprint) {
  victim v = load_stopped(path);
  ac_dataset *dataset = dataset_of(COUNT);
  const ac_fit_desc desc = {.train = dataset,
                            .epochs = 3,
                            .resume = true,
                            .keep_window = true,
                            .stop = end_at_once,
                            .fingerprint = fingerprint};
  assert_ok(ac_fit(v.r.trainer, &desc, NULL));
  ac_dataset_free(dataset);
  assert_ok(ac_trainer_save_state(v.r.trainer, path, NULL, 0));
  end_run(&v.r);
}

/* Once a run has a fingerprint, it goes from state to state, whether or not it is given again,
 * until a run begins anew. */
static void other_fingerprints_do_not_go_on(void **state) {
  (void)state;
  char first[64], longest[AC_MAX_FINGERPRINT + 2] = "";
  memset(longest, 'x', AC_MAX_FINGERPRINT);
  const going_on other = {
      "trained on data of fingerprint \"gulls 3, plain\", but these have \"gulls 4\"",
      AC_ERROR_ARGUMENT,
      COUNT,
      {.epochs = 3, .fingerprint = "gulls 4"}};
  const char *given[] = {NULL, "", strcpy(first, "gulls 3, plain"), NULL, "", "gulls 3, plain"};
  victim v = stop_fit((ac_fit_desc){.epochs = 3}, 1);
  const test_path path = save_run(&v.r, "fingerprint");
  end_run(&v.r);
  for (int i = 0; i < 6; i++) {
    pass_on(path.text, given[i]);
    if (i == 2) memset(first, '?', 14); /* it was copied */
    v = load_stopped(path.text);
    if (i >= 2) refuses_to_go_on(&v, &other);
    end_run(&v.r);
  }
  pass_on(path.text, NULL);
  v = stop_fit((ac_fit_desc){.epochs = 3, .fingerprint = longest}, 1);
  ac_trainer_discard(v.r.trainer);
  v.before = look_at(&v.r);
  longest[0] = 'y';
  refuses_to_go_on(
      &v, &(going_on){"xxx", AC_ERROR_ARGUMENT, COUNT, {.epochs = 3, .fingerprint = longest}});
  longest[AC_MAX_FINGERPRINT] = 'z';
  static const char *const sentence = "longer than 96 bytes, or not printable ASCII";
  refuses_to_go_on(
      &v, &(going_on){sentence, AC_ERROR_ARGUMENT, COUNT, {.epochs = 3, .fingerprint = longest}});
  refuses_to_go_on(
      &v, &(going_on){sentence, AC_ERROR_ARGUMENT, COUNT, {.epochs = 3, .fingerprint = "a\nb"}});
  refuses_to_go_on(
      &v,
      &(going_on){sentence, AC_ERROR_ARGUMENT, COUNT, {.epochs = 3, .fingerprint = "\xc3\xa4"}});
  ac_dataset *dataset = dataset_of(COUNT); /* a new run of the same trainer has none */
  assert_ok(ac_fit(v.r.trainer, &(ac_fit_desc){.train = dataset, .steps = 1}, NULL));
  const ac_fit_desc more = {.train = dataset, .steps = 2, .resume = true, .fingerprint = "gulls 4"};
  assert_ok(ac_fit(v.r.trainer, &more, NULL));
  ac_dataset_free(dataset);
  end_run(&v.r);
}

/* In a file it is what it may be, or not there. */
static void fingerprints_in_files_make_sense(void **state) {
  (void)state;
  victim v = stop_fit((ac_fit_desc){.epochs = 3, .fingerprint = "gulls"}, 1);
  holding *h = holding_of(save_run(&v.r, "good").text);
  text_pair *pair = find_pair(h, "fit.fingerprint");
  assert_string_equal(pair->value, "gulls");
  strcpy(pair->value, "");
  refuses_value(&v, h, pair->key);
  memset(pair->value, 'x', AC_MAX_FINGERPRINT + 1);
  pair->value[AC_MAX_FINGERPRINT + 1] = 0;
  refuses_value(&v, h, pair->key);
  strcpy(pair->value, "a\tb");
  refuses_value(&v, h, pair->key);
  strcpy(pair->value, "terns");
  write_holding(h, in_folder("changed").text);
  assert_ok(ac_trainer_load_state(v.r.trainer, in_folder("changed").text));
  refuses_to_go_on(&v, &(going_on){"\"terns\", but these have \"gulls\"",
                                   AC_ERROR_ARGUMENT,
                                   COUNT,
                                   {.epochs = 3, .fingerprint = "gulls"}});
  free(h);
  end_run(&v.r);
}

/* A window that another policy would have cut shorter is not that policy's. */
static void a_window_must_fit_its_epoch(void **state) {
  (void)state;
  const ac_fit_desc carries = {.epochs = 3, .last_window = AC_LAST_CARRY, .no_shuffle = true};
  victim v = stop_fit(carries, 5); /* of the third window, which has 3 samples or 4 */
  assert_int_equal(v.before.progress.window_samples, 2);
  assert_ok(feed_samples(&v.r, 0, 2));
  v.before = look_at(&v.r);
  const going_on shorter = {"the window in progress has 4 samples",
                            AC_ERROR_ARGUMENT,
                            COUNT,
                            {.epochs = 3, .no_shuffle = true}};
  refuses_to_go_on(&v, &shorter);
  end_run(&v.r);
}

/* A window that ac_fit did not begin is not continued; nor is one of its own, unless asked. */
static void windows_are_not_taken_up_unasked(void **state) {
  (void)state;
  const going_on by_hand = {"a window is in progress", AC_ERROR_STATE, COUNT, {.epochs = 1}};
  victim v = make_victim(&both, &split, &trained, 2);
  refuses_to_go_on(&v, &by_hand);
  free_victim(&v);
  v = stop_fit((ac_fit_desc){.epochs = 3}, 1);
  ac_dataset *dataset = dataset_of(COUNT);
  assert_refused(ac_fit(v.r.trainer, &(ac_fit_desc){.train = dataset, .epochs = 3}, NULL),
                 AC_ERROR_STATE, "a window is in progress");
  ac_dataset_free(dataset);
  assert_untouched(&v, "a window in progress");
  end_run(&v.r);
}

static void a_place_lies_within_its_data(void **state) {
  (void)state;
  victim v = stop_fit((ac_fit_desc){.epochs = 3, .seed = 5}, 3);
  holding *h = holding_of(save_run(&v.r, "good").text);
  text_pair *position = find_pair(h, "fit.position");
  strcpy(position->value, "11");
  refuses_value(&v, h, position->key);
  strcpy(position->value, "10");
  write_holding(h, in_folder("changed").text);
  assert_ok(ac_trainer_load_state(v.r.trainer, in_folder("changed").text));
  free(h);
  end_run(&v.r);
}

/* Whole files with a place that is none: refused when they are loaded, or when they go on. */
static void places_that_are_none_do_no_harm(void **state) {
  (void)state;
  static const char *const keys[] = {"fit.epoch",   "fit.position",   "fit.steps",
                                     "fit.samples", "fit.updates",    "fit.skipped",
                                     "fit.count",   "window.samples", "window.whole_samples",
                                     "updates",     "batch",          "micro_batch"};
  static const char *const values[] = {
      "0", "10", "11", "12", "4294967296", "4611686018427387903", "9223372036854775807"};
  victim v = stop_fit((ac_fit_desc){.epochs = 3, .seed = 5}, 3);
  holding *h = holding_of(save_run(&v.r, "good").text);
  const test_path bad = in_folder("changed");
  int refused = 0;
  for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
      text_pair *pair = find_pair(h, keys[k]), kept = *pair;
      strcpy(pair->value, values[i]);
      write_holding(h, bad.text);
      *pair = kept;
      ac_dataset *dataset = dataset_of(COUNT);
      const ac_fit_desc desc = {.train = dataset, .epochs = 3, .seed = 5, .resume = true};
      ac_status status = ac_trainer_load_state(v.r.trainer, bad.text);
      if (status == AC_OK) status = ac_fit(v.r.trainer, &desc, NULL);
      refused += status != AC_OK;
      ac_dataset_free(dataset);
    }
  assert_true(refused > 20);
  free(h);
  end_run(&v.r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(any_damage_is_found),
      cmocka_unit_test(damage_is_named),
      cmocka_unit_test(every_value_is_needed),
      cmocka_unit_test(noise_and_batch_make_sense),
      cmocka_unit_test(what_is_watched_makes_sense),
      cmocka_unit_test(values_make_sense),
      cmocka_unit_test(a_plateau_is_whole),
      cmocka_unit_test(a_plateau_begins_where_there_was_none),
      cmocka_unit_test(every_tensor_is_needed),
      cmocka_unit_test(tensors_of_other_dtypes_are_refused),
      cmocka_unit_test(other_trainers_refuse),
      cmocka_unit_test(windows_go_on_only_with_their_like),
      cmocka_unit_test(model_files_are_no_states),
      cmocka_unit_test(a_decision_is_no_time_for_it),
      cmocka_unit_test(whole_windows_are_not_saved),
      cmocka_unit_test(a_failed_save_leaves_the_file),
      cmocka_unit_test(what_is_loaded_in_part_is_not_used),
      cmocka_unit_test(a_device_that_fails_saves_nothing),
      cmocka_unit_test(states_are_loaded_after_failures),
      cmocka_unit_test(other_data_and_orders_do_not_go_on),
      cmocka_unit_test(other_fingerprints_do_not_go_on),
      cmocka_unit_test(fingerprints_in_files_make_sense),
      cmocka_unit_test(a_window_must_fit_its_epoch),
      cmocka_unit_test(windows_are_not_taken_up_unasked),
      cmocka_unit_test(a_place_lies_within_its_data),
      cmocka_unit_test(places_that_are_none_do_no_harm),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
