/* State files: the cells that stay from window to window, under their names, and as text what the
 * host counts. A window in progress adds the cells that gather its sums.
 *
 * Loading reads the file twice: to check all of it, and to bring it to the device. Only a failure
 * of the second reading can leave a trainer half loaded; then every use of it fails and says so. */
#include "core/error.h"
#include "core/platform/numbers.h"
#include "io/safetensors.h"
#include "train/trainer.h"
#include <accrue/state_file.h>

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 1, PIECE_BYTES = 1 << 20 };

/* ---- counters as text ------------------------------------------------------------------------ */

typedef struct record {
  int64_t version, updates;
  uint64_t seed;
  int64_t optimizer, precision, loss_means, batch, micro_batch;
  int64_t window_batch; /* that of the window in progress, or of the next; 0: the plan's */
  int64_t scaling, clean, overflows, stuck;
  double scale;
  ac_fit_position fit;
  int64_t samples, whole_samples; /* of the window in progress */
  double fed[AC_MAX_LOSSES], whole[AC_MAX_LOSSES];
  ac_plateau plateau;
  ac_noise noise;
  ac_spikes spikes;
  char fingerprint[AC_MAX_FINGERPRINT + 1];
  ac_groups groups;
  const char *layers; /* the text from a file; NULL: it has none */
  ac_growth growth;
} record;

/* Texts that are there only where the caller has given one, where groups were changed, and where
 * batches grow. */
#define FINGERPRINT "accrue.state.fit.fingerprint"
#define GROUPS "accrue.state.groups"
#define SPIKES "accrue.state.spikes.history" /* there with OF_SPIKES */
#define LAYERS "accrue.state.layers"         /* there where layers are measured */
#define GROWTH "accrue.state.growth"
#define NOISE_LAYERS "accrue.state.noise.layers" /* where that of each parameter is asked for */
enum { TEXTS = 6 };

typedef enum field_kind { INTEGER, UNSIGNED, REAL, REALS } field_kind;

/* The fields of a group are there together, or not at all. */
typedef enum field_group {
  ALWAYS,
  OF_BATCH,    /* where a window's batch is not the plan's */
  OF_PLATEAU,  /* if the schedule depends on validation */
  OF_PATIENCE, /* where validations count for early stopping */
  OF_NOISE,    /* where the gradient noise scale is measured */
  OF_SPIKES    /* where spikes are watched for, or have lowered rates */
} field_group;

