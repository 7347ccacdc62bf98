/* Where a device's model comes from: the device itself, a file, or measurements, in this order.
 *
 * The file's name and key are a hash of all that its numbers depend on. A file that is damaged, is
 * of another key, or has impossible numbers is ignored and written anew. If the folder cannot be
 * written to, that only costs the time of measuring again. */
#include "plan/cost.h"

#include "core/platform/cache_file.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/platform/clock.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- predicting -------------------------------------------------------------------------------
 */

double ac_cost_of_work(const ac_cost_model *model, ac_op op, ac_cost work) {
  return model->launch[op] + work.flops * model->per_flop[op] + work.bytes * model->per_byte[op];
}

double ac_cost_seconds(const ac_cost_model *model, const ac_op_args *args) {
  return ac_cost_of_work(model, args->op, ac_op_work(args));
}

double ac_cost_step_seconds(const ac_cost_model *model, const ac_graph *graph, const ac_step *step,
                            int64_t batch) {
  const ac_run_state run = {.training = true, .batch = batch};
  ac_op_args args;
  ac_step_arguments(step, graph, &run, &args);
  return ac_cost_seconds(model, &args);
}

void ac_cost_guess(ac_cost_model *model) {
  memset(model, 0, sizeof *model);
  for (int op = 0; op < AC_OP_COUNT; op++) {
    model->launch[op] = 2e-6;
    model->per_flop[op] = 1 / 200e9;
    model->per_byte[op] = 1 / 20e9;
  }
}

/* ---- the disk ---------------------------------------------------------------------------------
 */

enum { FORMAT = 8 };

typedef struct cost_file {
  char magic[8];
  uint64_t key, checksum;
  ac_cost_model model;
} cost_file;
static const char cost_magic[8] = "ACCOSTS";

static uint64_t model_key(const ac_device_info *info, ac_dtype storage) {
  char text[640];
  snprintf(text, sizeof text, "%d|%s|%s|%s|%s|%" PRIu32 "|%d|%s|%s", FORMAT, ac_version(),
           info->backend, info->name, info->driver, info->compute_units, (int)AC_OP_COUNT,
           ac_dtype_name(storage), storage == AC_F32 ? "" : info->bf16_products);
  return ac_hash_text(text);
}

static uint64_t model_checksum(const ac_cost_model *model) {
  return ac_hash(AC_HASH_BEGIN, model, sizeof *model);
}

/* Limits far beyond all devices, also simulators, so that the sums of a plan's costs stay
 * finite. */
static bool is_plausible(const ac_cost_model *model) {
  const double longest_launch = 100, slowest = 1e-3, fastest = 1e-20; /* seconds */
  for (int op = 0; op < AC_OP_COUNT; op++) {
    const double launch = model->launch[op], flop = model->per_flop[op], byte = model->per_byte[op];
    if (!(launch >= 0 && launch <= longest_launch)) return false;
    if (!(flop == 0 || (flop >= fastest && flop <= slowest))) return false;
    if (!(byte >= fastest && byte <= slowest)) return false;
    if (model->known[op] != AC_COST_GUESSED && model->known[op] != AC_COST_MEASURED) return false;
  }
  return true;
}

static bool load(ac_cost_model *model, const ac_cache_file *cache, uint64_t key) {
  cost_file file;
  if (!ac_cache_file_read(cache, &file, sizeof file) ||
      memcmp(file.magic, cost_magic, sizeof cost_magic) != 0 || file.key != key ||
      file.checksum != model_checksum(&file.model) || !is_plausible(&file.model))
    return false;
  *model = file.model;
  return true;
}

static void save(const ac_cost_model *model, const ac_cache_file *cache, uint64_t key) {
  cost_file file = {.key = key, .checksum = model_checksum(model), .model = *model};
  memcpy(file.magic, cost_magic, sizeof cost_magic);
  ac_cache_file_write(cache, &file, sizeof file, NULL, 0);
}

/* ---- the device's account ---------------------------------------------------------------------
 */

static void free_account(void *attached) {
  ac_cost_account *account = attached;
  for (int i = 0; i < AC_DTYPE_COUNT; i++) free(account->models[i]);
  free(account);
}

