/* `accrue bench memory`: a training process's resident memory against its plan. */
#ifndef TOOLS_BENCH_MEMORY_H
#define TOOLS_BENCH_MEMORY_H

#include "bench/models.h"

/* Opens the device itself, to see the memory of that. A status of message.h. */
int bench_memory(const ac_device_desc *device, const bench_model *model,
                 const bench_setting *setting, int64_t steps);

#endif