/* REALS are AC_MAX_LOSSES of them, with spaces between. An INTEGER is in [0, most]. */
static const struct {
  const char *key;
  field_kind kind;
  size_t offset;
  int64_t most;
  field_group group;
} fields[] = {
#define GROUPED(key, kind, member, most, group) \
  { "accrue.state." key, kind, offsetof(record, member), most, group }
#define MOST AC_MOST_COUNT /* it may grow */
#define LIMITED(key, kind, member, most) GROUPED(key, kind, member, most, ALWAYS)
#define FIELD(key, kind, member) LIMITED(key, kind, member, MOST)
    FIELD("version", INTEGER, version),
    FIELD("updates", INTEGER, updates),
    FIELD("seed", UNSIGNED, seed),
    LIMITED("optimizer", INTEGER, optimizer, AC_OPTIMIZER_COUNT - 1),
    LIMITED("precision", INTEGER, precision, AC_PRECISION_BF16),
    LIMITED("loss_means", INTEGER, loss_means, AC_LOSS_MEANS_PER_SAMPLE),
    FIELD("batch", INTEGER, batch),
    FIELD("micro_batch", INTEGER, micro_batch),
    LIMITED("loss_scaling", INTEGER, scaling, AC_LOSS_SCALING_DYNAMIC),
    FIELD("loss_scale", REAL, scale),
    FIELD("loss_scale.clean", INTEGER, clean),
    FIELD("loss_scale.overflows", INTEGER, overflows),
    LIMITED("loss_scale.stuck", INTEGER, stuck, 1),
    LIMITED("fit.begun", INTEGER, fit.begun, 1),
    FIELD("fit.steps", INTEGER, fit.steps),
    FIELD("fit.updates", INTEGER, fit.updates),
    FIELD("fit.skipped", INTEGER, fit.skipped),
    FIELD("fit.samples", INTEGER, fit.samples),
    FIELD("fit.epoch", INTEGER, fit.next.epoch),
    FIELD("fit.position", INTEGER, fit.next.position),
    LIMITED("fit.evaluation_due", INTEGER, fit.evaluation_due, 1),
    LIMITED("fit.count", INTEGER, fit.count, INT64_MAX), /* which a generator may have */
    FIELD("fit.seed", UNSIGNED, fit.seed),
    LIMITED("fit.no_shuffle", INTEGER, fit.no_shuffle, 1),
    FIELD("window.samples", INTEGER, samples),
    FIELD("window.whole_samples", INTEGER, whole_samples),
    FIELD("window.fed", REALS, fed),
    FIELD("window.whole", REALS, whole),
    GROUPED("window.batch", INTEGER, window_batch, MOST, OF_BATCH),
    GROUPED("plateau.best", REAL, plateau.best, MOST, OF_PLATEAU),
    GROUPED("plateau.bad", INTEGER, plateau.bad, MOST, OF_PLATEAU),
    GROUPED("plateau.cooling", INTEGER, plateau.cooling, MOST, OF_PLATEAU),
    GROUPED("plateau.reductions", INTEGER, plateau.reductions, MOST, OF_PLATEAU),
    GROUPED("patience.watched", INTEGER, fit.watched, MOST, OF_PATIENCE),
    GROUPED("patience.no_better", INTEGER, fit.no_better, MOST, OF_PATIENCE),
    GROUPED("patience.least_loss", REAL, fit.least_loss, MOST, OF_PATIENCE),
    GROUPED("noise.first_samples", INTEGER, noise.first_samples, MOST, OF_NOISE),
    GROUPED("noise.first_weight", REAL, noise.first_weight, MOST, OF_NOISE),
    GROUPED("noise.first_squares", REAL, noise.first_squares, MOST, OF_NOISE),
    GROUPED("noise.count", INTEGER, noise.count, MOST, OF_NOISE),
    GROUPED("noise.g", REAL, noise.averages.g, MOST, OF_NOISE),
    GROUPED("noise.s", REAL, noise.averages.s, MOST, OF_NOISE),
    GROUPED("noise.gg", REAL, noise.averages.gg, MOST, OF_NOISE),
    GROUPED("noise.gs", REAL, noise.averages.gs, MOST, OF_NOISE),
    GROUPED("noise.ss", REAL, noise.averages.ss, MOST, OF_NOISE),
    GROUPED("spikes.count", INTEGER, spikes.count, AC_SPIKE_WINDOWS, OF_SPIKES),
    GROUPED("spikes.batch", INTEGER, spikes.batch, MOST, OF_SPIKES),
    GROUPED("spikes.alarms", INTEGER, spikes.alarms, MOST, OF_SPIKES),
    GROUPED("spikes.run", INTEGER, spikes.run, MOST, OF_SPIKES),
    GROUPED("spikes.calm", INTEGER, spikes.calm, MOST, OF_SPIKES),
    GROUPED("spikes.went_back", INTEGER, spikes.went_back, MOST, OF_SPIKES),
    GROUPED("spikes.again", INTEGER, spikes.again, MOST, OF_SPIKES),
    GROUPED("spikes.back_step", INTEGER, spikes.back_step, MOST, OF_SPIKES),
    GROUPED("spikes.rate", REAL, spikes.rate, MOST, OF_SPIKES),
    GROUPED("spikes.has_good", INTEGER, spikes.has_good, 1, OF_SPIKES),
    GROUPED("spikes.good_step", INTEGER, spikes.good_step, MOST, OF_SPIKES),
#undef FIELD
#undef LIMITED
#undef MOST
#undef GROUPED
};
enum { FIELDS = sizeof fields / sizeof *fields, FIELD_TEXT = AC_MAX_LOSSES * 32 };

/* Whether a trainer's state has them. */
static bool has_group(const ac_trainer *trainer, field_group group) {
  if (group == OF_BATCH) return trainer->batch != trainer->instance.plan->info.batch;
  if (group == OF_PATIENCE) return trainer->fit.watched > 0;
  if (group == OF_SPIKES)
    return trainer->desc.spikes.policy != AC_SPIKE_IGNORE || trainer->spikes.rate != 1;
  if (group == OF_NOISE) return trainer->noise.possible || trainer->noise.count > 0;
  return group == ALWAYS || trainer->desc.schedule.kind == AC_SCHEDULE_PLATEAU;
}

/* Enough digits for the same double again. */
static void put_field(const record *r, int index, char text[FIELD_TEXT]) {
  const void *member = (const char *)r + fields[index].offset;
  const double *reals = member;
  int used = 0;
  switch (fields[index].kind) {
  case INTEGER:
    snprintf(text, FIELD_TEXT, "%" PRId64, *(const int64_t *)member);
    break;
  case UNSIGNED:
    snprintf(text, FIELD_TEXT, "%" PRIu64, *(const uint64_t *)member);
    break;
  case REAL:
    snprintf(text, FIELD_TEXT, "%.17g", *reals);
    break;
  case REALS:
    for (int k = 0; k < AC_MAX_LOSSES; k++)
      used += snprintf(text + used, FIELD_TEXT - (size_t)used, k ? " %.17g" : "%.17g", reals[k]);
    break;
  }
}