ac_cost_account *ac_cost_account_of(ac_device *device) {
  if (device->attached) return device->attached;
  ac_cost_account *made = calloc(1, sizeof *made);
  if (!made) return NULL;
  made->clock = ac_clock;
  device->attached = made;
  device->free_attached = free_account;
  return made;
}

/* ---- getting ----------------------------------------------------------------------------------
 */

static bool knows(const ac_cost_model *model, const bool wanted[AC_OP_COUNT]) {
  for (int op = 0; op < AC_OP_COUNT; op++)
    if (wanted[op] && !model->known[op]) return false;
  return true;
}

/* Adds what `other` has measured and `model` does not know. */
static void learn(ac_cost_model *model, const ac_cost_model *other) {
  for (int op = 0; op < AC_OP_COUNT; op++) {
    if (model->known[op] || other->known[op] != AC_COST_MEASURED) continue;
    model->launch[op] = other->launch[op];
    model->per_flop[op] = other->per_flop[op];
    model->per_byte[op] = other->per_byte[op];
    model->known[op] = AC_COST_MEASURED;
  }
}

/* Keeps all that the file has already: another process may have measured other ops. */
static void keep(const ac_cost_model *model, const ac_cache_file *cache, uint64_t key) {
  ac_cost_model kept;
  if (!load(&kept, cache, key)) ac_cost_guess(&kept);
  learn(&kept, model);
  save(&kept, cache, key);
}

static ac_cache_file cache_of(const ac_device *device, ac_dtype storage, uint64_t *key) {
  *key = model_key(&device->info, storage);
  return ac_cache_file_of("costs", "", *key, ".bin");
}

static ac_status load_or_measure(ac_cost_model *model, ac_device *device, ac_dtype storage,
                                 const bool wanted[AC_OP_COUNT]) {
  const double left = AC_COST_SECONDS - ac_cost_account_of(device)->spent;
  ac_cost_model kept;
  bool missing[AC_OP_COUNT];
  uint64_t key;
  const ac_cache_file cache = cache_of(device, storage, &key);
  if (load(&kept, &cache, key)) learn(model, &kept);
  if (knows(model, wanted)) return AC_OK;
  for (int op = 0; op < AC_OP_COUNT; op++) missing[op] = wanted[op] && !model->known[op];
  AC_TRY(ac_cost_calibrate(model, device, storage, missing, left));
  keep(model, &cache, key);
  return AC_OK;
}

static ac_status no_memory(void) {
  return ac_fail(AC_ERROR_MEMORY, "no memory for a model of the device's speed");
}

/* The dry device has nothing else to know. */
static void begin(ac_cost_model *model, const ac_device *device) {
  const bool dry = device->backend->computes_nothing;
  ac_cost_guess(model);
  for (int op = 0; op < AC_OP_COUNT; op++)
    model->known[op] = dry ? AC_COST_MEASURED : AC_COST_GUESSED;
}

static ac_status new_model(ac_cost_model **result, const ac_device *device) {
  ac_cost_model *model = *result = malloc(sizeof *model);
  if (!model) return no_memory();
  begin(model, device);
  return AC_OK;
}

ac_status ac_cost_model_get(const ac_cost_model **result, ac_device *device, ac_dtype storage,
                            const bool wanted[AC_OP_COUNT]) {
  bool all[AC_OP_COUNT];
  for (int op = 0; op < AC_OP_COUNT; op++) all[op] = true;
  if (!wanted) wanted = all;
  *result = NULL;
  ac_cost_account *account = ac_cost_account_of(device);
  if (!account) return no_memory();
  if (!account->models[storage]) AC_TRY(new_model(&account->models[storage], device));
  ac_cost_model *model = account->models[storage];
  if (!knows(model, wanted)) AC_TRY(load_or_measure(model, device, storage, wanted));
  *result = model;
  return AC_OK;
}

bool ac_cost_model_recall(ac_cost_model *model, ac_device *device, ac_dtype storage,
                          const bool wanted[AC_OP_COUNT]) {
  const ac_cost_account *account = ac_cost_account_of(device);
  ac_cost_model kept;
  uint64_t key;
  begin(model, device);
  if (account && account->models[storage]) learn(model, account->models[storage]);
  if (knows(model, wanted)) return true;
  const ac_cache_file cache = cache_of(device, storage, &key);
  if (load(&kept, &cache, key)) learn(model, &kept);
  return knows(model, wanted);
}
