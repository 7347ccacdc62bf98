/* What the files of the bench share. */
#ifndef AC_BENCH_BENCH_H
#define AC_BENCH_BENCH_H

#include <accrue/bench.h>

#include "graph/block.h"
#include "plan/placed_op.h"

enum { AC_BENCH_LEAST_SAMPLES = 5 }; /* in a round */

/* Fills in the defaults; refuses what is out of range. */
ac_status ac_bench_resolve(ac_bench_desc *resolved, const ac_bench_desc *desc);

enum { AC_BENCH_SHAPES = 256 };

typedef struct ac_bench_entry {
  ac_op_args args;  /* without handles; attributes are those below, or calibration's */
  ac_run_state run; /* what args.run points to */
  _Alignas(8) unsigned char attributes[AC_MAX_ATTRIBUTE_BYTES];
  char shapes[AC_BENCH_SHAPES];
  bool backward, update;
  int64_t count;
} ac_bench_entry;

struct ac_bench {
  ac_device *device;
  ac_bench_desc desc; /* resolved */
  ac_timing_pattern pattern;
  ac_bench_entry **entries;
  int count, capacity;
  ac_block **kept; /* what attributes of plans' ops point to */
  int kept_count;
};

/* Bytes that runs go round in: what was asked for, or the default, within a quarter of the device.
 */
uint64_t ac_bench_footprint(const ac_bench_desc *resolved, const ac_device *device);

/* Shapes, attributes and whether it is evaluation in words; different for any two runs of an op
 * that do different work, types aside. args->run must be set. */
void ac_bench_describe(char *text, size_t size, const ac_op_args *args);

/* The device `dry` computes nothing that could be measured. */
ac_status ac_bench_refuse_dry(const ac_device *device);

#endif