/* Whether the text is just what put_field writes of a value that there can be. */
static bool get_field(record *r, int index, const char *text) {
  void *member = (char *)r + fields[index].offset;
  const int count = fields[index].kind == REALS ? AC_MAX_LOSSES : 1;
  char *end = (char *)text, again[FIELD_TEXT];
  for (int k = 0; k < count; k++) {
    const char *begin = end;
    if (fields[index].kind == INTEGER) *(int64_t *)member = strtoll(begin, &end, 10);
    else if (fields[index].kind == UNSIGNED) *(uint64_t *)member = strtoull(begin, &end, 10);
    else ((double *)member)[k] = strtod(begin, &end);
  }
  put_field(r, index, again);
  if (strcmp(text, again) != 0) return false;
  if (fields[index].kind != INTEGER) return true;
  const int64_t value = *(const int64_t *)member;
  return value >= 0 && value <= fields[index].most;
}

static record record_of(const ac_trainer *trainer) {
  const ac_plan *plan = trainer->instance.plan;
  record r = {.version = VERSION,
              .updates = trainer->updates,
              .seed = trainer->instance.run.seed,
              .optimizer = plan->problem.desc.optimizer.kind,
              .precision = plan->info.precision,
              .loss_means = plan->problem.desc.loss_means,
              .batch = plan->info.batch,
              .micro_batch = plan->info.micro_batch,
              .window_batch = trainer->batch,
              .scaling = trainer->scaler.desc.kind,
              .scale = (double)trainer->scaler.scale,
              .clean = trainer->scaler.clean,
              .overflows = trainer->scaler.overflows,
              .stuck = trainer->scaler.stuck,
              .fit = trainer->fit,
              .samples = trainer->window_samples,
              .whole_samples = trainer->whole_samples,
              .plateau = trainer->plateau,
              .noise = trainer->noise,
              .spikes = trainer->spikes};
  if (r.samples) memcpy(r.fed, trainer->fed_weight, sizeof r.fed);
  if (r.whole_samples) memcpy(r.whole, trainer->whole_weight, sizeof r.whole);
  strcpy(r.fingerprint, trainer->fingerprint);
  r.groups = trainer->groups;
  r.growth = trainer->growth;
  return r;
}

/* A loss scale is of use only to its own kind of scaling, and a static one is what the description
 * says. */
static void take_record(ac_trainer *trainer, const record *r) {
  trainer->updates = r->updates;
  trainer->instance.run.seed = r->seed;
  if (r->scaling == (int64_t)trainer->scaler.desc.kind) {
    if (r->scaling == AC_LOSS_SCALING_DYNAMIC)
      trainer->scaler.scale = fmaxf((float)r->scale, (float)trainer->scaler.desc.floor);
    trainer->scaler.clean = r->clean;
    trainer->scaler.overflows = r->overflows;
    trainer->scaler.stuck = r->stuck;
  }
  trainer->fit = r->fit;
  strcpy(trainer->fingerprint, r->fingerprint);
  trainer->window_samples = r->samples;
  trainer->whole_samples = r->whole_samples;
  memcpy(trainer->fed_weight, r->fed, sizeof r->fed);
  memcpy(trainer->whole_weight, r->whole, sizeof r->whole);
  trainer->plateau = r->plateau;
  trainer->spikes = r->spikes;
  trainer->noise.first_samples = r->noise.first_samples;
  trainer->noise.first_weight = r->noise.first_weight;
  trainer->noise.first_squares = r->noise.first_squares;
  trainer->noise.count = r->noise.count;
  trainer->noise.averages = r->noise.averages;
  const int64_t most = trainer->instance.plan->info.batch;
  trainer->batch = r->window_batch && r->window_batch < most ? r->window_batch : most;
  if (r->groups.changed) trainer->groups = r->groups;
  else ac_groups_reset(&trainer->groups, &trainer->desc);
  if (trainer->layers.every) ac_layers_take(&trainer->layers, r->layers);
  trainer->growth = r->growth;
}

/* ---- cells as tensors ------------------------------------------------------------------------ */

typedef struct state_tensor {
  const ac_cell *cell;
  char *name;
} state_tensor;

/* What a state holds of a trainer, in the order of the plan's cells. */
typedef struct contents {
  ac_trainer *trainer;
  state_tensor *tensors;
  int count;
} contents;

/* If a parameter has no original, its copy in 16 bits is saved instead. */
bool ac_state_holds(const ac_plan *plan, const ac_cell *cell, bool window) {
  if (cell->role == AC_ROLE_PARAMETER || cell->role == AC_ROLE_STATE ||
      cell->role == AC_ROLE_AVERAGE)
    return true;
  if (cell->role == AC_ROLE_WORKING) return !ac_plan_cell(plan, AC_ROLE_PARAMETER, cell->owner, 0);
  return window && ac_role_is_sum(cell->role);
}

