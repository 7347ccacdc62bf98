/* The devices of the choices. Each is opened once, and its speeds are drawn, not measured. */
#include "random.h"

#include "plan/cost.h"

#include <stdlib.h>

enum { ISAS = 3, THREADS = 3, STREAMS = 2, CLASSES = 4 };
static ac_device *cpus[RANDOM_MOST_RANKS][ISAS][THREADS][STREAMS][CLASSES],
    *accelerators[RANDOM_MOST_RANKS];

/* From a tenth to ten times of a middling machine, op by op. */
static void draw_costs(ac_device *device, uint64_t key) {
  op_draw d = {.state = key};
  ac_cost_account *account = ac_cost_account_of(device);
  for (int storage = 0; storage < AC_DTYPE_COUNT; storage++) {
    ac_cost_model *model = account->models[storage];
    if (!model) model = account->models[storage] = calloc(1, sizeof *model);
    for (int op = 0; op < AC_OP_COUNT; op++) {
      model->launch[op] = op_draw_between(&d, 0.1, 10) * 2e-6;
      model->per_flop[op] = op_draw_between(&d, 0.1, 10) / 200e9;
      model->per_byte[op] = op_draw_between(&d, 0.1, 10) / 20e9;
      model->known[op] = 1;
    }
  }
}

static ac_device *open_cpu(const random_choice *choice, int rank) {
  static const char *const isas[] = {"base", "v3", "v4"};
  static const char *const classes[] = {"widened", "tiles", "vdpbf16ps", "bfmmla"};
  int isa = choice->level[RANDOM_isa], threads = choice->level[RANDOM_threads];
  int stream = choice->level[RANDOM_stream], class = choice->level[RANDOM_products];
  ac_device **device = &cpus[rank][isa][threads][stream][class];
  ac_device_desc desc = {.name = "cpu", .threads = threads + 1};
  setenv("ACCRUE_ISA", isas[isa], 1);
  setenv("ACCRUE_PRODUCTS", classes[class], 1);
  setenv("ACCRUE_CPU_STREAM", stream ? "1" : "0", 1);
  if (threads == THREADS_FOR_ALL) setenv("ACCRUE_CPU_SERIAL", "0", 1);
  else unsetenv("ACCRUE_CPU_SERIAL");
  if (!*device && ac_device_open(device, &desc) != AC_OK) return NULL;
  return *device;
}

static ac_device *open_opencl(int rank) {
  ac_device **device = &accelerators[rank];
  if (!*device && ac_device_open(device, &(ac_device_desc){.name = "opencl"}) != AC_OK) return NULL;
  return *device;
}

ac_device *random_device(const random_choice *choice, bool opencl, uint64_t key, int rank) {
  ac_device *device = opencl ? open_opencl(rank) : open_cpu(choice, rank);
  if (device) draw_costs(device, key);
  return device;
}

void random_close_devices(void) {
  for (int i = 0; i < RANDOM_MOST_RANKS * ISAS * THREADS * STREAMS * CLASSES; i++) {
    ac_device **device = &cpus[0][0][0][0][0] + i;
    ac_device_close(*device);
    *device = NULL;
  }
  for (int r = 0; r < RANDOM_MOST_RANKS; r++) {
    ac_device_close(accelerators[r]);
    accelerators[r] = NULL;
  }
}
