/* Where a device's model comes from: the device itself, a file, or measurements, in this order.
 *
 * The file's name and key are a hash of all that its numbers depend on. One that is damaged,
 * foreign or holds numbers that no measurement gives is ignored and written anew; a folder that
 * cannot be written to costs the time of measuring again, nothing else. */
#include "plan/cost.h"

#include "core/error.h"
#include "core/platform.h"
#include "core/random.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- predicting -------------------------------------------------------------------------------
 */

static bool multiplies_matrices(ac_op op) {
  switch (op) {
  case AC_OP_linear:
  case AC_OP_linear_input_gradient:
  case AC_OP_linear_weight_gradient:
  case AC_OP_matmul:
  case AC_OP_attention:
  case AC_OP_attention_gradient:
  case AC_OP_linear_cross_entropy:
  case AC_OP_linear_cross_entropy_gradient:
  case AC_OP_conv2d:
  case AC_OP_conv2d_input_gradient:
  case AC_OP_conv2d_weight_gradient:
    return true;
  default:
    return false;
  }
}

ac_cost ac_cost_work(const ac_op_args *args) {
  ac_cost cost = ac_op_cost(args);
  if (!multiplies_matrices(args->op)) cost.flops = 0;
  return cost;
}

double ac_cost_seconds(const ac_cost_model *model, const ac_op_args *args) {
  ac_cost work = ac_cost_work(args);
  return model->launch[args->op] + work.flops * model->per_flop[args->op] +
         work.bytes * model->per_byte[args->op];
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

enum { FORMAT = 4 };

typedef struct cost_file {
  char magic[8];
  uint64_t key, checksum;
  ac_cost_model model;
} cost_file;
static const char cost_magic[8] = "ACCOSTS";

static uint64_t model_key(const ac_device_info *info, ac_dtype storage) {
  char text[512];
  snprintf(text, sizeof text, "%d|%s|%s|%s|%s|%" PRIu32 "|%d|%s", FORMAT, ac_version(),
           info->backend, info->name, info->driver, info->compute_units, (int)AC_OP_COUNT,
           ac_dtype_name(storage));
  return ac_hash_text(text);
}

static uint64_t model_checksum(const ac_cost_model *model) {
  const unsigned char *byte = (const void *)model;
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < sizeof *model; i++) hash = (hash ^ byte[i]) * 0x100000001b3u;
  return hash;
}

static bool is_plausible(const ac_cost_model *model) {
  for (int op = 0; op < AC_OP_COUNT; op++) {
    double launch = model->launch[op], flop = model->per_flop[op], byte = model->per_byte[op];
    if (!(launch >= 0 && flop >= 0 && byte > 0) || !isfinite(launch + flop + byte)) return false;
    if (model->known[op] != AC_COST_GUESSED && model->known[op] != AC_COST_MEASURED) return false;
  }
  return true;
}

static bool model_path(char *path, size_t size, uint64_t key) {
  char folder[3072];
  if (!ac_cache_folder(folder, sizeof folder, "costs")) return false;
  int length = snprintf(path, size, "%s/%016" PRIx64 ".bin", folder, key);
  return length > 0 && (size_t)length < size;
}

static bool load(ac_cost_model *model, const char *path, uint64_t key) {
  FILE *stream = fopen(path, "rb");
  if (!stream) return false;
  cost_file file;
  bool good = fread(&file, sizeof file, 1, stream) == 1 && fgetc(stream) == EOF &&
              !memcmp(file.magic, cost_magic, sizeof cost_magic) && file.key == key &&
              file.checksum == model_checksum(&file.model) && is_plausible(&file.model);
  fclose(stream);
  if (good) *model = file.model;
  return good;
}

static void save(const ac_cost_model *model, const char *path, uint64_t key) {
  cost_file contents = {.key = key, .checksum = model_checksum(model), .model = *model};
  memcpy(contents.magic, cost_magic, sizeof cost_magic);
  ac_atomic_file file;
  if (ac_atomic_open(&file, path) != AC_OK) return;
  if (fwrite(&contents, sizeof contents, 1, file.stream) == 1) ac_atomic_commit(&file);
  else ac_atomic_abandon(&file);
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

/* Of what is kept already, everything stays: another process may have measured other ops. */
static void keep(const ac_cost_model *model, const char *path, uint64_t key) {
  ac_cost_model kept;
  if (!load(&kept, path, key)) ac_cost_guess(&kept);
  learn(&kept, model);
  save(&kept, path, key);
}

static ac_status load_or_measure(ac_cost_model *model, ac_device *device, ac_dtype storage,
                                 const bool wanted[AC_OP_COUNT]) {
  char path[4096];
  ac_cost_model kept;
  uint64_t key = model_key(&device->info, storage);
  bool cached = model_path(path, sizeof path, key), missing[AC_OP_COUNT];
  if (cached && load(&kept, path, key)) learn(model, &kept);
  if (knows(model, wanted)) return AC_OK;
  for (int op = 0; op < AC_OP_COUNT; op++) missing[op] = wanted[op] && !model->known[op];
  AC_TRY(ac_cost_calibrate(model, device, storage, missing, AC_COST_SECONDS - device->calibrating));
  if (cached) keep(model, path, key);
  return AC_OK;
}

static ac_status new_model(ac_cost_model **result, const ac_device *device) {
  ac_cost_model *model = *result = malloc(sizeof *model);
  if (!model) return ac_fail(AC_ERROR_MEMORY, "no memory for a model of the device's speed");
  ac_cost_guess(model);
  bool dry = device->backend->computes_nothing;
  for (int op = 0; op < AC_OP_COUNT; op++)
    model->known[op] = dry ? AC_COST_MEASURED : AC_COST_GUESSED;
  return AC_OK;
}

ac_status ac_cost_model_get(const ac_cost_model **result, ac_device *device, ac_dtype storage,
                            const bool wanted[AC_OP_COUNT]) {
  bool all[AC_OP_COUNT];
  for (int op = 0; op < AC_OP_COUNT; op++) all[op] = true;
  if (!wanted) wanted = all;
  *result = NULL;
  if (!device->costs[storage]) AC_TRY(new_model(&device->costs[storage], device));
  ac_cost_model *model = device->costs[storage];
  if (!knows(model, wanted)) AC_TRY(load_or_measure(model, device, storage, wanted));
  *result = model;
  return AC_OK;
}