/* Norms that share their running statistics pool each its own: how many come before the last. */
static int pooled_before(const contents *c) {
  const int last = c->count - 1;
  int before = 0;
  for (int i = 0; i < last; i++)
    before += c->tensors[i].cell->role == AC_ROLE_POOLED &&
              c->tensors[i].cell->owner == c->tensors[last].cell->owner;
  return before;
}

/* Names the last of the contents. */
static bool name_tensor(const ac_graph *graph, contents *c) {
  state_tensor *tensor = &c->tensors[c->count - 1];
  const ac_cell *cell = tensor->cell;
  const char *owner = cell->role == AC_ROLE_LOSS
                          ? graph->losses[cell->owner].name
                          : ac_tensor_at(graph, graph->parameters[cell->owner])->name;
  char role[32] = "";
  if (cell->role == AC_ROLE_STATE)
    snprintf(role, sizeof role, "accrue/state.%d/", ac_tensor_at(graph, cell->tensor)->state);
  else if (cell->role == AC_ROLE_POOLED)
    snprintf(role, sizeof role, "accrue/pooled.%d/", pooled_before(c));
  else if (cell->role != AC_ROLE_PARAMETER && cell->role != AC_ROLE_WORKING)
    snprintf(role, sizeof role, "accrue/%s/",
             cell->role == AC_ROLE_LOSS      ? "loss"
             : cell->role == AC_ROLE_AVERAGE ? "average"
                                             : "gradient");
  const size_t size = strlen(role) + strlen(owner) + 1;
  tensor->name = malloc(size);
  if (tensor->name) snprintf(tensor->name, size, "%s%s", role, owner);
  return tensor->name;
}

static void free_contents(contents *c) {
  for (int i = 0; i < c->count; i++) free(c->tensors[i].name);
  free(c->tensors);
}

static ac_status list_contents(contents *c, ac_trainer *trainer, bool window, const char *path) {
  const ac_plan *plan = trainer->instance.plan;
  *c = (contents){.trainer = trainer,
                  .tensors = calloc((size_t)plan->cell_count + 1, sizeof *c->tensors)};
  bool good = c->tensors;
  for (int i = 0; i < plan->cell_count && good; i++) {
    if (!ac_state_holds(plan, &plan->cells[i], window)) continue;
    c->tensors[c->count++].cell = &plan->cells[i];
    good = name_tensor(plan->graph, c);
  }
  if (good) return AC_OK;
  free_contents(c);
  return ac_fail(AC_ERROR_MEMORY, "%s: no memory for a list of what a state holds", path);
}

/* ---- saving ---------------------------------------------------------------------------------- */

ac_status ac_state_read_cell(const ac_instance *instance, const ac_cell *cell, int64_t first,
                             int64_t count, void *data) {
  const uint64_t size = ac_dtype_bytes(cell->dtype);
  return ac_instance_read_cell(instance, cell, (uint64_t)first * size, data,
                               (uint64_t)count * size);
}

static ac_status read_cell(void *user, int index, int64_t first, int64_t count, void *data) {
  const contents *c = user;
  return ac_state_read_cell(&c->trainer->instance, c->tensors[index].cell, first, count, data);
}

/* Sums of a window in progress may have any value, because it is judged when it is whole, and what
 * a callback keeps is its own. */
static bool has_to_be_finite(const contents *c, const ac_cell *cell) {
  const ac_instance *instance = &c->trainer->instance;
  if (instance->device->backend->computes_nothing || ac_role_is_sum(cell->role)) return false;
  return cell->role != AC_ROLE_STATE ||
         !ac_optimizer_row_of(instance->plan->problem.desc.optimizer.kind)->hands_over;
}

