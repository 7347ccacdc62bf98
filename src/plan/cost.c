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

/* A middling CPU: 2 microseconds to begin an op, 200 GFLOP/s, 20 GB/s. What the dry device has. */
static void guess(ac_cost_model *model) {
  for (int op = 0; op < AC_OP_COUNT; op++) {
    model->launch[op] = 2e-6;
    model->per_flop[op] = 1 / 200e9;
    model->per_byte[op] = 1 / 20e9;
  }
}

/* ---- the disk ---------------------------------------------------------------------------------
 */

enum { FORMAT = 2 };

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

static ac_status load_or_measure(ac_cost_model *model, ac_device *device, ac_dtype storage) {
  char path[4096];
  uint64_t key = model_key(&device->info, storage);
  bool cached = model_path(path, sizeof path, key);
  if (cached && load(model, path, key)) return AC_OK;
  AC_TRY(ac_cost_calibrate(model, device, storage));
  if (cached) save(model, path, key);
  return AC_OK;
}

ac_status ac_cost_model_get(const ac_cost_model **result, ac_device *device, ac_dtype storage) {
  *result = device->costs[storage];
  if (*result) return AC_OK;
  ac_cost_model *model = malloc(sizeof *model);
  if (!model) return ac_fail(AC_ERROR_MEMORY, "no memory for a model of the device's speed");
  guess(model);
  bool dry = device->backend->computes_nothing;
  ac_status status = dry ? AC_OK : load_or_measure(model, device, storage);
  if (status != AC_OK) {
    free(model);
    return status;
  }
  *result = device->costs[storage] = model;
  return AC_OK;
}