static ac_status write_contents(contents *c, const char *path, const ac_metadata *metadata,
                                int metadata_count) {
  char text[FIELDS][FIELD_TEXT], groups[AC_GROUPS_TEXT], spikes[AC_SPIKES_TEXT],
      growth[AC_GROWTH_TEXT];
  const record r = record_of(c->trainer);
  const ac_noise_layers *apart = &c->trainer->noise.layers;
  char *noise = NULL;
  ac_model_tensor *tensors = calloc((size_t)c->count + 1, sizeof *tensors);
  ac_metadata *all = calloc((size_t)metadata_count + FIELDS + TEXTS, sizeof *all);
  bool *finite = calloc((size_t)c->count + 1, sizeof *finite);
  const ac_write_rules rules = {.checksums = true, .finite = finite};
  int count = metadata_count;
  for (int i = 0; tensors && finite && i < c->count; i++) {
    const ac_cell *cell = c->tensors[i].cell;
    finite[i] = has_to_be_finite(c, cell);
    tensors[i] = (ac_model_tensor){c->tensors[i].name, cell->dtype, cell->shape.rank, {0}};
    for (int d = 0; d < cell->shape.rank; d++) tensors[i].shape[d] = cell->shape.dim[d];
  }
  for (int i = 0; all && i < metadata_count; i++) all[i] = metadata[i];
  const ac_plain_numbers numbers = ac_plain_numbers_begin();
  for (int i = 0; all && i < FIELDS; i++) {
    if (!has_group(c->trainer, fields[i].group)) continue;
    put_field(&r, i, text[i]);
    all[count++] = (ac_metadata){fields[i].key, text[i]};
  }
  ac_groups_put(&r.groups, groups);
  ac_spikes_put(&r.spikes, spikes);
  char *layers = c->trainer->layers.every ? ac_layers_put(&c->trainer->layers) : NULL;
  const bool complete = layers || !c->trainer->layers.every;
  ac_growth_put(&r.growth, growth);
  if (apart->of)
    noise = ac_noise_layers_text(apart, c->trainer->instance.plan->graph->parameter_count,
                                 r.noise.first_samples > 0);
  ac_plain_numbers_end(&numbers);
  if (all && *r.fingerprint) all[count++] = (ac_metadata){FINGERPRINT, r.fingerprint};
  if (all && r.groups.changed) all[count++] = (ac_metadata){GROUPS, groups};
  if (all && has_group(c->trainer, OF_SPIKES)) all[count++] = (ac_metadata){SPIKES, spikes};
  if (all && r.growth.count) all[count++] = (ac_metadata){GROWTH, growth};
  if (all && layers) all[count++] = (ac_metadata){LAYERS, layers};
  if (all && noise) all[count++] = (ac_metadata){NOISE_LAYERS, noise};
  const bool room = tensors && finite && all && complete && (noise || !apart->of);
  ac_status status =
      room ? ac_model_file_write_by(&rules, path, tensors, c->count, all, count, read_cell, c)
           : ac_fail(AC_ERROR_MEMORY, "no memory to save %s", path);
  free(tensors);
  free(finite);
  free(all);
  free(layers);
  free(noise);
  return status;
}

ac_status ac_trainer_save_state(ac_trainer *trainer, const char *path, const ac_metadata *metadata,
                                int metadata_count) {
  AC_REQUIRE(trainer, path);
  if (metadata_count > 0) AC_REQUIRE(metadata);
  if (metadata_count < 0)
    return ac_fail(AC_ERROR_ARGUMENT, "%s: a negative number of metadata", path);
  AC_TRY(ac_trainer_check_whole(trainer));
  const bool window = trainer->window_samples > 0;
  if (window) AC_TRY(ac_trainer_check_deciding(trainer)); /* an evaluation has its loss sums */
  if (window) AC_TRY(ac_trainer_check_arena(trainer));
  contents c;
  AC_TRY(list_contents(&c, trainer, window, path));
  ac_status status = write_contents(&c, path, metadata, metadata_count);
  free_contents(&c);
  return status;
}

/* ---- checking what is loaded ----------------------------------------------------------------- */

static ac_status refuse_value(const char *path, const char *key) {
  return ac_fail(AC_ERROR_FORMAT, "%s: %s is missing or makes no sense", path, key);
}

/* All of a group are needed where one of them is there. */
static bool needs_group(const ac_model_file *file, field_group group) {
  if (group == ALWAYS) return true;
  for (int i = 0; i < FIELDS; i++)
    if (fields[i].group == group && ac_model_file_metadata(file, fields[i].key)) return true;
  return false;
}

/* The key of what makes no sense, with so many samples in the window in progress; NULL: none. */
static const char *find_bad_noise(const record *r) {
  const ac_noise *noise = &r->noise;
  for (int i = 0; i < FIELDS; i++) {
    if (fields[i].group != OF_NOISE || fields[i].kind != REAL) continue;
    const double x = *(const double *)((const char *)r + fields[i].offset);
    const bool may_be_negative = fields[i].offset == offsetof(record, noise.averages.g) ||
                                 fields[i].offset == offsetof(record, noise.averages.s) ||
                                 fields[i].offset == offsetof(record, noise.averages.gs);
    if (!isfinite(x) || (x < 0 && !may_be_negative)) return fields[i].key;
  }
  if (noise->first_samples > r->samples) return "accrue.state.noise.first_samples";
  return noise->first_samples && !(noise->first_weight > 0) ? "accrue.state.noise.first_weight"
                                                            : NULL;
}

/* Changed settings are those of as many groups. */
static ac_status read_groups(const ac_model_file *file, const char *path, record *r) {
  const char *text = ac_model_file_metadata(file, GROUPS);
  r->groups.changed = false;
  if (!text || ac_groups_get(&r->groups, text)) return AC_OK;
  return ac_fail(AC_ERROR_FORMAT,
                 "%s has settings of other groups of parameters than these %d (" GROUPS ")", path,
                 r->groups.count);
}

/* What is remembered of windows belongs to what is counted of them. */
static ac_status read_spikes(const ac_model_file *file, const char *path, record *r) {
  if (!needs_group(file, OF_SPIKES)) return AC_OK;
  const char *text = ac_model_file_metadata(file, SPIKES);
  if (!text || !ac_spikes_get(&r->spikes, text)) return refuse_value(path, SPIKES);
  if (r->spikes.rate > 0 && r->spikes.rate <= 1) return AC_OK;
  return refuse_value(path, "accrue.state.spikes.rate");
}

/* All but the settings of groups, which only a trainer can read. */
static ac_status read_record(const ac_model_file *file, const char *path, record *r) {
  r->plateau = ac_plateau_begin();
  r->spikes = ac_spikes_begin();
  for (int i = 0; i < FIELDS; i++) {
    if (!needs_group(file, fields[i].group)) continue;
    const char *text = ac_model_file_metadata(file, fields[i].key);
    if (!text || !get_field(r, i, text)) return refuse_value(path, fields[i].key);
    if (i == 0 && r->version != VERSION)
      return ac_fail(AC_ERROR_UNSUPPORTED, "%s is a state of version %" PRId64 "; %d is read", path,
                     r->version, VERSION);
  }
  if (!((float)r->scale > 0) || isinf((float)r->scale))
    return refuse_value(path, "accrue.state.loss_scale");
  if (r->batch < 1) return refuse_value(path, "accrue.state.batch");
  if (r->micro_batch < 1 || r->micro_batch > r->batch)
    return refuse_value(path, "accrue.state.micro_batch");
  if (r->fit.begun && r->fit.next.position >= r->fit.count)
    return refuse_value(path, "accrue.state.fit.position");
  if (isnan(r->plateau.best)) return refuse_value(path, "accrue.state.plateau.best");
  const char *bad = find_bad_noise(r);
  if (bad) return refuse_value(path, bad);
  if (needs_group(file, OF_BATCH) && (r->window_batch < 1 || r->window_batch > r->batch))
    return refuse_value(path, "accrue.state.window.batch");
  AC_TRY(read_spikes(file, path, r));
  const char *growth = ac_model_file_metadata(file, GROWTH);
  if (growth && !ac_growth_get(&r->growth, growth, AC_MOST_COUNT, r->noise.count))
    return refuse_value(path, GROWTH);
  const char *fingerprint = ac_model_file_metadata(file, FINGERPRINT);
  if (!fingerprint) return AC_OK;
  if (!*fingerprint || !ac_fingerprint_may_be(fingerprint)) return refuse_value(path, FINGERPRINT);
  strcpy(r->fingerprint, fingerprint);
  return AC_OK;
}

static ac_status check_is_state(const ac_model_file *file, const char *path) {
  return ac_model_file_metadata(file, fields[0].key)
             ? AC_OK
             : ac_fail(AC_ERROR_FORMAT, "%s is not the state of a trainer", path);
}

static ac_status check_record(const ac_trainer *trainer, const char *path, const record *r) {
  const record own = record_of(trainer);
  if (r->optimizer != own.optimizer)
    return ac_fail(AC_ERROR_FORMAT, "%s is of a run with %s, and the plan is for %s", path,
                   ac_optimizer_row_of((ac_optimizer_kind)r->optimizer)->words,
                   ac_optimizer_row_of((ac_optimizer_kind)own.optimizer)->words);
  if (!r->samples) return AC_OK;
  const bool scaled =
      r->scaling != own.scaling || (r->scaling == AC_LOSS_SCALING_STATIC && r->scale != own.scale);
  if (r->batch != own.batch || r->precision != own.precision || r->loss_means != own.loss_means ||
      scaled)
    return ac_fail(AC_ERROR_FORMAT,
                   "%s holds a window in progress, which goes on only with its batch of %" PRId64
                   ", its precision, its means of losses and its loss scaling",
                   path, r->batch);
  if (!trainer->instance.plan->main.whole_window) return AC_OK;
  return ac_fail(AC_ERROR_FORMAT,
                 "%s holds a window in progress, and the plan was made for whole windows", path);
}

/* What a plan may choose for weights and what optimizers keep. */
static bool is_stored(ac_dtype dtype) {
  return dtype == AC_F32 || dtype == AC_F16 || dtype == AC_BF16 || dtype == AC_U8;
}

static const char *storage_name(ac_dtype dtype) {
  return dtype == AC_U8 ? "8 bits" : ac_dtype_name(dtype);
}

static ac_status check_tensor(const ac_model_file *file, const char *path,
                              const state_tensor *tensor) {
  const int found = ac_model_file_find(file, tensor->name);
  if (found < 0) return ac_fail(AC_ERROR_FORMAT, "%s holds no tensor \"%s\"", path, tensor->name);
  const ac_model_tensor *there = ac_model_file_tensor(file, found);
  const ac_shape *shape = &tensor->cell->shape;
  bool same = there->dtype == tensor->cell->dtype && there->rank == shape->rank;
  for (int d = 0; same && d < shape->rank; d++) same = there->shape[d] == shape->dim[d];
  if (same) return AC_OK;
  const ac_dtype own = tensor->cell->dtype;
  if (is_stored(there->dtype) && is_stored(own) && there->dtype != own)
    return ac_fail(AC_ERROR_FORMAT, "%s: tensor \"%s\" is kept in %s, and the plan keeps it in %s",
                   path, tensor->name, storage_name(there->dtype), storage_name(own));
  char text[AC_SHAPE_TEXT];
  return ac_fail(AC_ERROR_FORMAT, "%s: tensor \"%s\" is not %s %s", path, tensor->name,
                 ac_dtype_name(tensor->cell->dtype), ac_shape_text(text, shape));
}

/* Each tensor of the trainer is in the file, and each of the file is one of the trainer's. */
static ac_status check_tensors(const contents *c, const ac_model_file *file, const char *path) {
  for (int i = 0; i < c->count; i++) AC_TRY(check_tensor(file, path, &c->tensors[i]));
  for (int i = 0; i < ac_model_file_tensor_count(file); i++) {
    const char *name = ac_model_file_tensor(file, i)->name;
    bool known = false;
    for (int k = 0; k < c->count && !known; k++) known = !strcmp(name, c->tensors[k].name);
    if (!known)
      return ac_fail(AC_ERROR_FORMAT, "%s holds tensor %s, which the model does not have", path,
                     ac_quote(name).text);
  }
  return AC_OK;
}

/* ---- loading --------------------------------------------------------------------------------- */

ac_status ac_state_write_cell(ac_instance *instance, const ac_cell *cell, int64_t first,
                              int64_t count, const void *data) {
  if (cell->role == AC_ROLE_PARAMETER && cell->dtype == AC_F32)
    return ac_instance_write_parameter(instance, cell->owner, first, count, data);
  const uint64_t size = ac_dtype_bytes(cell->dtype);
  return ac_instance_write_cell(instance, cell, (uint64_t)first * size, data,
                                (uint64_t)count * size);
}

static ac_status read_contents(const contents *c, ac_model_file *file, void *piece) {
  for (int i = 0; i < c->count; i++) {
    const ac_cell *cell = c->tensors[i].cell;
    const int found = ac_model_file_find(file, c->tensors[i].name);
    const int64_t most = PIECE_BYTES / (int64_t)ac_dtype_bytes(cell->dtype);
    for (int64_t first = 0; first < cell->count; first += most) {
      const int64_t count = cell->count - first < most ? cell->count - first : most;
      AC_TRY(ac_model_file_read_stored(file, found, first, count, piece));
      AC_TRY(ac_state_write_cell(&c->trainer->instance, cell, first, count, piece));
    }
  }
  return AC_OK;
}

/* Reads what a state of the same layers has. The text stays in the file, which is open until the
 * text is used. If the plan keeps gradients and the other did not, the records begin anew. */
static ac_status read_layers(const ac_trainer *trainer, const ac_model_file *file, const char *path,
                             record *r) {
  if (!trainer->layers.every) return AC_OK;
  const ac_plain_numbers numbers = ac_plain_numbers_begin();
  r->layers = ac_model_file_metadata(file, LAYERS);
  bool same = true;
  const bool fit = !r->layers || ac_layers_fit(&trainer->layers, r->layers, &same);
  if (!same) r->layers = NULL;
  ac_plain_numbers_end(&numbers);
  return fit ? AC_OK : refuse_value(path, LAYERS);
}

/* Without a trainer that wants them they are checked alone; where the state has none they begin. */
static ac_status read_noise_layers(const ac_trainer *trainer, const ac_model_file *file,
                                   const char *path, ac_noise_layers *layers) {
  const char *text = ac_model_file_metadata(file, NOISE_LAYERS);
  const int parameters = trainer->instance.plan->graph->parameter_count;
  if (layers->of) {
    memset(layers->of, 0, (size_t)parameters * sizeof *layers->of);
    layers->count = layers->begun = 0;
  }
  const ac_plain_numbers numbers = ac_plain_numbers_begin();
  const bool good = !text || ac_noise_layers_get(layers, parameters, text);
  ac_plain_numbers_end(&numbers);
  return good ? AC_OK : refuse_value(path, NOISE_LAYERS);
}

static ac_status load_from(ac_trainer *trainer, ac_model_file *file, const char *path,
                           void *piece) {
  record r = {.groups = trainer->groups};
  contents c;
  AC_TRY(check_is_state(file, path));
  AC_TRY(ac_model_file_verify(file));
  const ac_plain_numbers numbers = ac_plain_numbers_begin();
  ac_status read = read_record(file, path, &r);
  if (read == AC_OK) read = read_groups(file, path, &r);
  ac_plain_numbers_end(&numbers);
  AC_TRY(read);
  AC_TRY(check_record(trainer, path, &r));
  AC_TRY(read_layers(trainer, file, path, &r));
  AC_TRY(list_contents(&c, trainer, r.samples > 0, path));
  ac_status status = ac_state_check_frozen(trainer, file, path);
  if (status == AC_OK) status = check_tensors(&c, file, path);
  if (status == AC_OK)
    status = read_noise_layers(trainer, file, path, &(ac_noise_layers){.of = NULL});
  if (status == AC_OK) {
    ac_trainer_discard(trainer);
    status = read_contents(&c, file, piece);
    trainer->instance.unusable =
        status == AC_OK ? NULL : "a state was loaded in part only; load another";
  }
  free_contents(&c);
  if (status != AC_OK) return status;
  const ac_plain_numbers of_layers = ac_plain_numbers_begin();
  take_record(trainer, &r);
  ac_plain_numbers_end(&of_layers);
  AC_TRY(read_noise_layers(trainer, file, path, &trainer->noise.layers));
  ac_trainer_set_window_scale(trainer);
  return AC_OK;
}

ac_status ac_trainer_load_state(ac_trainer *trainer, const char *path) {
  AC_REQUIRE(trainer, path);
  AC_TRY(ac_trainer_check_deciding(trainer));
  AC_TRY(ac_trainer_check_asking(trainer));
  AC_TRY(ac_trainer_check_averaged(trainer));
  ac_model_file *file;
  AC_TRY(ac_model_file_open(&file, path));
  void *piece = malloc(PIECE_BYTES);
  ac_status status = piece ? load_from(trainer, file, path, piece)
                           : ac_fail(AC_ERROR_MEMORY, "no memory to load %s", path);
  free(piece);
  ac_model_file_close(file);
  return status;
}

/* ---- what a file says ------------------------------------------------------------------------ */

/* Whether there is a tensor with a name that begins so; of one dtype, or AC_DTYPE_COUNT: of any. */
static bool has_tensor(const ac_model_file *file, const char *begins, ac_dtype dtype) {
  for (int i = 0; i < ac_model_file_tensor_count(file); i++) {
    const ac_model_tensor *tensor = ac_model_file_tensor(file, i);
    if (!strncmp(tensor->name, begins, strlen(begins)) &&
        (dtype == AC_DTYPE_COUNT || tensor->dtype == dtype))
      return true;
  }
  return false;
}

ac_status ac_state_get_info(const ac_model_file *file, ac_state_info *info) {
  AC_REQUIRE(file, info);
  const char *path = ac_model_file_path(file), *fingerprint;
  record r = {.version = 0};
  AC_TRY(check_is_state(file, path));
  const ac_plain_numbers numbers = ac_plain_numbers_begin();
  const ac_status status = read_record(file, path, &r);
  ac_plain_numbers_end(&numbers);
  AC_TRY(status);
  fingerprint = ac_model_file_metadata(file, FINGERPRINT);
  const bool small = has_tensor(file, "accrue/state.", AC_U8);
  *info = (ac_state_info){.progress = {.updates = r.updates,
                                       .steps = r.fit.steps,
                                       .skipped = r.fit.skipped,
                                       .samples = r.fit.samples,
                                       .epoch = r.fit.next.epoch,
                                       .position = r.fit.next.position,
                                       .window_samples = r.samples},
                          .seed = r.seed,
                          .optimizer = (ac_optimizer_kind)r.optimizer,
                          .optimizer_state = small ? AC_STATE_8BIT : AC_STATE_F32,
                          .precision = (ac_precision)r.precision,
                          .loss_means = (ac_loss_means)r.loss_means,
                          .batch = r.batch,
                          .micro_batch = r.micro_batch,
                          .window_batch = r.window_batch ? r.window_batch : r.batch,
                          .averages = has_tensor(file, "accrue/average/", AC_DTYPE_COUNT),
                          .loss_scaling = (ac_loss_scaling)r.scaling,
                          .loss_scale = r.scale,
                          .fitted = r.fit.begun,
                          .train_samples = r.fit.count,
                          .fit_seed = r.fit.seed,
                          .no_shuffle = r.fit.no_shuffle,
                          .fingerprint = fingerprint ? fingerprint : "",
                          .spikes = r.spikes.alarms,
                          .went_back = r.spikes.went_back,
                          .spike_rate = r.spikes.rate,
                          .reductions = r.plateau.reductions};
  return AC_OK;
}
